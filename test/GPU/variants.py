#!/usr/bin/env python3
"""Variants of attention on a Hopper GPU beside plain attention with as many tiles.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/variants.py [NAME...] [--target NAME] [--no-check] [--rounds N]

Each variant is MLIR text, compiled for `--target`. It is compared with float64 on
one head of each of two shapes, and timed at 2 x 16 heads, 8192 tokens, d = 128,
bf16 (sums of sigmoids: 1 x 16384), from idle: a warm-up, the median of a few.
Plain attention runs before and after, and once more with as many key tiles of
128 as each block of 128 rows of the variant touches on average; "of plain" is
the ratio of the rates over these tiles. Needs torch.
"""

import argparse
import math
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("python", "../python"):
    path = os.path.join(HERE, "..", folder)
    if os.path.isdir(os.path.join(path, "attn")):
        sys.path.insert(0, os.path.abspath(path))

Q = "tensor<?x?x?x128xbf16>"
BLOCK = 128


def attention(options="", arguments="", before="", monoid="@softmax"):
    """MLIR text of a function of q, k, v and `arguments`."""
    return """%s
func.func @f(%%q: %s, %%k: %s, %%v: %s%s) -> %s {
  %%o = attn.attention monoid(%s) queries(%%q : %s) keys(%%k : %s) values(%%v : %s) %s
      -> %s
  return %%o : %s
}
""" % (before, Q, Q, Q, arguments, Q, monoid, Q, Q, Q, options, Q, Q)


def mask(body, captures="", types="", names=""):
    return """%s mask {
    ^bb0(%%b: i32, %%h: i32, %%i: i32, %%j: i32%s):
%s
    }""" % ("captures(%s : %s)" % (captures, types) if captures else "", names, body)


SOFTMAX = """
attn.monoid @mine cocycle stats(f32) components(value, unit) outputs("o") {
  identity {
    %inf = arith.constant 0xFF800000 : f32
    attn.yield %inf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    attn.yield %c : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %safe = arith.select %empty, %one, %sum : f32
    %o = arith.divf %acc, %safe : f32
    attn.yield %o : f32
  }
}
"""

P = "tensor<?x?x128xbf16>"
PACKED = """
func.func @f(%%q: %s, %%k: %s, %%v: %s, %%cu: tensor<?xi32>) -> %s {
  %%o = attn.attention queries(%%q : %s) keys(%%k : %s) values(%%v : %s)
      cu_seqlens_q(%%cu : tensor<?xi32>) cu_seqlens_k(%%cu : tensor<?xi32>) -> %s
  return %%o : %s
}
""" % ((P,) * 9)

PREFIX = mask("""      %c = arith.cmpi sle, %j, %i : i32
      %d = arith.cmpi slt, %j, %n : i32
      %e = arith.ori %c, %d : i1
      attn.yield %e : i1""", "%p", "i32", ", %n: i32")

DOCUMENTS = mask("""      %bb = arith.index_cast %b : i32 to index
      %ii = arith.index_cast %i : i32 to index
      %jj = arith.index_cast %j : i32 to index
      %x = tensor.extract %t[%bb, %ii] : tensor<?x?xi32>
      %y = tensor.extract %t[%bb, %jj] : tensor<?x?xi32>
      %e = arith.cmpi eq, %x, %y : i32
      attn.yield %e : i1""", "%ids", "tensor<?x?xi32>", ", %t: tensor<?x?xi32>")

CAUSAL_DOCUMENTS = DOCUMENTS.replace("      attn.yield %e",
                                     """      %c = arith.cmpi sle, %j, %i : i32
      %g = arith.andi %c, %e : i1
      attn.yield %g""")

BOOLEAN = mask("""      %ii = arith.index_cast %i : i32 to index
      %jj = arith.index_cast %j : i32 to index
      %x = tensor.extract %t[%ii, %jj] : tensor<?x?xi1>
      attn.yield %x : i1""", "%m", "tensor<?x?xi1>", ", %t: tensor<?x?xi1>")

PADDING = mask("""      %bb = arith.index_cast %b : i32 to index
      %jj = arith.index_cast %j : i32 to index
      %x = tensor.extract %t[%bb, %jj] : tensor<?x?xi1>
      attn.yield %x : i1""", "%m", "tensor<?x?xi1>", ", %t: tensor<?x?xi1>")

SIGMOID = """captures(%n : f32) score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %x: f32):
      %y = arith.addf %s, %x : f32
      attn.yield %y : f32
    }"""


def documents(b, s, count=8):
    """Ids of equal documents."""
    import torch

    return (
        (torch.arange(s, device="cuda") * count // s)
        .to(torch.int32)
        .expand(b, s)
        .contiguous()
    )


def uneven(b, s):
    """Ids of documents of uneven lengths, the same for all batches but for a shift."""
    import torch

    i = torch.arange(s, device="cuda")
    return torch.stack([torch.sqrt(i.double() * (7 + n)).to(torch.int32) // 9
                        for n in range(b)])


def half(b, h, s):
    """Half of all pairs."""
    import torch

    return (torch.rand((s, s), device="cuda") < 0.5,)


def patches(b, h, s):
    """A quarter of the patches of 160 rows and 224 keys."""
    import torch

    live = torch.rand((s // 160 + 1, s // 224 + 1), device="cuda") < 0.25
    i, j = torch.arange(s, device="cuda") // 160, torch.arange(s, device="cuda") // 224
    return (live[i][:, j].contiguous(),)


def padding(b, h, s):
    """Keys of which some tiles have all, some a few and some none."""
    import torch

    j = torch.arange(s, device="cuda")
    return (((j % 1024 < 500) | (j % 1024 == 900)).expand(b, s).contiguous(),)


def bounds(b, s, count=8):
    """Offsets of equal documents, those of all batches in one row."""
    import torch

    return torch.tensor([n * s + m * s // count for n in range(b)
                         for m in range(count)] + [b * s],
                        dtype=torch.int32, device="cuda")


class Variant:
    def __init__(self, text, arguments=lambda b, h, s: (), score=None, live=None,
                 sum=None,
                 shape=(2, 16, 8192), bar=0.95, packed=False):
        self.text, self.arguments, self.score, self.live = text, arguments, score, live
        self.sum, self.shape, self.bar, self.packed = sum, shape, bar, packed

    def place(self, tensor):
        """As the kernel takes it: packed, the batches are one behind the other."""
        if not self.packed:
            return tensor
        b, h, s, d = tensor.shape
        return tensor.transpose(0, 1).reshape(h, b * s, d).contiguous()


def slopes(b, h, s):
    import torch

    return (torch.tensor([2.0 ** (-8.0 * (n + 1) / h) for n in range(h)],
                         device="cuda"),)


def build():
    import torch

    causal = lambda i, j, a: j <= i
    variants = {
        "plain": Variant(attention()),
        "causal": Variant(attention("{causal = #attn.causal<bottom_right>}"),
                          live=causal),
        "alibi": Variant(
            attention("alibi(%a : tensor<?xf32>)", ", %a: tensor<?xf32>"), slopes,
            score=lambda s, i, j, h, a: s - a[0][h].double() * (i - j).abs()),
        "window": Variant(
            attention("window_left(%w) {causal = #attn.causal<bottom_right>}",
                      ", %w: i32"),
            lambda b, h, s: (1024 if s > 2000 else 300,),
            live=lambda i, j, a: (j <= i) & (i - j <= a[0])),
        "prefix": Variant(
            attention(PREFIX, ", %p: i32"), lambda b, h, s: (512,),
            live=lambda i, j, a: (j <= i) | (j < a[0])),
        "packed": Variant(
            PACKED, lambda b, h, s: (bounds(b, s),), packed=True,
            live=lambda i, j, a: torch.bucketize(i, a[0], right=True)
            == torch.bucketize(j, a[0], right=True)),
        "documents": Variant(
            attention(DOCUMENTS, ", %ids: tensor<?x?xi32>"),
            lambda b, h, s: (documents(b, s),),
            live=lambda i, j, a: a[0][0][i.long()] == a[0][0][j.long()]),
        "uneven": Variant(
            attention(DOCUMENTS, ", %ids: tensor<?x?xi32>"),
            lambda b, h, s: (uneven(b, s),),
            live=lambda i, j, a: a[0][0][i.long()] == a[0][0][j.long()], bar=0),
        "chapters": Variant(
            attention(CAUSAL_DOCUMENTS, ", %ids: tensor<?x?xi32>"),
            lambda b, h, s: (documents(b, s),),
            live=lambda i, j, a: (a[0][0][i.long()] == a[0][0][j.long()]) & (j <= i),
            bar=0),
        "half": Variant(
            attention(BOOLEAN, ", %m: tensor<?x?xi1>"), half,
            live=lambda i, j, a: a[0][i.long(), j.long()], bar=0.75),
        "patches": Variant(
            attention(BOOLEAN, ", %m: tensor<?x?xi1>"), patches,
            live=lambda i, j, a: a[0][i.long(), j.long()], bar=0.7),
        "padding": Variant(
            attention(PADDING, ", %m: tensor<?x?xi1>"), padding,
            live=lambda i, j, a: a[0][0][j.long()] & (i >= 0), bar=0),
        "scale": Variant(
            attention("scale(%x)", ", %x: f32"), lambda b, h, s: (-0.11,),
            score=lambda s, i, j, h, a: s * math.sqrt(128) * a[0]),
        "softcap": Variant(
            attention("softcap(%c)", ", %c: f32"), lambda b, h, s: (30.0,),
            score=lambda s, i, j, h, a: a[0] * torch.tanh(s / a[0]), bar=0.85),
        "tight": Variant(
            attention("softcap(%c)", ", %c: f32"), lambda b, h, s: (2.0,),
            score=lambda s, i, j, h, a: a[0] * torch.tanh(s / a[0]), bar=0.85),
        "monoid": Variant(attention(before=SOFTMAX, monoid="@mine"), bar=0.98),
        "sigmoid": Variant(
            attention(SIGMOID, ", %n: f32", monoid="@sigmoid_sum"),
            lambda b, h, s: (-math.log(16384.0),),
            score=lambda s, i, j, h, a: s + a[0], sum=torch.sigmoid,
            shape=(1, 16, 16384),
            bar=0.85),
    }
    return variants


def reference(v, q, k, values, arguments, head):
    """Head `head` of batch 0 in float64, and of 16-bit steps."""
    import torch

    def run(kind):
        x, y, z = (t[0, head].to(kind) for t in (q, k, values))
        s = x @ y.T
        s = s / math.sqrt(q.shape[3])
        i = torch.arange(q.shape[2], device="cuda")[:, None]
        j = torch.arange(k.shape[2], device="cuda")[None, :]
        if v.score:
            s = v.score(s, i, j, head, arguments)
        s = s.to(kind)
        live = v.live(i, j, arguments) if v.live else None
        if v.sum:
            w = v.sum(s)
            return (w if live is None else w * live) @ z
        if live is not None:
            s = s.masked_fill(~live, -math.inf)
        if kind == torch.float64:
            return torch.nan_to_num(torch.softmax(s, -1)) @ z
        # A row without live keys is 0.
        p = torch.nan_to_num(torch.exp(s - s.max(-1, keepdim=True).values))
        return torch.nan_to_num((p @ z) / p.sum(-1, keepdim=True))

    want = run(torch.float64)
    emulated = (run(torch.bfloat16).double() - want).abs().max().item()
    return want, emulated


def burst(run, count=7):
    import torch

    torch.cuda.synchronize()
    time.sleep(0.25)
    run()
    points = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    points[0].record()
    for point in points[1:]:
        run()
        point.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(points, points[1:]))


def count(v, b, s, arguments):
    """Live pairs of a head, and tiles that hold one."""
    import torch

    blocks = (s + BLOCK - 1) // BLOCK
    if not v.live:
        return float(s) * s, float(blocks) * blocks
    pairs = tiles = 0
    j = torch.arange(s, device="cuda")[None, :]
    for first in range(0, s, BLOCK):
        i = torch.arange(first, min(first + BLOCK, s), device="cuda")[:, None]
        live = v.live(i, j, arguments)
        pairs += live.sum().item()
        some = torch.nn.functional.pad(live.any(0), (0, blocks * BLOCK - s))
        tiles += some.view(blocks, BLOCK).any(1).sum().item()
    return float(pairs), float(tiles)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    import torch
    import attn

    variants = build()
    for name in options.names:
        if name not in variants:
            parser.error("expected names out of %s, but got %r"
                         % (", ".join(variants), name))
    names = options.names or list(variants)
    torch.manual_seed(0)
    wrong = slow = 0
    kernels = {n: attn.compile(variants[n].text, target=options.target)
               for n in dict.fromkeys(["plain"] + names)}

    def draw(b, h, s, keys=None):
        return [torch.randn((b, h, n, 128), device="cuda").to(torch.bfloat16)
                for n in (s, keys or s, keys or s)]

    if not options.no_check:
        for name in names:
            v = variants[name]
            for s in (1024, 1399) + ((16384,) if v.sum else ()):
                # Of 1399 tokens, more blocks of rows than a GPU takes at once.
                heads = 24 if s == 1399 else 2
                q, k, values = draw(2, heads, s)
                arguments = v.arguments(2, heads, s)
                try:
                    out = kernels[name](*map(v.place, (q, k, values)), *arguments)
                    torch.cuda.synchronize()
                except (ValueError, NotImplementedError, RuntimeError) as error:
                    wrong += 1
                    print("%-10s %s" % (name, str(error).split("\n")[0][:300]),
                          flush=True)
                    continue
                error = bound = -math.inf
                good = True
                for head in sorted({1, heads // 2, heads - 1}):
                    want, rounding = reference(v, q, k, values, arguments, head)
                    own = out[head, :s] if v.packed else out[0, head]
                    largest = want.abs().max().item()
                    off = (own.double() - want).abs().max().item()
                    limit = 2 * rounding + 2 * 2.0 ** -8 * largest
                    good &= off <= limit
                    if off - limit > error - bound or bound < 0:
                        error, bound, emulated, most = off, limit, rounding, largest
                wrong += not good
                print(
                    "%-10s %5d tokens: error %.2e, bound %.2e (16-bit steps %.2e, "
                    "largest %.2e) %s"
                    % (
                        name,
                        s,
                        error,
                        bound,
                        emulated,
                        most,
                        "ok" if good else "WRONG",
                    ),
                    flush=True,
                )

    def time_of(name, shape, arguments=(), keys=None):
        q, k, values = map(variants[name].place, draw(*shape, keys))
        out = torch.empty_like(q)
        run = kernels[name]
        return burst(lambda: run(q, k, values, *arguments, out=(out,)))

    for _ in range(options.rounds):
        for name in names:
            v = variants[name]
            b, h, s = v.shape
            arguments = v.arguments(b, h, s)
            pairs, tiles = count(v, b, s, arguments)
            flop = 4.0 * 128 * b * h
            rows = (s + BLOCK - 1) // BLOCK
            # Tiles of a row on average: between two whole numbers.
            each = tiles / rows
            around = sorted({math.floor(each), math.ceil(each)})
            plain = [time_of("plain", v.shape, keys=n * BLOCK) for n in around]
            ms = time_of(name, v.shape, arguments)
            plain = [(x + time_of("plain", v.shape, keys=n * BLOCK)) / 2
                     for x, n in zip(plain, around)]
            plain = plain[0] + (plain[-1] - plain[0]) * (each - around[0])
            touched = flop * tiles * BLOCK * BLOCK
            rate, like = touched / ms * 1e-9, touched / plain * 1e-9
            slow += rate < v.bar * like
            print(
                "%-10s %.4f ms: %4.0f TFLOP/s of live pairs, %4.0f of %.0f touched "
                "tiles a head; "
                "plain with %.2f tiles a row %4.0f: %.3f of plain, bar %.2f%s"
                % (
                    name,
                    ms,
                    flop * pairs / ms * 1e-9,
                    rate,
                    tiles,
                    each,
                    like,
                    rate / like,
                    v.bar,
                    "" if rate >= v.bar * like else " BELOW",
                ),
                flush=True,
            )
    print("%d wrong, %d below their bars" % (wrong, slow))
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
