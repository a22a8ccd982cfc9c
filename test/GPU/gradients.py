"""The backward pass on a GPU beside cuDNN's through PyTorch.

usage: gradients.py [--depths 64,128] [--shapes 1x16384,4x4096,16x1024]
                    [--heads 32:8] [--seconds S] [--memory]

Each row is the time of one whole backward pass, from autograd: the median of some
calls that follow one another, ours, ours with deterministic=False ("any order", one
kernel with five products where there is one) and cuDNN's, in turns. Heads are 2048 / d
where --heads does not say. TFLOP/s are of five products. Before it the gradients are
compared with float64 on a small shape. --memory prints the peak of a forward and a
backward pass of one head of 131,072 tokens. Needs PyTorch.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

import attn


def draw(b, hq, hk, s, d):
    make = lambda h: torch.randn(b, h, s, d, device="cuda", dtype=torch.bfloat16,
                                 requires_grad=True)
    return make(hq), make(hk), make(hk)


def ours(q, k, v, causal, deterministic=True):
    return attn.attention(q, k, v, causal="top_left" if causal else None,
                          deterministic=deterministic)


def any_order(q, k, v, causal):
    return ours(q, k, v, causal, deterministic=False)


def cudnn(q, k, v, causal):
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return sdpa(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def check(d, causal):
    q, k, v = draw(2, 4, 2, 700, d)
    do = torch.randn_like(q)
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    group = lambda x: x.repeat_interleave(2, 1)
    scores = wide[0] @ group(wide[1]).mT * d**-0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores[0, 0], dtype=bool).triu(1),
                                    -torch.inf)
    want = torch.autograd.grad(scores.softmax(-1) @ group(wide[2]), wide, do.double())
    for forward in (ours, any_order):
        got = torch.autograd.grad(forward(q, k, v, causal), (q, k, v), do)
        for name, x, y in zip("qkv", got, want):
            error = ((x.double() - y).norm() / y.norm()).item()
            if not error < 1e-2:
                sys.exit(f"{forward.__name__}, d = {d}, causal = {causal}: d{name} is "
                         f"off by {error:.2g}")


def run(call, count):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / count * 1e-3


def row(d, b, hq, hk, s, causal, seconds):
    q, k, v = draw(b, hq, hk, s, d)
    do = torch.randn_like(q)
    flops = 10 * b * hq * s * s * d * (0.5 if causal else 1)
    calls = {}
    kinds = ("ours", ours), ("any order", any_order), ("cuDNN", cudnn)
    for name, forward in kinds:
        out = forward(q, k, v, causal)
        calls[name] = lambda out=out: torch.autograd.grad(out, (q, k, v), do,
                                                          retain_graph=True)
        calls[name]()
    times = {name: [] for name in calls}
    until = time.time() + seconds
    # Bursts that hide what autograd does on the host.
    count = max(5, int(0.03 / run(calls["cuDNN"], 2)))
    while time.time() < until or len(times["ours"]) < 3:
        for name, call in calls.items():
            times[name].append(run(call, count))
    a, n, c = (statistics.median(times[name]) for name, _ in kinds)
    print(
        f"| {d} | {b}x{s} | {hq}/{hk} | {'causal' if causal else 'full'} | "
        f"{a * 1e3:.3f} | {flops / a * 1e-12:.0f} | {n * 1e3:.3f} | "
        f"{flops / n * 1e-12:.0f} | {flops / c * 1e-12:.0f} | {c / a:.2f} | "
        f"{c / n:.2f} |",
        flush=True,
    )


def memory():
    q, k, v = draw(1, 1, 1, 131072, 128)
    base = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out = ours(q, k, v, False)
    torch.autograd.grad(out, (q, k, v), torch.ones_like(out))
    torch.cuda.synchronize()
    beside = torch.cuda.max_memory_allocated() - base
    size = 5 * q.numel() * 2
    print(f"1 x 131072, d = 128: {beside / 2**20:.1f} MiB beside the inputs; the "
          f"output, its cotangent and three gradients are {size / 2**20:.1f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--depths", default="64,128,256")
    parser.add_argument("--shapes", default="1x16384,4x4096,16x1024")
    parser.add_argument("--heads")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN "
        f"{torch.backends.cudnn.version()}"
    )
    print("| d | b x s | heads | | ms | TFLOP/s | any order, ms | TFLOP/s | "
          "cuDNN TFLOP/s | ours / cuDNN | any order / cuDNN |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for d in map(int, options.depths.split(",")):
        for causal in (False, True):
            check(d, causal)
        for shape in options.shapes.split(","):
            b, s = map(int, shape.split("x"))
            heads = options.heads or f"{2048 // d}:{2048 // d}"
            hq, hk = map(int, heads.split(":"))
            for causal in (False, True):
                row(d, b, hq, hk, s, causal, options.seconds)
    if options.memory:
        memory()


if __name__ == "__main__":
    main()
