#!/usr/bin/env python3
"""Compares the code that two builds of the compiler make.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/same_code.py BEFORE AFTER [--phase tile|last] [--only TEXT] [--jobs N]

BEFORE and AFTER are two attn-opt. A restructuring has to leave each kernel as it
was: every problem below is compiled by both, and the texts are compared. With
--phase tile (the default) these are the kernels on tiles and their plans, from
which all below follows; with --phase last the LLVM dialect of CPUs, and for GPUs
NVVM, from which PTX is printed. attn-run, on PATH, writes the input. Where texts
differ, the name of the problem is printed, and the first line that is another. Texts
that have the same lines but for the names of values, in another order, as constants
and loads ahead of loops are, are counted apart: --verbose names them too. The last
line is "N programs compared, M differ, K more in the order of lines alone".
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(os.path.dirname(FOLDER), "Package", "programs")
TARGETS = ("sm_90a", "sm_80", "cpu-avx2", "cpu-avx512")

# Of these, all variants with the first, and every third with the others.
TENSORS = ("d=128,dtype=bf16", "d=64,dtype=bf16", "d=128,dtype=f16",
           "d=64,dtype=f32", "d=192,dv=128,dtype=bf16")
VARIANTS = """
- causal=bottom_right window=1023:0 softcap=30 sinks=1,lengths=random
alibi=h alibi=h,causal=bottom_right alibi=h,softcap=20 bias=bhqk bias=b11k
bias=11qk,alibi=h bias=bh1k bias=bhqk,causal=bottom_right
hq=8,hk=2 hq=8,hk=2,causal=bottom_right hq=8,hk=2,sq=1,sk=9000
hq=8,hk=2,sq=1,sk=9000,alibi=h hq=8,hk=2,sq=1,sk=9000,softcap=30
sequences=2,causal=bottom_right mask=11qk mask=b11k mask=bhqk,lengths=random
page=64,lengths=random page=16,hq=8,hk=2,sq=1,sk=4096,lengths=random
monoid=softmax_max,outputs=2 monoid=logsumexp monoid=softmax_entropy,outputs=2
monoid=sigmoid_sum monoid=relu_sum monoid=stick_breaking,causal=bottom_right
monoid=alpha_compositing monoid=maxplus monoid=welford,outputs=2
""".split()
GRADIENTS = ("causal=bottom_right", "alibi=h", "hq=8,hk=2,softcap=30", "bias=bhqk",
             "monoid=stick_breaking,causal=bottom_right")
SCANS = ("decay=head", "decay=head,delta=1", "decay=key,erase=after",
         "decay=head,dtype=bf16,normalize=1")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else "error: " + done.stderr


def list_problems():
    """(name, target, how its input is made) of each program."""
    for target in TARGETS:
        for t, tensors in enumerate(TENSORS):
            for v, variant in enumerate(VARIANTS):
                if t == 0 or (t + v) % 3 == 0:
                    options = tensors + ("" if variant == "-" else "," + variant)
                    yield "%s %s" % (target, options), target, ("attention", options)
        for variant in GRADIENTS:
            options = TENSORS[0] + "," + variant
            yield "%s gradients %s" % (target, options), target, ("gradients", options)
        for options in SCANS:
            yield "%s scan %s" % (target, options), target, ("scan", options)
        for name in sorted(os.listdir(PROGRAMS)):
            path = os.path.join(PROGRAMS, name)
            yield "%s %s" % (target, name), target, ("program", path)


def make_input(target, how):
    kind, text = how
    if kind == "program":
        with open(text) as file:
            return file.read()
    device = target if target.startswith("cpu") else "emulator:" + target
    if kind == "scan":
        text += ",b=1,h=2,t=256,dk=64,dv=64"
        return run("attn-run", "--scan", text, "--until-after", "input", "--target",
                   device)
    said = dict(x.split("=", 1) for x in text.split(","))
    sizes = ["%s=1000" % size for size in ("sq", "sk") if size not in said]
    return run("attn-run", "--attention", ",".join([text] + sizes), "--until-after",
               "input", "--target", device)


def compile_with(tool, text, target, how, phase):
    until = " until-after=tile" if phase == "tile" else ""
    pipeline = ["--attn-pipeline=target=%s%s" % (target, until)]
    if how[0] == "gradients":
        pipeline = ["--attn-import-prelude", "--attn-to-aggregate", "--canonicalize",
                    "--attn-differentiate=replace=true"] + pipeline
    done = subprocess.run([tool, *pipeline], input=text, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else "error: " + done.stderr


def lines_of(text):
    """The lines, sorted, without the names of values and places in a table."""
    return sorted(re.sub(r"[%!#][\w.:#]+", "%", line).strip()
                  for line in text.splitlines())


def compare(problem, options):
    """The name and what differs, or nothing; and the kind: "same", "order", "other",
    or "refused" where neither compiles it."""
    name, target, how = problem
    text = make_input(target, how)
    if text.startswith("error: "):
        return name, text.strip(), "other"
    before, after = (compile_with(tool, text, target, how, options.phase)
                     for tool in (options.before, options.after))
    if before == after:
        return name, None, "refused" if before.startswith("error: ") else "same"
    lines = zip(before.splitlines() + [""], after.splitlines() + [""])
    first = next(((x, y) for x, y in lines if x != y), ("", "more lines"))
    kind = "order" if lines_of(before) == lines_of(after) else "other"
    return name, "before: %s\n  after:  %s" % tuple(x.strip() for x in first), kind


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--phase", choices=("tile", "last"), default="tile")
    parser.add_argument("--only", default="", help="programs whose name holds this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    problems = [p for p in list_problems() if options.only in p[0]]
    counts = dict.fromkeys(("same", "order", "other", "refused"), 0)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, what, kind in pool.map(lambda p: compare(p, options), problems):
            counts[kind] += 1
            if kind == "other" or (kind == "order" and options.verbose):
                print("%s\n  %s" % (name, what), flush=True)
    print("%d programs compared, %d differ, %d more in the order of lines alone; both "
          "refuse %d alike" % (len(problems), counts["other"], counts["order"],
                               counts["refused"]))
    return 1 if counts["other"] else 0


if __name__ == "__main__":
    sys.exit(main())
