# RUN: %python %s
"""Floats that an integer cannot hold, in regions: the nearest number that it can, and
0 of NaN, the same on every target. The reference is Python's integers.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import numpy as np

import attn

MONOID = """attn.monoid @raw cocycle stats() components(value) outputs("o") {
  lift { ^bb0(%s: f32): attn.yield %s : f32 }
  finalize { ^bb0(%c: f32): attn.yield %c : f32 }
}"""
REGION = """^bb0(%%s: f32, %%b: i32, %%h: i32, %%i: i32, %%j: i32, %%t: tensor<?xf32>):
  %%n = arith.index_cast %%j : i32 to index
  %%e = tensor.extract %%t[%%n] : tensor<?xf32>
  %s
  %%y = arith.%s %%x : %s to %s
  %%z = arith.%s %%y : %s to f32
  attn.yield %%z : f32"""
NARROWER = {
    "f32": "%c = arith.constant 0.0 : f32 %x = arith.addf %e, %c : f32",
    "f16": "%x = arith.truncf %e : f32 to f16",
    "f64": "%x = arith.extf %e : f32 to f64",
}
VALUES = np.array([0, 1.9, -0.9, -1.9, 127, 128, -128, -128.9, -129, 200, 255, 256, 300,
                   -300, 32767, 32768, 40000, 65535, 65536, 2.0**31, -(2.0**31),
                   2.0**32, 3e9, 1e10, -1e10, 2.0**63, -(2.0**63), 1e19, -1e19, 1e30,
                   np.inf, -np.inf, np.nan], np.float32)


def nearest(x, is_signed, width):
    least = -(1 << width - 1) if is_signed else 0
    most = (1 << width - is_signed) - 1
    if x != x:
        return 0
    if np.isinf(x):
        return most if x > 0 else least
    return min(max(int(x), least), most)


def main():
    n = len(VALUES)
    q, k = np.zeros((1, 1, 1, 8), np.float32), np.ones((1, 1, n, 8), np.float32)
    v = np.eye(n, dtype=np.float32)[None, None]
    kinds = [("f32", width, to_int) for width in (8, 16, 32, 64)
             for to_int in ("fptosi", "fptoui")]
    kinds += [("f32", 1, "fptoui"), ("f16", 32, "fptosi"), ("f16", 8, "fptosi"),
              ("f16", 16, "fptoui"), ("f64", 32, "fptosi"), ("f64", 64, "fptoui")]
    for kind, width, to_int in kinds:
        is_signed, to = to_int == "fptosi", "i%d" % width
        text = REGION % (NARROWER[kind], to_int, kind, to,
                         "sitofp" if is_signed else "uitofp", to)
        with np.errstate(over="ignore"):
            values = VALUES.astype({"f16": np.float16}.get(kind, np.float64))
        want = [nearest(float(x), is_signed, width) for x in values]
        want = np.array(want, np.float64).astype(np.float32)
        for target in (None, "cpu-generic", "emulator:sm_80", "emulator:sm_90a"):
            kernel = attn.compile(q, k, v, score_mod=text, monoid=MONOID,
                                  captures={"t": VALUES}, target=target)
            got = kernel(q=q, k=k, v=v, t=VALUES)[0, 0, 0]
            wrong = got != want
            assert not wrong.any(), (kind, to_int, to, target, VALUES[wrong],
                                     got[wrong], want[wrong])


main()
