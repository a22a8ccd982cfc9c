"""Decode on a GPU: one row of queries, many keys, beside cuDNN.

usage: decode.py [--shapes 1x131072,16x8192,...] [--heads 32:8] [--check] [--invariant]

Each row is the time of one call inside a CUDA graph whose calls go round copies
of the keys and values that fill more than 400 MB, so that none is in the cache
when it is read: the median of nine replays by the number of calls. `read` is
what reading the same bytes takes, by a kernel that does nothing else. GB/s are
of keys and values. --invariant measures batch_invariant=True instead, beside the call
without it, after its bits: rows of a causal prompt, alone and in a batch, beside the
same rows as decode steps; and times of prompts. Needs PyTorch and Triton.
"""

import argparse
import statistics
import sys

import torch
import triton
import triton.language as tl
from torch.nn.attention import SDPBackend, sdpa_kernel

import attn

SHAPES = "1x1024,1x8192,1x32768,1x131072,8x2048,16x8192,64x4096,128x1024"


@triton.jit
def read_kernel(source, sink, size, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * BLOCK * STEPS
    total = tl.zeros((BLOCK,), tl.int32)
    for step in tl.static_range(STEPS):
        place = first + step * BLOCK + tl.arange(0, BLOCK)
        total |= tl.load(source + place, mask=place < size, other=0)
    if tl.max(total, axis=0) == -123456789:
        tl.store(sink, 1)


def read(tensors, sink):
    """Reads tensors whose memory is dense."""
    for tensor in tensors:
        words = tensor.view(-1).view(torch.int32)
        block, steps = 2048, 4
        grid = (triton.cdiv(words.numel(), block * steps),)
        read_kernel[grid](words, sink, words.numel(), block, steps, num_warps=8)


def time_graph(call, sets):
    """Seconds of call(set), median over replays of a graph of all sets."""
    calls = max(12, len(sets)) // len(sets) * len(sets)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for one in sets:
            call(one)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(calls):
                call(sets[i % len(sets)])
        times = []
        for _ in range(11):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(start.elapsed_time(end) / calls * 1e-3)
    return statistics.median(times[2:])


def invariant(q, k, v, **options):
    return attn.attention(q, k, v, batch_invariant=True, **options)


def check_invariant(heads, key_heads, depth):
    """Whether rows have the same bits in a prompt, in a batch and alone."""
    n, same = 5000, True
    q, k, v = (
        torch.randn(1, h, n, depth, device="cuda", dtype=torch.bfloat16)
        for h in (heads, key_heads, key_heads)
    )
    prompt = invariant(q, k, v, causal="bottom_right")
    for row in (0, 1, 1023, 1024, 1056, 1057, 2112, 3333, n - 1):
        keys = slice(0, row + 1)
        one = invariant(q[:, :, row:row + 1].contiguous(), k[:, :, keys].contiguous(),
                        v[:, :, keys].contiguous(), causal="bottom_right")
        same &= torch.equal(one[:, :, 0], prompt[:, :, row])
    lengths = torch.tensor([n, 17, 2500], device="cuda", dtype=torch.int32)
    many = invariant(q[:, :, -1:].repeat(3, 1, 1, 1), k.repeat(3, 1, 1, 1),
                     v.repeat(3, 1, 1, 1), kv_lengths=lengths, causal="bottom_right")
    return same and torch.equal(many[0, :, 0], prompt[0, :, -1])


def time_prompts(heads, key_heads, depth):
    for n in (4096, 16384):
        q, k, v = (
            torch.randn(1, h, n, depth, device="cuda", dtype=torch.bfloat16)
            for h in (heads, key_heads, key_heads)
        )
        out = torch.empty_like(q)
        plain, fixed = (
            time_graph(lambda s: attn.attention(*s, causal="bottom_right", out=out,
                                                batch_invariant=how), [(q, k, v)])
            for how in (False, True)
        )
        print(f"prompt of {n}: batch_invariant {fixed * 1e6:8.1f} us, without "
              f"{plain * 1e6:8.1f}; {fixed / plain:.3f} times", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--heads", default="32:8")
    parser.add_argument("--depth", type=int, default=128)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--invariant", action="store_true")
    options = parser.parse_args()
    heads, key_heads = map(int, options.heads.split(":"))
    depth = options.depth
    sink = torch.zeros(1, dtype=torch.int32, device="cuda")
    failed = False
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, "
          f"cuDNN {torch.backends.cudnn.version()}, heads {options.heads}, d={depth}")
    if options.invariant:
        failed = not check_invariant(heads, key_heads, depth)
        print("batch_invariant: bits are", "different" if failed else "the same")
        time_prompts(heads, key_heads, depth)
    for shape in options.shapes.split(","):
        batch, keys = map(int, shape.split("x"))
        size = 4 * batch * key_heads * keys * depth
        sets = []
        for _ in range(max(2, -(-420_000_000 // size))):
            q, k, v = (
                torch.randn(batch, h, s, depth, device="cuda", dtype=torch.bfloat16)
                for h, s in ((heads, 1), (key_heads, keys), (key_heads, keys))
            )
            sets.append((q, k, v, torch.empty_like(q)))
        if options.check:
            q, k, v, o = sets[0]
            attn.attention(q, k, v, out=o)
            group = heads // key_heads
            wide = [x.float().repeat_interleave(group, 1) for x in (k, v)]
            scores = q.float() @ wide[0].transpose(-1, -2) * depth**-0.5
            exact = scores.softmax(-1) @ wide[1]
            error = ((o.float() - exact).abs().max() / exact.abs().max()).item()
            failed |= not error < 0.01
            print(f"{shape:>10}: error {error:.2e}")
        ours = time_graph(lambda s: attn.attention(*s[:3], out=s[3]), sets)

        if options.invariant:
            fixed = time_graph(lambda s: invariant(*s[:3], out=s[3]), sets)
            print(f"{shape:>10}: batch_invariant {fixed * 1e6:8.2f} us, without "
                  f"{ours * 1e6:8.2f}; {fixed / ours:.3f} times", flush=True)
            del sets
            torch.cuda.empty_cache()
            continue

        def cudnn(s):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                torch.nn.functional.scaled_dot_product_attention(*s[:3],
                                                                 enable_gqa=True)

        theirs = time_graph(cudnn, sets)
        floor = time_graph(lambda s: read(s[1:3], sink), sets)
        print(
            f"{shape:>10}: attn {ours * 1e6:8.2f} us {size / ours * 1e-9:6.0f} GB/s, "
            f"cuDNN {theirs * 1e6:8.2f} us {size / theirs * 1e-9:6.0f} GB/s, "
            f"read {floor * 1e6:8.2f} us; attn is {theirs / ours:.3f} of cuDNN's rate, "
            f"{floor / ours:.3f} of read's",
            flush=True,
        )
        del sets
        torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
