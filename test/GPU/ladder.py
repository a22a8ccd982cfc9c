#!/usr/bin/env python3
"""The rungs of the ladder on a GPU: traffic as predicted, and as ncu counts it.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/ladder.py [--sizes 512,2048] [--depths 64,128] [--heads 16]
        [--rungs naive,safe] [--attn-run FILE] [--ncu FILE]

Each row is a rung of `attn-run --ladder`: what its formula predicts, and what passes
between the caches of the multiprocessors and L2 in one run, by ncu. Copies of keys
that blocks of a cluster share are counted once for each. Times are of the ladder.
--ncu '' counts nothing; --rungs says which are counted.
"""

import argparse
import csv
import os
import re
import subprocess
import sys

READ = "l1tex__m_xbar2l1tex_read_bytes.sum"
WRITTEN = "l1tex__m_l1tex2xbar_write_bytes.sum"
DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def measure(options, spec, rung):
    """Bytes to and from L2, and memory, of all kernels of one run."""
    command = [options.ncu, "--clock-control", "none", "--csv", "--page", "raw"]
    command += ["--metrics", ",".join((READ, WRITTEN) + DRAM), options.attn_run]
    command += ["--device", "cuda", "--attention", spec]
    command += ["--schedule", "#attn.rung<%s>" % rung]
    done = subprocess.run(command, capture_output=True, text=True,
                          env=dict(os.environ, ATTN_CACHE_DIR=""))
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if len(lines) < 3:
        sys.exit("ladder.py: error: ncu failed: " + (done.stdout + done.stderr)[-400:])
    head, units, *rows = csv.reader(lines)

    def total(name):
        at = head.index(name)
        scale = UNITS[units[at]]
        return sum(float(row[at].replace(",", "")) * scale for row in rows)

    return total(READ) + total(WRITTEN), sum(map(total, DRAM))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="512,2048")
    parser.add_argument("--depths", default="64,128")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--rungs", help="those that are counted; all by default")
    parser.add_argument("--attn-run", default="attn-run")
    parser.add_argument("--ncu", default="ncu")
    options = parser.parse_args()
    print("| N | d | | rung | predicted MB | counted MB | ratio | memory MB | ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    for depth in options.depths.split(","):
        for size in options.sizes.split(","):
            for causal in ("none", "top_left"):
                spec = "dtype=bf16,b=1,hq=%d,hk=%d,sq=%s,sk=%s,d=%s,causal=%s" % (
                    options.heads, options.heads, size, size, depth, causal)
                table = subprocess.run(
                    [options.attn_run, "--device", "cuda", "--ladder", spec],
                    capture_output=True, text=True)
                row = r"^(\w+) +([\d.e+-]+) +\S+ +\S+ +\S+ +\S+ +([\d.e+-]+) "
                rows = re.findall(row, table.stdout, re.M)
                if not rows:
                    sys.exit("ladder.py: error: " + table.stdout + table.stderr)
                for rung, predicted, ms in rows:
                    cells = "- | - | -"
                    if options.ncu and rung in (options.rungs or rung).split(","):
                        counted, memory = measure(options, spec, rung)
                        cells = "%.4g | %.3f | %.4g" % (
                            counted * 1e-6, counted * 1e-6 / float(predicted),
                            memory * 1e-6)
                    print("| %s | %s | %s | %s | %s | %s | %s |" % (
                        size, depth, "causal" if causal != "none" else "full", rung,
                        predicted, cells, ms), flush=True)


if __name__ == "__main__":
    main()
