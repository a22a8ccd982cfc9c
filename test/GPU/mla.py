"""Decode of multi-head latent attention (MLA) on a GPU: one row, pages of latents.

usage: mla.py [--shapes 64x16x4096,...] [--page 64] [--slice]

A shape is sequences x heads x keys. Keys have 576 columns, of which the values are
the first 512 (v_dim; with --slice v is given, as that view of k), in pages under
random block tables. Before it is timed a shape is compared with float64. Each row
is the time of one call inside a CUDA graph whose calls go round caches that fill
more than 400 MB; `read` is what reading the same bytes takes, by a kernel that does
nothing else. Needs PyTorch and Triton.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import sys

import torch
from decode import read, time_graph

import attn

SHAPES = "64x16x4096,64x128x4096,16x128x8192,1x128x131072,1x16x131072"
COLUMNS, VALUES = 576, 512
SLICE = "--slice" in sys.argv


def make(batch, heads, keys, page):
    """Queries, a cache of pages, a table, lengths and the output."""
    on = dict(device="cuda")
    pages = batch * keys // page
    pool = torch.randn(pages, 1, page, COLUMNS, dtype=torch.bfloat16, **on)
    table = torch.randperm(pages, **on).view(batch, -1).int()
    q = torch.randn(batch, heads, 1, COLUMNS, dtype=torch.bfloat16, **on)
    lengths = torch.full((batch,), keys, dtype=torch.int32, **on)
    return q, pool, table, lengths, torch.empty_like(q[..., :VALUES])


def call(one):
    q, pool, table, lengths, out = one
    values = dict(v=pool[..., :VALUES]) if SLICE else dict(v=None, v_dim=VALUES)
    attn.attention(q, pool, **values, scale=192**-0.5, block_table=table,
                   kv_lengths=lengths, out=out)


def check(one):
    """The largest error beside float64, as a share of the largest result."""
    q, pool, table, _, out = one
    call(one)
    worst = largest = 0.0
    for b in range(min(len(q), 4)):
        keys = pool[table[b].long(), 0].flatten(0, 1).double()
        weights = (q[b, :, 0].double() @ keys.T * 192**-0.5).softmax(-1)
        want = weights @ keys[:, :VALUES]
        worst = max(worst, (out[b, :, 0].double() - want).abs().max().item())
        largest = max(largest, want.abs().max().item())
    return worst / largest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--page", type=int, default=64)
    parser.add_argument("--slice", action="store_true")
    options = parser.parse_args()
    sink = torch.zeros(1, dtype=torch.int32, device="cuda")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, page "
          f"{options.page}")
    failed = False
    for shape in options.shapes.split(","):
        batch, heads, keys = map(int, shape.split("x"))
        size = 2 * batch * keys * COLUMNS
        flops = 2 * batch * heads * keys * (COLUMNS + VALUES)
        sets = [make(batch, heads, keys, options.page)
                for _ in range(max(2, -(-420_000_000 // size)))]
        error = check(sets[0])
        failed |= not error < 0.01
        ours = time_graph(call, sets)
        floor = time_graph(lambda one: read([one[1]], sink), sets)
        print(f"{shape:>14}: error {error:.1e}, {ours * 1e6:7.1f} us, "
              f"{size / ours * 1e-9:5.0f} GB/s, {flops / ours * 1e-12:4.0f} TFLOP/s; "
              f"read {floor * 1e6:6.1f} us, {floor / ours:.2f} of its rate", flush=True)
        del sets
        torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
