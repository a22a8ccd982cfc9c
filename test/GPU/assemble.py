#!/usr/bin/env python3
"""Assembles the kernels of configurations.txt with ptxas.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/assemble.py [--all] [--jobs N] [--cache FOLDER] [--only TEXT]
        [--part I/N] [--verbose]
    test/GPU/assemble.py --account [--all] [--jobs N] [--only TEXT] [--verbose]
    test/GPU/assemble.py --count

Of a line of class fast as few combinations as hold every pair of alternatives of two
groups, the targets among them; of one of class any as few as hold each alternative;
with --all each combination.

A kernel fails where it does not compile or assemble, where ptxas warns that it
serialises products or gives up registers of roles, and where it spills more
than its class allows. What ptxas said of a PTX text is kept in FOLDER. The last
line is "N kernels assembled, M failed, K of them spill"; with --count it is the
number of kernels alone, and nothing is assembled.

With --account none is assembled either: a kernel fails where it takes more shared
memory than the schedule said it would at most, and what barriers, drawn items
and a ramp's row numbers may take besides (SLACK). Of programs that is not asked:
a step of theirs may be smaller than the schedule takes it for, and there are more
slots. The last line is "N kernels accounted for, M failed; at most B bytes beyond".
"""

import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import ptxas

FOLDER = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(FOLDER, "configurations.txt")
PROGRAMS = os.path.join(os.path.dirname(FOLDER), "Package", "programs")


def hold(size, groups):
    """Few combinations of one alternative of each group: all sets of `size`
    alternatives of different groups occur, those that bring the most new ones first."""

    def sets(combination):
        return set(itertools.combinations(enumerate(combination), size))

    combinations = list(itertools.product(*groups))
    left = set().union(*map(sets, combinations))
    chosen = []
    while left or not chosen:
        chosen.append(max(combinations, key=lambda c: len(sets(c) & left)))
        left -= sets(chosen[-1])
    return chosen


def read_table(path, all=False):
    """(bytes that may be spilled or None, target, options) of each kernel: of all
    combinations, or of some."""
    kernels = []
    with open(path) as table:
        lines = [line.split("#")[0].strip() for line in table]
    for line in filter(None, lines):
        kind, targets, *groups = [part.split() for part in line.split("|")]
        name, _, allowed = kind[0].partition(":")
        if len(kind) != 1 or name not in ("fast", "any"):
            sys.exit("expected a line of class fast or any, but got '%s'" % line)
        limit = int(allowed or 0) if name == "fast" else None
        groups.insert(0, targets)
        some = itertools.product(*groups) if all else hold(1 + (name == "fast"), groups)
        for target, *choice in some:
            said = {}
            for alternative in choice:
                if alternative != "-":
                    said.update(x.split("=") for x in alternative.split(","))
            kernels.append((limit, target, ",".join("%s=%s" % x for x in said.items())))
    return kernels


# More than few rows, and fewer than those that take longer tiles or clusters:
# without sizes attn-compile makes a plan of kernels for all classes of sizes.
SIZES = {"sq": "1000", "sk": "1000"}


def compiled(options):
    """What attn-compile is told to compile."""
    key, _, name = options.partition("=")
    if key == "program":
        return [os.path.join(PROGRAMS, name + ".mlir")]
    said = dict(option.split("=") for option in options.split(","))
    missing = ["%s=%s" % size for size in SIZES.items() if size[0] not in said]
    return ["--attention", ",".join([options] + missing)]


# Of barriers and drawn items (TargetInfo::barrierBytes), and of a ramp in front of
# the tiles, which start at multiples of 1024 bytes.
SLACK = 2048 + 1024


class Account:
    """What the schedule said, and what became of it."""

    def __init__(self, text, isBound):
        def numbers(pattern):
            return [tuple(map(int, found.groups()))
                    for found in re.finditer(pattern, text, re.MULTILINE)]

        said = numbers(r"bytes \(queries, .*; at most (\d+) with")
        taken = numbers(r"(\d+) of \d+ bytes of shared memory,")
        self.beyond = 0
        if not (said and taken):
            self.error = (
                "expected --explain to give the account of a kernel, but got: " + text
            )
            return
        self.beyond = max(taken)[0] - max(said)[0]
        self.error = None
        if not isBound:
            self.beyond = min(self.beyond, 0)
        if self.beyond > SLACK:
            self.error = (
                "expected at most %d + %d bytes of shared memory, but got %d"
                % (max(said)[0], SLACK, max(taken)[0])
            )


class Assembler:
    def __init__(self, cache, only_account=False):
        self.only_account = only_account
        self.cache, self.version = cache, cache and ptxas.version()
        if cache:
            os.makedirs(cache, exist_ok=True)

    def assemble(self, text, target):
        if not self.cache:
            return ptxas.assemble(text, target)
        key = hashlib.sha256("|".join((self.version, target,
                                       text)).encode()).hexdigest()
        path = os.path.join(self.cache, key)
        if os.path.exists(path):
            with open(path) as kept:
                return ptxas.Result(*json.load(kept))
        result = ptxas.assemble(text, target)
        if result.error is None:
            with tempfile.NamedTemporaryFile("w", dir=self.cache, delete=False) as kept:
                json.dump((result.log, 0), kept)
            os.replace(kept.name, path)
        return result

    def check(self, kernel):
        """The error or None, and the bytes that are spilled; of the account, those
        that are taken beyond what the schedule said."""
        limit, target, options = kernel
        options, _, schedule = options.partition(",schedule=")
        how = []
        if schedule:
            fields = (field.replace(":", " = ") for field in schedule.split("/"))
            how = ["--schedule", "#attn.schedule<%s>" % ", ".join(fields)]
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "kernel")
            done = subprocess.run(
                ["attn-compile", *compiled(options), "--target", target, "-o", prefix,
                 "--explain"] + how,
                capture_output=True,
                text=True,
                env=dict(os.environ, ATTN_PTXAS="none"),
            )
            if done.returncode:
                return (done.stderr or done.stdout).strip(), 0
            account = Account(done.stdout, isBound=not options.startswith("program="))
            if account.error or self.only_account:
                return account.error, account.beyond
            with open(prefix + ".ptx") as ptx:
                result = self.assemble(ptx.read(), target)
        spills = result.spills()
        if result.error is None and limit is not None and spills > limit:
            return (
                "expected a fast kernel to spill at most %d bytes, but got %d"
                % (limit, spills),
                spills,
            )
        return result.error, spills


def part(text):
    number, _, of = text.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
        raise argparse.ArgumentTypeError("expected I/N with I from 1 to N, but got '%s'"
                                         % text)
    return int(number), int(of)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache")
    parser.add_argument("--only", default="",
                        help="kernels whose target or options hold this")
    parser.add_argument("--part", type=part, default=(1, 1),
                        help="I/N: the I-th of N parts")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--account", action="store_true")
    parser.add_argument("--count", action="store_true")
    options = parser.parse_args()
    kernels = [k for k in dict.fromkeys(read_table(TABLE, options.all))
               if options.only in "%s %s" % k[1:]]
    number, of = options.part
    kernels = kernels[number - 1 :: of]
    if options.count:
        print(len(kernels))
        return 0
    if not options.account and not ptxas.find():
        sys.exit(
            "expected ptxas on PATH or in CUDA_HOME, but found none: %d kernels were "
            "NOT assembled"
            % len(kernels)
        )
    assembler = Assembler(options.cache, options.account)
    failed = spilling = 0
    most = -sys.maxsize
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (_, target, text), (error, spills) in zip(kernels, pool.map(assembler.check,
                                                                        kernels)):
            spilling += spills > 0
            most = max(most, spills)
            failed += error is not None
            if error or options.verbose:
                print(
                    "%s: attn-compile %s --target %s: %s"
                    % ("FAILED" if error else "ok", " ".join(compiled(text)), target,
                       error or "%d bytes %s"
                       % (spills, "beyond" if options.account else "spilled")),
                    flush=True,
                )
    if options.account:
        print("%d kernels accounted for, %d failed; at most %d bytes beyond"
              % (len(kernels) - failed, failed, most))
        return 1 if failed else 0
    print("%d kernels assembled, %d failed, %d of them spill"
          % (len(kernels) - failed, failed, spilling))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
