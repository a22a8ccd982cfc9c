#!/usr/bin/env python3
"""Kernels on a Hopper GPU beside the same kernels on the emulator.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/agreement.py [--device cuda] [--jobs N] [--only TEXT] [--every N]
        [--limit SECONDS] [--verbose]

Each configuration runs once on the GPU and once on `emulator:TARGET`, from the
same inputs. The kernels are the same IR at the level gpu, or the configuration
fails. Both results are checked against the float64 reference. Outputs of 16
bits may differ by one unit in the last place of the largest number of their
row; outputs in f32 by what the check of the GPU's output allows (twice the
error of an emulation in f32, and two units in the last place). What differs is
printed; the last lines are histograms of the differences and
"N configurations, F differ, S skipped".

--device is for a machine without a GPU: `emulator:sm_80` stands for other
orders of sums.
"""

import argparse
import concurrent.futures
import collections
import itertools
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(HERE)
import assemble

# Programs lie elsewhere in the package.
PROGRAMS = next(
    path
    for path in (os.path.join(HERE, "../programs"),
                 os.path.join(HERE, "../Package/programs"))
    if os.path.isdir(path)
)
# What the table of kernels that are assembled leaves out: targets, and groups
# of alternatives.
MORE = [
    (
        "sm_90a sm_80",
        "d=64,dtype=bf16 d=128,dtype=f16 d=64,dtype=f32,precision=tf32",
        "causal=top_left window=40:30 window=-1:20 window=90:-1 "
        "causal=bottom_right,window=60:0 mask=bhqk mask=11qk,causal=bottom_right "
        "mask=b11k,window=80:0 lengths=random,causal=bottom_right bias=bhqk bias=1h1k "
        "bias=b1qk,bias_dtype=f32 bias=1hqk,mask=b11k alibi=bh sinks=1,window=50:0 "
        "sinks=1,lengths=random,b=3 softcap=5,causal=bottom_right scale=0.5 outputs=2 "
        "sequences=3,hq=4,hk=2 layout=bshd,causal=bottom_right layout=sbhd "
        "b=3,hq=6,hk=2 hq=5,hk=1,causal=top_left",
    ),
    (
        "sm_90a sm_80",
        "d=64,dtype=f16 d=96,dtype=bf16 d=40,dtype=bf16 d=64,dtype=f32,precision=tf32",
        "monoid=softmax_max,outputs=2 monoid=softmax_entropy,outputs=2 "
        "monoid=logsumexp monoid=sigmoid_sum monoid=relu_sum monoid=relu2_sum "
        "monoid=stick_breaking monoid=alpha_compositing monoid=sigmoid_sum,mask=b11k "
        "monoid=stick_breaking,window=70:0 monoid=logsumexp,causal=bottom_right",
    ),
    (
        "sm_90a sm_80",
        "d=32,dtype=f32 d=32,dtype=bf16",
        "monoid=maxplus monoid=welford,outputs=2 monoid=maxplus,causal=bottom_right "
        "monoid=welford,mask=b11k",
    ),
    (
        "sm_90a sm_80",
        "d=64,dtype=f32 d=48,dtype=f32",
        "- causal=bottom_right mask=b1qk alibi=h outputs=2 sinks=1",
    ),
]
# Rows and keys: whole and partial tiles, more keys than rows and fewer.
SIZES = [(150, 220), (128, 384), (70, 500), (300, 130), (1, 260), (260, 64), (193, 333)]


def named(options):
    return dict(option.split("=", 1) for option in options.split(",") if option)


def small(options, number):
    """The options at sizes of a few tiles."""
    given = named(options)
    given.update((key, value) for key, value in (("window", "70:0"),)
                 if given.get("window") == "1023:0")
    rows, keys = SIZES[number % len(SIZES)]
    if given.get("sq") == "8192":
        rows = keys = 8192
    elif given.get("sk") == "8192":
        rows, keys = 70, 8192
    if "sequences" in given:
        rows = keys = max(rows, 100)
    elif given.get("mask", "")[1:2] == "k" or given.get("causal") == "top_left":
        keys = max(rows, keys)
    given.update(sq=rows, sk=keys)
    given.setdefault("hq", "2")
    return ",".join("%s=%s" % x for x in given.items())


def configurations():
    """(target, what attn-run is told) of each."""
    found = {}
    for _, target, options in assemble.read_table(assemble.TABLE, all=True):
        if target in ("sm_80", "sm_90a"):
            found[target, options] = None
    for targets, *groups in MORE:
        for target in targets.split():
            for first in groups[0].split():
                for second in groups[1].split():
                    options = first + ("" if second == "-" else "," + second)
                    found[target, options] = None
    result = []
    with open(PROGRAMS + ".txt") as table:
        programs = [line.split() for line in table if line.strip()
                    and not line.startswith("#")]
    for number, (target, options) in enumerate(found):
        options, _, schedule = options.partition(",schedule=")
        name = named(options).get("program")
        if name:
            result += [(target, [os.path.join(PROGRAMS, file), *rest])
                       for file, *rest in programs if file == name + ".mlir"]
            continue
        how = ["--attention", small(options, number)]
        if schedule:
            how += ["--schedule", "#attn.schedule<%s>"
                    % schedule.replace("/", ", ").replace(":", " = ")]
        result.append((target, how))
    gated = os.path.join(HERE, "Inputs", "gated-decay.mlir")
    for target, entry in itertools.product(("sm_90a", "sm_80"), ("bf16", "f16", "f32")):
        result.append((target, [gated, "--entry", entry, "--sizes",
                                "b=1,hq=2,hk=1,sq=150,sk=220"]))
    return result


class Array:
    """A .npy file: its type, its shape, and the numbers as f32 or as words of
    16 bits."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        size = struct.unpack("<H", data[8:10])[0]
        header, data = data[10 : 10 + size].decode(), data[10 + size :]
        kind = re.search(r"'descr': '([^']*)'", header).group(1)
        shape = re.search(r"'shape': \(([^)]*)\)", header).group(1)
        self.shape = [int(n) for n in shape.split(",") if n.strip()]
        self.kind = {"<f4": "f32", "<f2": "f16"}.get(kind, "bf16")
        if self.kind == "f32":
            self.numbers = struct.unpack("<%df" % (len(data) // 4), data)
            return
        self.words = struct.unpack("<%dH" % (len(data) // 2), data)
        if self.kind == "f16":
            self.numbers = struct.unpack("<%de" % len(self.words), data)
        else:
            wide = struct.pack("<%dI" % len(self.words), *(w << 16 for w in self.words))
            self.numbers = struct.unpack("<%df" % len(self.words), wide)

    def unit(self, number):
        """The unit in the last place of a number."""
        digits, least = {"f16": (11, -24), "bf16": (8, -133)}[self.kind]
        if number == 0 or not math.isfinite(number):
            return 2.0**least
        return 2.0 ** max(math.frexp(number)[1] - digits, least)


def distance(word, other):
    """How many numbers of 16 bits one is from another."""
    first, second = ((w & 0x7FFF) * (-1 if w & 0x8000 else 1) for w in (word, other))
    return abs(first - second)


class Difference:
    """Of an output of the GPU and of the emulator."""

    def __init__(self, first, second, bound):
        self.own, self.row = collections.Counter(), collections.Counter()
        self.share = 0.0
        self.wrong, self.first = 0, ""
        if (first.kind, first.shape) != (second.kind, second.shape):
            self.note("types or shapes differ")
            return
        columns = max(first.shape[-1], 1) if first.shape else 1
        for begin in range(0, len(first.numbers), columns):
            ours, theirs = first.numbers[begin : begin
                                         + columns], second.numbers[begin : begin
                                                                    + columns]
            if first.kind == "f32":
                self.compare(begin, ours, theirs, lambda x, y: abs(x - y) <= bound)
                if bound:
                    shares = [abs(x - y) / bound for x, y in zip(ours, theirs)
                              if math.isfinite(x) and math.isfinite(y)]
                    self.share = max([self.share, *shares])
                continue
            words = zip(first.words[begin : begin + columns],
                        second.words[begin : begin + columns])
            for x, y, (v, w) in zip(ours, theirs, words):
                self.own[bucket(distance(v,
                                         w))] += math.isfinite(x) and math.isfinite(y)
            finite = [abs(x) for x in ours + theirs if math.isfinite(x)]
            unit = first.unit(max(finite, default=0))
            for x, y in zip(ours, theirs):
                if math.isfinite(x) and math.isfinite(y):
                    self.row[bucket(math.ceil(abs(x - y) / unit))] += 1
            self.compare(begin, ours, theirs, lambda x, y: abs(x - y) <= unit)

    def compare(self, begin, ours, theirs, near):
        for i, (x, y) in enumerate(zip(ours, theirs)):
            if x == y or (math.isnan(x) and math.isnan(y)):
                continue
            if not (math.isfinite(x) and math.isfinite(y) and near(x, y)):
                self.note("element %d is %.9g, emulated %.9g" % (begin + i, x, y))

    def note(self, text):
        self.wrong += 1
        self.first = self.first or text


def bucket(count):
    return count if count <= 4 else 8 if count <= 8 else 1 << 30


class Runner:
    def __init__(self, options):
        places = [os.path.join(HERE, "../..", *p, "attn-run")
                  for p in (("bin",), ("build", "bin"))]
        self.tool = next((p for p in places if os.access(p, os.X_OK)), "attn-run")
        self.device, self.seconds = options.device, options.limit

    def call(self, *arguments):
        try:
            return subprocess.run([self.tool, *arguments], capture_output=True,
                                  text=True, timeout=self.seconds)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(arguments, 124, "",
                                               "takes more than %d seconds"
                                               % self.seconds)

    def devices(self, target):
        """How attn-run is told of the GPU and of the emulator."""
        first = ["--device",
                 self.device] + (["--target", target] if self.device == "cuda" else [])
        return first, ["--device", "emulator:" + target]

    def check(self, numbered):
        """(verdict, text, differences) of a configuration."""
        number, (target, how) = numbered
        if "sq=8192" in how[1]:
            # Clusters, which so many rows take, for fewer.
            done = self.call(*how, "--target", target, "--until-after", "schedule")
            found = re.search(r"schedule<[^>]*>", done.stdout)
            if not found:
                return "skipped", last(done), []
            how = ["--attention", how[1].replace("8192,sk=8192", "600,sk=1100"),
                   "--schedule", "#attn." + found.group(0)]
        compiled = [option for i, option in enumerate(how)
                    if option not in ("--sizes", "--input")
                    and how[i - 1] not in ("--sizes", "--input")]
        done = self.call(*compiled, "--target", target, "--until-after", "gpu")
        if done.returncode:
            return "skipped", last(done), []
        names = re.findall(r'attn\.arg = \{[^{}]*?name = "([^"]*)"[^{}]*?\boutput\b',
                           done.stdout)
        names += re.findall(r'attn\.arg = \{[^{}]*?\boutput\b[^{}]*?name = "([^"]*)"',
                            done.stdout)
        names = list(dict.fromkeys(names))
        with tempfile.TemporaryDirectory() as folder:
            bounds = collections.defaultdict(float)
            for place, device in enumerate(self.devices(target)):
                outputs = sum((["--output", "%s=%s/%s-%d.npy" % (n, folder, n, place)]
                               for n in names), [])
                done = self.call(*how, *device, "--seed", str(number), "--check",
                                 *outputs,
                                 "--dump-phases-to", "%s/%d" % (folder, place))
                where = "emulated: " if place else ""
                undecided = " undecided: " in done.stderr
                if done.returncode and not undecided:
                    return "differs", where + last(done), []
                said = done.stdout + done.stderr
                for name, bound in re.findall(
                    r"check (?:of output ')?(\w+)[':].* error \S+, bound ([-+.e\d]+)",
                    said):
                    bounds[name] = max(bounds[name], float(bound))
            found, kernels = [], []
            for place in range(2):
                with open("%s/%d/04-gpu.mlir" % (folder, place)) as dumped:
                    kernels.append(dumped.read())
            if kernels[0] != kernels[1] and self.device == "cuda":
                return "differs", "other IR at the level gpu", []
            for name in names:
                arrays = [Array("%s/%s-%d.npy" % (folder, name, place))
                          for place in range(2)]
                if arrays[0].kind == "f32" and name not in bounds:
                    return "skipped", "the check says no bound of " + name, found
                found.append(Difference(*arrays, bounds[name]))
                if found[-1].wrong:
                    return (
                        "differs",
                        "%s: %d elements, the first: %s"
                        % (name, found[-1].wrong, found[-1].first),
                        found,
                    )
        return "agrees", "", found


def last(done):
    return (done.stderr or done.stdout
            or "exit status %d" % done.returncode).strip().splitlines()[-1]


def histogram(name, counts):
    total = max(sum(counts.values()), 1)
    shares = ["%s: %d (%.4f %%)" % ("more" if n == 1 << 30 else "up to 8" if n == 8
                                    else n, c, 100.0 * c / total)
              for n, c in sorted(counts.items())]
    print("%s: %s" % (name, ", ".join(shares) or "none"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="",
                        help="configurations whose target or options hold this")
    parser.add_argument("--every", type=int, default=1,
                        help="take each Nth configuration")
    parser.add_argument("--limit", type=int, default=120,
                        help="seconds that one run may take")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    start = time.time()
    os.environ["ATTN_EMULATOR"] = "eager"
    os.environ["ATTN_CACHE_DIR"] = ""
    chosen = [(i, c) for i, c in enumerate(configurations())
              if options.only in " ".join([c[0], *c[1]])]
    chosen = chosen[:: options.every]
    verdicts, own, row = (collections.Counter() for _ in range(3))
    share = 0.0
    runner = Runner(options)
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        for (number, (target, how)), (verdict, text, found) in zip(
            chosen, pool.map(runner.check, chosen)
        ):
            verdicts[verdict] += 1
            for difference in found:
                own.update(difference.own)
                row.update(difference.row)
                share = max(share, difference.share)
            if verdict != "agrees" or options.verbose:
                print("%s: %s %s --seed %d: %s"
                      % (verdict, target, " ".join("'%s'" % h for h in how), number,
                         text), flush=True)
    histogram("16-bit elements by units in the last place of their row's largest", row)
    histogram("16-bit elements by units in their own last place", own)
    print("f32 elements: at most %.2g of what they may differ by" % share)
    print("%.0f seconds" % (time.time() - start))
    print("%d configurations, %d differ, %d skipped"
          % (len(chosen), verdicts["differs"], verdicts["skipped"]))
    return verdicts["differs"] > 0


if __name__ == "__main__":
    sys.exit(main())
