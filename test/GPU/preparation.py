#!/usr/bin/env python3
"""What a mask costs before attention, beside PyTorch's create_block_mask.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/preparation.py [--masks A,B] [--sizes 8192,131072] [--depth 64]
        [--peers eager,compiled] [--kernels]

A mask is a family of masks.py, for one batch and head. Of a call of attn: what passes
from the start of its first kernel to the end of the last one before attention, the
first time for its sizes ("first") and later (lists of masks that read no tensors are
kept), and what attention itself takes; what the first call takes of the device's
memory, in the chunks that its pool grows by. Of the block mask: milliseconds by the
host's clock with a synchronisation, the least of four, as it is and compiled, each
with the memory at its peak, "-" where it has no room or does not compile; and how
many times the cheaper of them takes as long as what is ahead of attention. No kernel
of the call starts before the one ahead of it has ended but by its launch, so that the
times ahead of attention do not overlap with anything else. --kernels adds what each
kernel of a first call takes. Needs torch.
"""

import argparse
import os
import sys
import time

os.environ["ATTN_OVERLAP_RUNS"] = "0"

import masks

MASKS = ("causal_option,causal,window_option,sliding_window,prefix_lm,documents,"
         "causal_documents,neighbourhood_2d,block_diffusion,dilated")


def trace(runs):
    """Of each run, (start, end) in microseconds of each of attn's kernels."""
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    between = torch.zeros(1, device="cuda")
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for run in runs:
            run()
            torch.cuda.synchronize()
            between.add_(1)
            torch.cuda.synchronize()
    found, call = [], []
    for event in sorted((event for event in seen.events()
                         if event.device_type == DeviceType.CUDA
                         and "Mem" not in event.name),
                        key=lambda event: event.time_range.start):
        if "attention" in event.name:
            call.append((event.time_range.start, event.time_range.end))
        elif call:
            found.append(call)
            call = []
    return found


def median(values):
    return sorted(values)[len(values) // 2]


def ahead(call):
    return call[-2][1] - call[0][0] if len(call) > 1 else 0.0


def block_mask(live, n, is_compiled):
    """Milliseconds of the block mask, and MiB at its peak; or None."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask

    make = create_block_mask
    if is_compiled:
        torch._dynamo.reset()
        make = torch.compile(make, dynamic=False)

    def run():
        return make(live, 1, None, n, n, device="cuda")

    try:
        run()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before, times = torch.cuda.memory_allocated(), []
        for _ in range(4):
            start = time.perf_counter()
            run()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
    except RuntimeError:  # of memory, and of what Dynamo does not compile
        torch.cuda.empty_cache()
        return None
    peak = torch.cuda.max_memory_allocated() - before
    torch.cuda.empty_cache()
    return min(times) * 1e3, peak / 2**20


def measure(family, n, depth):
    """First calls, later ones, and MiB that the first of all took."""
    import attn
    import torch

    q, k, v = (torch.randn((1, 1, n, depth), device="cuda").to(torch.bfloat16)
               for _ in range(3))
    out = torch.empty_like(q)

    def call(fewer=0, stream=None):
        part = [x[:, :, :n - fewer] for x in (q, k, v, out)]
        with torch.cuda.stream(stream):
            attn.attention(*part[:3], out=part[3], **family.options)

    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    call()
    torch.cuda.synchronize()
    mib = (free - torch.cuda.mem_get_info()[0]) / 2**20
    trace([call])  # what is captured by no profiler comes first
    # Sizes that no run had before have no lists yet.
    runs = [lambda fewer=fewer: call(fewer) for fewer in range(1, 6)]
    runs += [lambda stream=torch.cuda.Stream(): call(stream=stream) for _ in range(4)]
    calls = trace(runs)
    if len(calls) != len(runs):
        raise RuntimeError("expected kernels of %d calls, but got those of %d"
                           % (len(runs), len(calls)))
    return calls[:5], calls[5:], mib


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--masks", default=MASKS)
    parser.add_argument("--sizes", default="8192,131072")
    parser.add_argument("--depth", type=int, default=64)
    parser.add_argument("--peers", default="eager,compiled")
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    import torch

    peers = [name for name in options.peers.split(",") if name]
    print("%-17s   keys  ahead, us: first  later   MiB  attention, ms%s  times"
          % ("mask", "".join("  %8s, ms    MiB" % name for name in peers)))
    for n in map(int, options.sizes.split(",")):
        maker = masks.Maker(1, 1, n, "cuda")
        for name in options.masks.split(","):
            family = getattr(maker, name)()
            try:
                first, later, mib = measure(family, n, options.depth)
            except RuntimeError as error:
                print("%-17s %6d %s" % (name, n, error), flush=True)
                continue
            own = median([call[-1][1] - call[-1][0] for call in later])
            before = median([ahead(call) for call in first])
            print("%-17s %6d %16.1f %6.1f %5.0f %14.4f"
                  % (name, n, before, median([ahead(call) for call in later]), mib,
                     own / 1e3), end="", flush=True)
            times = []
            for peer in peers:
                found = block_mask(family.live, n, peer == "compiled")
                times += [found[0]] if found else []
                print(" %12.3f %6.0f" % found if found else "            -      -",
                      end="", flush=True)
            print(" %6.0f" % (min(times) * 1e3 / before) if times and before
                  else "      -", flush=True)
            if options.kernels:
                print("    kernels, us:",
                      *("%.1f" % (end - start) for start, end in first[2]), flush=True)
    torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main())
