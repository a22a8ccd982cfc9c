#!/usr/bin/env python3
"""What it takes to get from a description to a kernel that is loaded.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/jit.py [--target NAME]

Each line is a process of its own, after the driver and its context have been
made, which is a line too: fresh (by ptxas, and by the driver from PTX without
its cache), then from the cache on disk; two kernels each, since the first
module of a process takes the driver longer. Milliseconds.
"""

import argparse
import ctypes
import importlib.util
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def load_library():
    """attn._library without the package around it, which wants numpy."""
    path = os.path.join(ROOT, "python", "attn", "_library.py")
    spec = importlib.util.spec_from_file_location("attn_library", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def now():
    return time.perf_counter() * 1e3


def child(target, use_cache):
    """One process: prints name and milliseconds of each step."""
    attn = load_library()
    start = now()
    count = ctypes.c_int32()
    attn.check(attn.lib.attnDeviceCount(ctypes.byref(count)))
    print("driver %.2f" % (now() - start))
    start = now()
    driver = ctypes.CDLL(os.environ.get("ATTN_LIBCUDA", "libcuda.so.1"))
    context = ctypes.c_void_p()
    if driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0):
        sys.exit("cannot make a context")
    print("context %.2f" % (now() - start))
    for name, d, causal in (("first", 128, 0), ("second", 64, 2), ("third", 128, 2)):
        desc = attn.AttentionDesc(
            structSize=ctypes.sizeof(attn.AttentionDesc), dtype=2, headDim=d,
            causal=causal,
            expectedSizes=(0, 0, 1024, 1024),
        )
        options = attn.CompileOptions(
            structSize=ctypes.sizeof(attn.CompileOptions), target=target.encode(),
            noCache=not use_cache
        )
        kernel = ctypes.c_void_p()
        start = now()
        attn.check(
            attn.lib.attnCompileAttention(
                attn.context, ctypes.byref(desc), ctypes.byref(options),
                ctypes.byref(kernel)
            )
        )
        compiled = now() - start
        assembled = 0
        for i in range(attn.lib.attnKernelNumTimes(kernel)):
            if attn.lib.attnKernelTimeName(kernel, i) == b"ptxas":
                assembled = attn.lib.attnKernelTimeMs(kernel, i)
        print("%s-ours %.2f" % (name, compiled - assembled))
        print("%s-ptxas %.2f" % (name, assembled))
        start = now()
        attn.check(attn.lib.attnKernelLoad(kernel, -1))
        print("%s-load %.2f" % (name, now() - start))


def measure(target, use_cache, **environment):
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--child", "--target", target]
        + ["--use-cache"] * use_cache,
        env=dict(os.environ, **environment),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {line.split()[0]: float(line.split()[1])
            for line in done.stdout.splitlines()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--use-cache", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.target, options.use_cache)
    with tempfile.TemporaryDirectory() as folder:
        ways = [
            ("ptxas", False, {}),
            ("driver, no cache", False,
             {"ATTN_PTXAS": "none", "CUDA_CACHE_DISABLE": "1"}),
            ("disk cache", True, {"ATTN_CACHE_DIR": folder}),
            ("disk cache, lazy", True,
             {"ATTN_CACHE_DIR": folder, "CUDA_MODULE_LOADING": "LAZY"}),
            ("disk cache, eager", True,
             {"ATTN_CACHE_DIR": folder, "CUDA_MODULE_LOADING": "EAGER"}),
        ]
        print("| | driver | context | kernel | ours | ptxas | load |")
        print("|---|---|---|---|---|---|---|")
        measure(options.target, True, ATTN_CACHE_DIR=folder)
        for name, use_cache, environment in ways:
            # The median of three processes, by the sum of their times.
            runs = [measure(options.target, use_cache, **environment) for _ in range(3)]
            run = sorted(runs, key=lambda run: sum(run.values()))[1]
            for kernel in ("first", "second", "third"):
                print(
                    "| %s | %.1f | %.1f | %s | %.1f | %.0f | %.1f |"
                    % ((name, run["driver"], run["context"], kernel)
                       + tuple(run["%s-%s" % (kernel, x)]
                               for x in ("ours", "ptxas", "load")))
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
