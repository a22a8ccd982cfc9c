"""Caches in pages on a GPU, beside the same cache in one piece.

usage: pages.py [--pages 64,16,...] [--append] [SHAPE...]

A SHAPE is BxHQ:HKxROWSxKEYS: the last ROWS of KEYS are queries, causal, bf16, d = 128.
Tables are random. Times are medians of graphs whose calls go round more than 400 MB of
keys and values (decode.py); beside them is the rate by live pairs, or for few rows by
bytes of keys and values. --append: the rows are written to the cache in the call, too
(k_new, v_new). Results are held against those of one piece. Needs PyTorch and Triton.
"""

import argparse
import sys

import torch
from decode import time_graph

import attn

SHAPES = ("8x32:8x512x8192", "64x32:8x1x4096", "16x32:8x1x8192", "1x32:8x1x131072")
D = 128


def draw(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def paged(x, page, order):
    """The same rows in a pool, the n-th page of all in place order[n]."""
    b, h, n, d = x.shape
    pool = torch.empty(b * n // page, h, page, d, device=x.device, dtype=x.dtype)
    pool[order] = x.view(b, h, n // page, page, d).transpose(1, 2).flatten(0, 1)
    return pool


def call(one, append):
    q, k, v, lengths, before, table, out, new = one
    options = dict(causal="bottom_right", out=out, kv_lengths=lengths)
    if table is not None:
        options["block_table"] = table
    if append:
        options.update(k_new=new[0], v_new=new[1], kv_lengths=before)
    attn.attention(q, k, v, **options)


def measure(shape, pages, append):
    b, heads, rows, keys = shape.split("x")
    hq, hk = map(int, heads.split(":"))
    b, rows, keys = int(b), int(rows), int(keys)
    count = min(12, max(2, -(-420_000_000 // (4 * b * hk * keys * D))))
    lengths = torch.full((b,), keys, device="cuda", dtype=torch.int32)
    whole = []
    for _ in range(count):
        q = draw(b, hq, rows, D)
        k, v = draw(b, hk, keys, D), draw(b, hk, keys, D)
        new = [x[:, :, keys - rows :].contiguous() for x in (k, v)]
        whole.append((q, k, v, lengths, lengths - rows, None, torch.empty_like(q), new))
    pairs = b * hq * (rows * (keys - rows) + rows * (rows + 1) / 2)
    print(shape, "appended" if append else "", flush=True)
    plain, wrong = None, 0
    for page in [0] + pages:
        sets = whole
        if page:
            sets = []
            for q, k, v, n, before, _, out, new in whole:
                order = torch.randperm(b * keys // page, device=q.device)
                table = order.to(torch.int32).view(b, -1)
                sets.append((q, paged(k, page, order), paged(v, page, order), n, before,
                             table, torch.empty_like(out), new))
        time = time_graph(lambda one: call(one, append), sets)
        plain = plain or time
        error = (sets[0][6].float() - whole[0][6].float()).abs().max().item()
        wrong += error > 2e-2
        rate = ("%7.0f TFLOP/s" % (4 * D * pairs / time * 1e-12) if rows > 16 else
                "%7.0f GB/s" % (4 * b * hk * keys * D / time * 1e-9))
        print("  %-10s %8.1f us %6.3f %s, error %.1e%s" % (
            "page %d" % page if page else "one piece", time * 1e6, time / plain, rate,
            error, " WRONG" if error > 2e-2 else ""), flush=True)
        del sets
        torch.cuda.empty_cache()
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", default="64,16")
    parser.add_argument("--append", action="store_true")
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    options = parser.parse_args()
    pages = [int(page) for page in options.pages.split(",")]
    print("%s, torch %s" % (torch.cuda.get_device_name(), torch.__version__))
    wrong = sum(measure(shape, pages, options.append)
                for shape in options.shapes or SHAPES)
    print("%d wrong" % wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
