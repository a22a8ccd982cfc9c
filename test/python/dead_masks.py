# RUN: %python %s
"""A mask that no pair passes, as a constant: outputs and gradients are 0, and the LSE
is -inf, as of rows that any other mask kills.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import numpy as np

import attn

NEVER = """^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
  %no = arith.constant false
  attn.yield %no : i1"""
# Becomes a constant once it is beside others, and options are beside it.
CONTRADICTION = """^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
  %near = arith.cmpi sle, %i, %j : i32
  %no = arith.constant false
  %both = arith.andi %near, %no : i1
  attn.yield %both : i1"""
rng = np.random.default_rng(0)


def draw(dtype, *shape):
    return rng.standard_normal(shape).astype(dtype)


def check(target, mask, dtype, heads, sq, sk, d, **options):
    what = (target, mask, dtype, heads, sq, sk, d, options)
    q, do = draw(dtype, 1, heads, sq, d), draw(dtype, 1, heads, sq, d)
    k, v = draw(dtype, 1, 1, sk, d), draw(dtype, 1, 1, sk, d)
    options["mask_mod"] = mask
    kernel = attn.compile(q, k, v, return_lse=True, target=target, **options)
    out, lse = kernel(q, k, v)
    assert not out.any() and np.isneginf(lse).all(), what
    if sq == 1:
        return
    out, vjp = attn.attention_vjp(q, k, v, target=target, **options)
    assert not out.any(), what
    for name, gradient in vjp(do).items():
        assert not gradient.any(), (name, what)


for target in ("emulator:sm_90a", "emulator:sm_80", None):
    check(target, NEVER, "f2", 2, 200, 300, 64)
    check(target, NEVER, "f4", 2, 70, 90, 64)
    check(target, CONTRADICTION, "f2", 2, 150, 70, 64, causal="bottom_right")
    check(target, NEVER, "f2", 4, 1, 9000, 128)
print("ok")
