#!/usr/bin/env python3
"""What outputs beside attention's cost on a GPU.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/outputs.py [--outputs A,B] [--heads 2x16] [--size 8192] [--depth 128]
        [--no-times] [--device cuda]

Statistics of rows (LSE, maximum, entropy) in the call itself; weights and maxima of
keys, by a call over the queries with the rows' LSE captured; the two largest scores
of a row and where they are, by a general monoid; the eight largest (attn.top_keys).
Each is compared with float64 on some rows first. A line has the time beside that of
the output alone, in turns: what is added, or for calls of their own the share of it.
Needs torch.
"""

import argparse
import math
import sys
import time

import masks

ROWS = 256

COLUMNS = """
!rows = tensor<?x?x?x%(d)dx%(type)s>
!each = tensor<?x?x?xf32>
attn.monoid @weights cocycle stats() components(unit) outputs("o") {
  lift { ^bb0(%%s: f32): %%zero = arith.constant 0.0 : f32
         %%x = arith.minimumf %%s, %%zero : f32 %%w = math.exp %%x fastmath<afn> : f32
         attn.yield %%w : f32 }
  finalize { ^bb0(%%sum: f32): attn.yield %%sum : f32 }
}
attn.monoid @greatest cocycle stats(f32) components(unit) outputs("o") {
  identity { %%e = arith.constant 0xFF800000 : f32 attn.yield %%e : f32 }
  combine { ^bb0(%%a: f32, %%b: f32): %%c = arith.maximumf %%a, %%b : f32
            attn.yield %%c : f32 }
  rescale { ^bb0(%%from: f32, %%to: f32): %%r = arith.constant 1.0 : f32
            attn.yield %%r : f32 }
  lift { ^bb0(%%s: f32): %%zero = arith.constant 0.0 : f32
         attn.yield %%s, %%zero : f32, f32 }
  finalize { ^bb0(%%c: f32, %%n: f32): %%w = math.exp %%c : f32 attn.yield %%w : f32 }
}
func.func @f(%%q: !rows, %%k: !rows, %%lse: !each) -> !each {
  %%o = attn.aggregate @%(monoid)s scores(%%k, %%q : !rows, !rows)
      captures(%%lse : !each) {side = #attn.side<queries>}
    score {
    ^bb0(%%s: f32, %%b: i32, %%h: i32, %%j: i32, %%i: i32, %%each: !each):
      %%scale = arith.constant %(scale).9g : f32
      %%scaled = arith.mulf %%s, %%scale : f32
      %%bi = arith.index_cast %%b : i32 to index
      %%hi = arith.index_cast %%h : i32 to index
      %%ii = arith.index_cast %%i : i32 to index
      %%z = tensor.extract %%each[%%bi, %%hi, %%ii] : !each
      %%x = arith.subf %%scaled, %%z : f32
      attn.yield %%x : f32
    }
    mask {
    ^bb0(%%b: i32, %%h: i32, %%j: i32, %%i: i32, %%each: !each):
      %%live = arith.cmpi sle, %%j, %%i : i32
      attn.yield %%live : i1
    } -> !each
  return %%o : !each
}
"""

# The two largest scores and their keys, the earlier one of equal ones.
TOP = """
attn.monoid @top general stats(f32, f32, f32, f32) components(unit)
    outputs("first", "where", "second", "where2", "margin") {
  identity {
    %none = arith.constant 0xFF800000 : f32
    %no = arith.constant -1.0 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %none, %no, %none, %no, %zero : f32, f32, f32, f32, f32
  }
  combine {
  ^bb0(%a1: f32, %i1: f32, %a2: f32, %i2: f32, %m: f32,
       %b1: f32, %j1: f32, %b2: f32, %j2: f32, %n: f32):
    %b_wins = arith.cmpf ogt, %b1, %a1 : f32
    %c1 = arith.select %b_wins, %b1, %a1 : f32
    %k1 = arith.select %b_wins, %j1, %i1 : f32
    %keep = arith.cmpf oge, %a1, %b2 : f32
    %a_loses = arith.select %keep, %a1, %b2 : f32
    %a_place = arith.select %keep, %i1, %j2 : f32
    %next = arith.cmpf ogt, %b1, %a2 : f32
    %b_loses = arith.select %next, %b1, %a2 : f32
    %b_place = arith.select %next, %j1, %i2 : f32
    %c2 = arith.select %b_wins, %a_loses, %b_loses : f32
    %k2 = arith.select %b_wins, %a_place, %b_place : f32
    attn.yield %c1, %k1, %c2, %k2, %m : f32, f32, f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %j: i32):
    %none = arith.constant -3.40282347e+38 : f32
    %no = arith.constant -1.0 : f32
    %zero = arith.constant 0.0 : f32
    %place = arith.sitofp %j : i32 to f32
    attn.yield %s, %place, %none, %no, %zero : f32, f32, f32, f32, f32
  }
  finalize {
  ^bb0(%c1: f32, %k1: f32, %c2: f32, %k2: f32, %n: f32):
    %least = arith.constant -3.40282347e+38 : f32
    %inf = arith.constant 0x7F800000 : f32
    %alone = arith.cmpf ole, %c2, %least : f32
    %difference = arith.subf %c1, %c2 : f32
    %margin = arith.select %alone, %inf, %difference : f32
    attn.yield %c1, %k1, %c2, %k2, %margin : f32, f32, f32, f32, f32
  }
}
"""

# How many scores are at least 1.
COUNT = """
attn.monoid @count cocycle stats() components(unit) outputs("count") {
  lift { ^bb0(%s: f32): %least = arith.constant 1.0 : f32
         %above = arith.cmpf oge, %s, %least : f32
         %one = arith.uitofp %above : i1 to f32 attn.yield %one : f32 }
  finalize { ^bb0(%n: f32): attn.yield %n : f32 }
}
"""


class Output:
    """A call, its numbers beside float64's, and how much of attention it may take:
    `added` of its own time, or `share` as a call of its own."""

    def __init__(self, make, check, added=None, share=None):
        self.make, self.check, self.added, self.share = make, check, added, share


def aux(names, monoid):
    def make(q, k, v, options):
        import attn
        import torch

        out = torch.empty_like(q)
        extra = {"return_aux": names} if names else {}
        return lambda: attn.attention(q, k, v, out=out, monoid=monoid, **extra,
                                      causal=options.causal)
    return make


def scores(q, k, rows, causal):
    """Those of some rows of the last head, in float64, and the rows."""
    import torch

    s = q[-1, -1, rows].double() @ k[-1, -1].double().mT / math.sqrt(q.shape[3])
    if causal:
        later = torch.arange(k.shape[2], device=q.device) > rows[:, None]
        s = s.masked_fill(later, -math.inf)
    return s


def rows_are(name, want):
    """Whether the output `name` is what `want` makes of rows of scores."""
    def check(result, q, k, options):
        import torch

        rows = torch.randperm(q.shape[2], device=q.device)[:ROWS]
        expected = want(scores(q, k, rows, options.causal))
        got = (result[1][name] if name else result)[-1, -1, rows]
        return (got.double() - expected).abs().nan_to_num(0.0).max().item()
    return check


def entropy(s):
    import torch

    p = torch.softmax(s, -1)
    return -(p * torch.log(p.clamp(min=1e-300))).sum(-1)


def columns(monoid):
    def make(q, k, v, options):
        import attn
        import torch

        text = COLUMNS % dict(
            d=q.shape[3], scale=1 / math.sqrt(q.shape[3]), monoid=monoid,
            type={torch.float32: "f32", torch.bfloat16: "bf16"}[q.dtype])
        if not options.causal:
            text = text.replace("%live = arith.cmpi sle, %j, %i : i32",
                                "%live = arith.constant true")
        kernel = attn.compile(text, target=options.target)
        _, lse = attn.attention(q, k, v, return_lse=True, causal=options.causal)
        return lambda: kernel(q, k, lse)
    return make


def columns_are(reduce):
    def check(result, q, k, options):
        import torch

        keys = torch.randperm(k.shape[2], device=q.device)[:ROWS]
        want = None
        for first in range(0, q.shape[2], 1024):
            rows = torch.arange(first, min(first + 1024, q.shape[2]), device=q.device)
            p = torch.softmax(scores(q, k, rows, options.causal), -1)[:, keys]
            part = p.sum(0) if reduce == "sum" else p.amax(0)
            if want is None:
                want = part
            else:
                want = want + part if reduce == "sum" else want.maximum(part)
        off = (result[-1, -1, keys].double() - want).abs()
        return (off / want.clamp(min=1e-3)).max().item()
    return check


def alone(text, names):
    def make(q, k, v, options):
        import attn

        extra = {"return_aux": names} if names else {}
        return lambda: attn.attention(q, k, None, monoid=text, causal=options.causal,
                                      **extra)
    return make


def top_is(result, q, k, options):
    """Places are right where their scores are the largest."""
    import torch

    rows = torch.randperm(q.shape[2], device=q.device)[:ROWS]
    s = scores(q, k, rows, options.causal)
    want = s.topk(2, -1).values
    first, more = result
    off = [first[-1, -1, rows] - want[:, 0], more["second"][-1, -1, rows] - want[:, 1]]
    for at, which in (("where", 0), ("where2", 1)):
        place = more[at][-1, -1, rows].long().clamp(min=0)
        off.append(s.gather(1, place[:, None])[:, 0] - want[:, which])
    live = rows > 0
    return max(x.double()[live].abs().max().item() for x in off)


def top_keys(q, k, v, options):
    import attn

    return lambda: attn.top_keys(q, k, 8, causal=options.causal)


def top_keys_are(result, q, k, options):
    """Of scores and places."""
    import torch

    rows = torch.randperm(q.shape[2], device=q.device)[:ROWS]
    s = scores(q, k, rows, options.causal)
    want = s.topk(8, -1).values
    got, places = (x[-1, -1, rows] for x in result)
    there = s.gather(1, places.long().clamp(min=0))
    live = want.isfinite()
    if not (torch.equal(got.isfinite(), live) and torch.equal(places >= 0, live)):
        return math.inf
    return max((x.double() - want)[live].abs().max().item() for x in (got, there))


OUTPUTS = {
    "lse": Output(aux(["lse"], "softmax"), rows_are("lse", lambda s: s.logsumexp(-1)),
                  added=0.05),
    "max": Output(aux(["lse", "max"], "softmax_max"),
                  rows_are("max", lambda s: s.amax(-1)), added=0.05),
    "entropy": Output(aux(["lse", "entropy"], "softmax_entropy"),
                      rows_are("entropy", entropy), added=0.05),
    "column-sums": Output(columns("weights"), columns_are("sum"), share=0.7),
    "column-maxima": Output(columns("greatest"), columns_are("max"), share=0.7),
    "count": Output(alone(COUNT, None), rows_are(None, lambda s: (s >= 1.0).sum(-1)),
                    share=0.7),
    "top-2": Output(alone(TOP, ["where", "second", "where2", "margin"]), top_is,
                    share=1.0),
    "top-8": Output(top_keys, top_keys_are, share=0.5),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--outputs", default=",".join(OUTPUTS))
    parser.add_argument("--heads", default="2x16")
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--depth", type=int, default=128)
    parser.add_argument("--causal", choices=["bottom_right"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--target")
    parser.add_argument("--no-times", action="store_true")
    options = parser.parse_args()
    import attn
    import torch

    names = options.outputs.split(",")
    for name in names:
        if name not in OUTPUTS:
            parser.error("expected outputs out of %s, but got %r"
                         % (", ".join(OUTPUTS), name))
    b, h = map(int, options.heads.split("x"))
    torch.manual_seed(0)
    gpu = options.device == "cuda"
    if gpu and not options.target:
        options.target = "sm_90a"
    dtype = torch.bfloat16 if gpu else torch.float32
    q, k, v = (torch.randn((b, h, options.size, options.depth), device=options.device)
               .to(dtype) for _ in range(3))
    out = torch.empty_like(q)

    def plain():
        return attn.attention(q, k, v, out=out, causal=options.causal)

    plain()
    wrong, slow, start = [], [], time.time()
    for name in names:
        output = OUTPUTS[name]
        try:
            run = output.make(q, k, v, options)
            off = output.check(run(), q, k, options)
        except (ValueError, NotImplementedError, RuntimeError) as error:
            wrong.append(name)
            print("%-14s %s" % (name, str(error).split("\n")[0][:300]), flush=True)
            continue
        good = off <= 2e-3 if name != "count" else off <= 1
        wrong += [] if good else [name]
        text = "%-14s off by %.1e %s" % (name, off, "ok" if good else "WRONG")
        if not options.no_times:
            rounds = [(masks.burst(plain), masks.burst(run)) for _ in range(3)]
            base, ms = (sorted(x)[1] for x in zip(*rounds))
            most = output.share or 1 + output.added
            text += "  %.4f ms, attention %.4f: %.3f, bar %.2f" % (
                ms, base, ms / base, most)
            if ms / base > most:
                slow.append(name)
                text += " BELOW"
        print(text, flush=True)
    print("%d wrong: %s; %d slow: %s; %.0f s" % (
        len(wrong), " ".join(wrong), len(slow), " ".join(slow), time.time() - start))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
