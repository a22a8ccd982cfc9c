"""Trains a GPT of 124 million parameters on a GPU, with our attention and cuDNN's.

usage: training.py [--steps N] [--seeds 0,1,2] [--batch B] [--seconds S] [FILE ...]

The example python/examples/train.py: 12 layers, 12 heads, 768 channels, contexts of
1024 bytes, bf16 under autocast, on the sources of Python's library if no files are
given. For each seed once with cuDNN and once with softmax; once with gradients in any
order, with sigmoids and with a monoid of a user's. Prints the mean loss of each tenth
of the steps, steps a second (of the last three quarters), and how far the curves are
apart: ours and cuDNN's of one seed, and cuDNN's of two seeds. A run that would end
after S seconds is left out. Needs PyTorch.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import contextlib
import glob
import io
import os
import re
import sys
import sysconfig
import tempfile
import time

import attn

sys.path.insert(0, os.path.join(os.path.dirname(attn.__file__), "..", "examples"))
import train

# Half of the weight by softmax's exponential, at most e: weights cannot explode.
CAPPED = """
attn.monoid @capped cocycle stats() components(value, unit) outputs("o") {
  lift {
  ^bb0(%s: f32):
    %w = math.tanh %s : f32
    %e = math.exp %w : f32
    attn.yield %e, %e : f32, f32
  }
  finalize {
  ^bb0(%acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    attn.yield %o : f32
  }
}
"""


def curve(files, kind, seed, options, more=""):
    """Prints means of tenths of the steps and steps a second; returns the losses."""
    start = time.perf_counter()
    if start + options.longest > options.end:
        print("%s seed %d: no time left" % (os.path.basename(kind), seed), flush=True)
        return None
    words = "--layers 12 --heads 12 --width 768 --context 1024 --rate 3e-4"
    words += " --device cuda --autocast bfloat16 --attention " + kind
    words += " --seed %d --steps %d" % (seed, options.steps)
    words += " --batch %d" % options.batch + more
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        losses = train.main([*files, *words.split()])
    found = re.findall(r"step (\d+): .* ([\d.]+) steps/s", printed.getvalue())
    seconds = [int(step) / float(rate) for step, rate in found]
    first = len(found) // 4
    steps = int(found[-1][0]) - int(found[first][0])
    rate = steps / (seconds[-1] - seconds[first])
    tenth = max(1, len(losses) // 10)
    means = [sum(losses[i : i + tenth]) / tenth for i in range(0, len(losses), tenth)]
    print("%-12s seed %d: %6.2f steps/s, loss %s" % (
        os.path.basename(kind) + more, seed, rate,
        " ".join("%.3f" % x for x in means)), flush=True)
    options.longest = max(options.longest, time.perf_counter() - start)
    return losses


def distance(a, b):
    """The largest difference of means over ten steps."""
    mean = lambda x, i: sum(x[i : i + 10]) / 10
    return max(abs(mean(a, i) - mean(b, i)) for i in range(0, len(a) - 9, 10))


def apart(curves, seeds):
    """Prints how far curves are apart; 1 if ours are further from cuDNN's than these
    from each other."""
    ours = max(distance(curves["cudnn", s], curves["softmax", s]) for s in seeds)
    print("ours and cuDNN's of one seed are at most %.4f apart" % ours)
    if len(seeds) < 2:
        return 0
    spread = min(distance(curves["cudnn", a], curves["cudnn", b])
                 for a in seeds for b in seeds if a < b)
    print("cuDNN's of two seeds at least %.4f" % spread)
    return 0 if ours < spread else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("files", nargs="*", metavar="FILE")
    options = parser.parse_args()
    options.longest, options.end = 0, time.perf_counter() + options.seconds
    files = options.files or sorted(
        glob.glob(os.path.join(sysconfig.get_path("stdlib"), "*.py")))
    curves = {}
    for seed in map(int, options.seeds.split(",")):
        for kind in ("cudnn", "softmax"):
            curves[kind, seed] = curve(files, kind, seed, options)
    done = lambda seed: curves["softmax", seed] and curves["cudnn", seed]
    seeds = sorted({seed for _, seed in curves if done(seed)})
    status = apart(curves, seeds) if seeds else 1
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "capped.mlir")
        with open(path, "w") as text:
            text.write(CAPPED)
        others = ("softmax", " --any-order"), ("sigmoid_sum", ""), (path, "")
        for kind, more in others:
            losses = curve(files, kind, 0, options, more)
            if losses and not losses[-1] < losses[0] - 1:
                sys.exit("the loss of %s does not fall" % kind)
    return status


if __name__ == "__main__":
    sys.exit(main())
