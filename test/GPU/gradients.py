"""The backward pass on a GPU beside cuDNN's through PyTorch.

usage: gradients.py [--depths 64,192/128] [--shapes 1x16384,4x4096,16x1024]
                    [--heads 32:8] [--seconds S] [--memory]
       gradients.py --variants [NAME,...] [--depths 64,128] [--shapes 2x8192]

Each row is the time of one whole backward pass, from autograd: the median of some
calls that follow one another, ours, ours with deterministic=False ("any order", one
kernel with five products where there is one) and cuDNN's, in turns. 192/128 is
queries and keys of 192 channels, values of 128. Heads are 2048 / d (of values) where
--heads does not say. TFLOP/s are of five products. Before it the gradients are
compared with float64 on a small shape. --memory prints the peak of a forward and a
backward pass of one head of 131,072 tokens. --variants measures ALiBi, a cap, a
window, documents, a bias, and a score function with a table and its gradient, beside
plain attention before and behind each: "touched" is the share of tiles of 128 x 128
that have a live pair, "of plain" the ratio of the rates on these (the bar: 0.9).
Needs PyTorch.

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


def channels(text):
    """Of queries and keys, and of values."""
    d, _, dv = text.partition("/")
    return int(d), int(dv or d)


def name_of(d, dv):
    return f"{d}" if d == dv else f"{d}/{dv}"


def draw(b, hq, hk, s, d, dv=None):
    make = lambda h, d: torch.randn(b, h, s, d, device="cuda", dtype=torch.bfloat16,
                                    requires_grad=True)
    return make(hq, d), make(hk, d), make(hk, dv or d)


def ours(q, k, v, causal, deterministic=True):
    return attn.attention(q, k, v, causal="top_left" if causal else None,
                          deterministic=deterministic)


def any_order(q, k, v, causal):
    return ours(q, k, v, causal, deterministic=False)


def cudnn(q, k, v, causal):
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return sdpa(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def check(d, dv, causal):
    q, k, v = draw(2, 4, 2, 700, d, dv)
    do = torch.randn_like(q[..., :dv])
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


def row(d, dv, b, hq, hk, s, causal, seconds):
    q, k, v = draw(b, hq, hk, s, d, dv)
    do = torch.randn_like(q[..., :dv])
    flops = (6 * d + 4 * dv) * b * hq * s * s * (0.5 if causal else 1)
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
        f"| {name_of(d, dv)} | {b}x{s} | {hq}/{hk} | "
        f"{'causal' if causal else 'full'} | "
        f"{a * 1e3:.3f} | {flops / a * 1e-12:.0f} | {n * 1e3:.3f} | "
        f"{flops / n * 1e-12:.0f} | {flops / c * 1e-12:.0f} | {c / a:.2f} | "
        f"{c / n:.2f} |",
        flush=True,
    )


TABLE = """^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xf32>):
  %most = arith.constant 255 : i32
  %d = arith.subi %i, %j : i32
  %a = math.absi %d : i32
  %n = arith.minsi %a, %most : i32
  %at = arith.index_cast %n : i32 to index
  %head = arith.index_cast %h : i32 to index
  %x = tensor.extract %t[%head, %at] : tensor<?x?xf32>
  %y = arith.addf %s, %x : f32
  attn.yield %y : f32"""
DOCUMENTS = """^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %ids: tensor<?xi32>):
  %row = arith.index_cast %i : i32 to index
  %key = arith.index_cast %j : i32 to index
  %x = tensor.extract %ids[%row] : tensor<?xi32>
  %y = tensor.extract %ids[%key] : tensor<?xi32>
  %same = arith.cmpi eq, %x, %y : i32
  attn.yield %same : i1"""


def documents(s):
    """Numbers of twelve documents of random lengths."""
    ends = torch.randperm(s, generator=torch.Generator().manual_seed(1))[:11]
    return torch.bucketize(torch.arange(s), ends.sort().values, right=True).int()


def variants(h, s):
    """For each name the options, inputs beside q, k, v, and which pairs live."""
    new = lambda *shape: torch.randn(*shape, device="cuda", requires_grad=True)
    ids = documents(s)
    i, j = torch.arange(s)[:, None], torch.arange(s)
    table = new(h, 256)
    slopes = (2.0 ** -torch.arange(1, h + 1).div(h / 8)).cuda()
    bias = new(1, 1, 1, s)
    return {
        "causal": (dict(causal="top_left"), (), j <= i),
        "alibi": (dict(alibi_slopes=slopes), (), None),
        "alibi causal": (dict(alibi_slopes=slopes, causal="top_left"), (), j <= i),
        "softcap": (dict(softcap=30.0), (), None),
        "window": (dict(causal="top_left", window=(1023, 0)), (),
                   (j <= i) & (j > i - 1024)),
        "documents": (dict(mask_mod=DOCUMENTS, captures={"ids": ids.cuda()}), (),
                      ids[:, None] == ids),
        "bias of keys": (dict(bias=bias), (bias,), None),
        "table": (dict(score_mod=TABLE, captures={"t": table.detach()}), (), None),
        "table and its gradient": (dict(score_mod=TABLE, captures={"t": table}),
                                   (table,), None),
    }


def touched(live, s):
    """The share of tiles of 128 x 128 with a live pair."""
    if live is None:
        return 1.0
    tiles = -(-s // 128)
    padded = torch.nn.functional.pad(live, (0, tiles * 128 - s) * 2)
    return padded.view(tiles, 128, tiles, 128).any(3).any(1).float().mean().item()


def measure_variants(names, d, b, h, s, seconds):
    print("| d | b x s | variant | touched | ms | TFLOP/s touched | of plain |")
    print("|---|---|---|---|---|---|---|")
    q, k, v = draw(b, h, h, s, d)
    do = torch.randn_like(q)

    def timer(options, more):
        out = attn.attention(q, k, v, **options)
        call = lambda: torch.autograd.grad(out, (q, k, v, *more), do,
                                           retain_graph=True)
        call()
        return call

    plain = timer({}, ())
    for name, (options, more, live) in variants(h, s).items():
        if names and name not in names:
            continue
        call = timer(options, more)
        times = {plain: [], call: []}
        until = time.time() + seconds
        while time.time() < until or len(times[call]) < 3:
            for each in (plain, call, plain):
                times[each].append(run(each, max(1, int(0.03 / run(each, 1)))))
        a, p = (statistics.median(times[each]) for each in (call, plain))
        share = touched(live, s)
        rate = 10 * b * h * s * s * d * share / a * 1e-12
        print(f"| {d} | {b}x{s} | {name} | {share:.3f} | {a * 1e3:.3f} | {rate:.0f} | "
              f"{share * p / a:.2f} |", flush=True)


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
    parser.add_argument("--depths")
    parser.add_argument("--shapes")
    parser.add_argument("--heads")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--variants", nargs="?", const="")
    options = parser.parse_args()
    is_plain = options.variants is None
    depths = options.depths or ("64,128,256" if is_plain else "64,128")
    shapes = options.shapes or (
        "1x16384,4x4096,16x1024" if is_plain else "2x8192"
    )
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN "
        f"{torch.backends.cudnn.version()}"
    )
    if not is_plain:
        names = [name for name in options.variants.split(",") if name]
        for d, _ in map(channels, depths.split(",")):
            for shape in shapes.split(","):
                b, s = map(int, shape.split("x"))
                measure_variants(names, d, b, 2048 // d, s, options.seconds)
        return
    print("| d | b x s | heads | | ms | TFLOP/s | any order, ms | TFLOP/s | "
          "cuDNN TFLOP/s | ours / cuDNN | any order / cuDNN |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for d, dv in map(channels, depths.split(",")):
        for causal in (False, True):
            check(d, dv, causal)
        for shape in shapes.split(","):
            b, s = map(int, shape.split("x"))
            heads = options.heads or f"{2048 // dv}:{2048 // dv}"
            hq, hk = map(int, heads.split(":"))
            for causal in (False, True):
                row(d, dv, b, hq, hk, s, causal, options.seconds)
    if options.memory:
        memory()


if __name__ == "__main__":
    main()
