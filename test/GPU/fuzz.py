#!/usr/bin/env python3
"""Random attention on a GPU against the float64 reference of attn-run.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/fuzz.py [--cases N] [--seed N] [--jobs N] [--target NAME]... [--run PROGRAM]

Draws options, sizes and element types, and runs `attn-run --check` on each, in
N processes at once. A case that fails is printed as the command that repeats
it. The last line is "N cases, M failed".
"""

import argparse
import concurrent.futures
import os
import random
import shlex
import subprocess
import sys

SOFTMAX = ("softmax", "softmax", "softmax", "softmax_entropy", "softmax_max", "logsumexp")
SUMS = ("sigmoid_sum", "relu_sum", "relu2_sum")
OTHERS = ("stick_breaking", "alpha_compositing", "maxplus", "welford")


def draw(rng):
    """One --attention text."""
    kind = rng.random()
    monoid = rng.choice(SOFTMAX if kind < 0.7 else SUMS if kind < 0.85 else OTHERS)
    slow = monoid in ("maxplus", "welford")
    hk = rng.choice((1, 1, 2, 3))
    size = lambda: (rng.randint(300, 5000) if rng.random() < 0.05 and not slow
                    else rng.choice((0, 1, rng.randint(1, 300))) if rng.random() < 0.2
                    else rng.randint(1, 300))
    sq = min(size(), 700)
    sk = sq if rng.random() < 0.4 else size()
    d = rng.choice((64, 128, 64, 128, 96, 192, 256, rng.randint(1, 256)))
    if slow:
        d = min(d, 64)
    options = {"hq": hk * rng.choice((1, 1, 2, 4)), "hk": hk, "sq": sq, "sk": sk, "d": d}
    if rng.random() < 0.2:
        options["dv"] = min(rng.choice((64, 128, rng.randint(1, 256))), 64 if slow else 256)
    options["dtype"] = rng.choice(("bf16", "bf16", "f16", "f16", "f32"))
    if options["dtype"] == "f32":
        options["d"] = min(d, 128)
        options["dv"] = min(options.get("dv", options["d"]), 128)
    packed = rng.random() < 0.1
    if packed:
        options["sequences"] = rng.randint(1, 4)
    else:
        options["b"] = rng.choice((0, 1, 1, 2, 3)) if rng.random() < 0.3 else rng.randint(1, 2)
    if rng.random() < 0.35:
        options["causal"] = rng.choice(("top_left", "bottom_right"))
    if rng.random() < 0.2:
        options["window"] = "%d:%d" % (rng.choice((-1, 0, rng.randint(0, 200))),
                                       rng.choice((-1, 0, rng.randint(0, 200))))
    if rng.random() < 0.15:
        options["scale"] = round(rng.choice((-1, 1, 1, 1)) * rng.uniform(0.01, 1), 3)
    if rng.random() < 0.15:
        options["softcap"] = rng.choice((5, 30))
    if not packed:
        if rng.random() < 0.15:
            options["bias"] = "".join(rng.choice((c, "1")) for c in "bhqk")
        if rng.random() < 0.15:
            options["mask"] = "".join(rng.choice((c, "1")) for c in "bhqk")
        if rng.random() < 0.2:
            options["lengths"] = "random"
        options["layout"] = rng.choice(("bhsd", "bhsd", "bshd", "sbhd"))
    if rng.random() < 0.1:
        options["alibi"] = rng.choice(("h", "bh"))
    if monoid == "softmax" and rng.random() < 0.15:
        options["sinks"] = 1
    if monoid != "softmax":
        options["monoid"] = monoid
    if monoid in ("softmax", "softmax_entropy", "softmax_max", "welford") and rng.random() < 0.4:
        options["outputs"] = 2
    return ",".join("%s=%s" % item for item in options.items())


def run(case):
    command, limit = case
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return command, "no end within %d s" % limit
    if done.returncode == 0:
        return command, None
    lines = [x for x in (done.stdout + done.stderr).splitlines()
             if "error" in x or "WRONG" in x or "wrong" in x]
    return command, "exit %d: %s" % (done.returncode, (lines or ["nothing said"])[-1][:300])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--target", action="append")
    parser.add_argument("--run", default="attn-run")
    parser.add_argument("--limit", type=int, default=60, help="seconds of a case")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    cases = []
    for i in range(options.cases):
        target = rng.choice(options.target or ["cuda"])
        cases.append(([options.run, "--attention", draw(rng), "--seed", str(i), "--target",
                       target, "--device", "cuda", "--check"], options.limit))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for command, error in pool.map(run, cases):
            if error:
                failed += 1
                print("%s\n  %s" % (" ".join(map(shlex.quote, command)), error), flush=True)
    print("%d cases, %d failed" % (len(cases), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
