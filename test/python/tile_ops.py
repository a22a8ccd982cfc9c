# RUN: %python %s cpu
# RUN: %python %s emulator:sm_80
# RUN: %python %s emulator:sm_90a
"""What a backward pass and a scan stand on, as programs on tiles by hand against
float64: products with the left operand transposed, loads whose rows are columns,
vectors along the columns, additions to memory; and, of these, the fused backward
pass, whose five products share one loop.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import ml_dtypes
import numpy as np

import attn


def arg(name, dims, output=False):
    text = ", ".join('"%s"' % d for d in dims.split())
    flag = ", output" if output else ""
    return 'attn.arg = {name = "%s"%s, dims = [%s]}' % (name, flag, text)


# Per block (a head): S = K^T V over the rows of both, added to what memory holds
# by a second launch.
STATE = """
!t = memref<?x?x64xT, strided<[?, ?, 1]>>
!s = memref<?x64x64xf32, strided<[?, ?, 1]>>
tile.kernel private @zero(%s: !s, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %tile = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  tile.store %tile, %s[%block, %c0, %c0] : !tile.tile<64x64xf32>, !s
  tile.return
}
tile.kernel private @state(%k: !t, %v: !t, %s: !s, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %n = memref.dim %k, %c1 : !t
  %none = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  %sum = scf.for %j = %c0 to %n step %c64 iter_args(%acc = %none)
      -> !tile.tile<64x64xf32> {
    %kt = tile.load %k[%block, %j, %c0] rows(%c0 to %n) : !t -> !tile.tile<64x64xT>
    %vt = tile.load %v[%block, %j, %c0] rows(%c0 to %n) : !t -> !tile.tile<64x64xT>
    %next = tile.rows 64 outs(%acc : !tile.tile<64x64xf32>) {
    ^bb0(%first: index, %a: !tile.tile<64x64xf32>):
      %d = tile.dot %kt, %vt acc %a transpose_lhs : !tile.tile<64x64xT>,
          !tile.tile<64x64xT> -> !tile.tile<64x64xf32>
      tile.yield %d : !tile.tile<64x64xf32>
    } -> !tile.tile<64x64xf32>
    scf.yield %next : !tile.tile<64x64xf32>
  }
  tile.accumulate ORDER %sum, %s[%block, %c0, %c0] : !tile.tile<64x64xf32>, !s
  tile.return
}
func.func @main(%k: !t {K}, %v: !t {V}, %s: !s {S}) attributes {tile.plan} {
  %c0 = arith.constant 0 : index
  %h = memref.dim %k, %c0 : !t
  tile.launch @zero grid(%h) args(%s : !s)
  tile.launch @state grid(%h) args(%k, %v, %s : !t, !t, !s)
  tile.launch @state grid(%h) args(%k, %v, %s : !t, !t, !s)
  return
}
"""

# Per head and 64 rows: the rows of (Q K^T diag(w)) V, and for each of them the sum
# of its weights added to a vector that holds numbers.
WEIGHTED = """
!t = memref<?x?x64xT, strided<[?, ?, 1]>>
!o = memref<?x?x64xf32, strided<[?, ?, 1]>>
!w = memref<?x?xf32, strided<[?, ?]>>
tile.kernel private @weighted(%q: !t, %k: !t, %v: !t, %w: !w, %o: !o, %z: !w,
    %tiles: index, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %h = arith.divui %block, %tiles : index
  %t = arith.remui %block, %tiles : index
  %i0 = arith.muli %t, %c64 : index
  %m = memref.dim %q, %c1 : !t
  %n = memref.dim %k, %c1 : !t
  %qt = tile.load %q[%h, %i0, %c0] rows(%c0 to %m) : !t -> !tile.tile<64x64xT>
  %none = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  %empty = tile.fill %zero : f32 -> !tile.tile<64x1xf32>
  tile.store %none, %o[%h, %i0, %c0] rows(%c0 to %m) : !tile.tile<64x64xf32>, !o
  %start = tile.fill %one : f32 -> !tile.tile<64x1xf32>
  tile.store vector %start, %z[%h, %i0] rows(%c0 to %m) : !tile.tile<64x1xf32>, !w
  %sum:2 = scf.for %j = %c0 to %n step %c64 iter_args(%acc = %none, %all = %empty)
      -> (!tile.tile<64x64xf32>, !tile.tile<64x1xf32>) {
    %wt = tile.load vector transposed %w[%h, %j] rows(%c0 to %n) : !w
        -> !tile.tile<1x64xf32>
    %kt = tile.load %k[%h, %j, %c0] rows(%c0 to %n) : !t -> !tile.tile<64x64xT>
    %vt = tile.load %v[%h, %j, %c0] rows(%c0 to %n) : !t -> !tile.tile<64x64xT>
    %next:2 = tile.rows 64 ins(%qt : !tile.tile<64x64xT>) outs(%acc, %all
        : !tile.tile<64x64xf32>, !tile.tile<64x1xf32>) {
    ^bb0(%first: index, %qr: !tile.tile<64x64xT>, %a: !tile.tile<64x64xf32>,
        %b: !tile.tile<64x1xf32>):
      %s = tile.dot %qr, %kt transpose_rhs : !tile.tile<64x64xT>, !tile.tile<64x64xT>
          -> !tile.tile<64x64xf32>
      %p, %wide = tile.map ins(%s, %wt : !tile.tile<64x64xf32>, !tile.tile<1x64xf32>) {
      ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
        %e = arith.mulf %x, %y : f32
        ROUND
        tile.yield %rounded, %e : T, f32
      } -> !tile.tile<64x64xT>, !tile.tile<64x64xf32>
      %row = tile.reduce ins(%wide : !tile.tile<64x64xf32>) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %e = arith.addf %x, %y : f32
        tile.yield %e : f32
      } -> !tile.tile<64x1xf32>
      %total = tile.map ins(%b, %row : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>) {
      ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
        %e = arith.addf %x, %y : f32
        tile.yield %e : f32
      } -> !tile.tile<64x1xf32>
      %d = tile.dot %p, %vt acc %a : !tile.tile<64x64xT>, !tile.tile<64x64xT>
          -> !tile.tile<64x64xf32>
      tile.yield %d, %total : !tile.tile<64x64xf32>, !tile.tile<64x1xf32>
    } -> !tile.tile<64x64xf32>, !tile.tile<64x1xf32>
    scf.yield %next#0, %next#1 : !tile.tile<64x64xf32>, !tile.tile<64x1xf32>
  }
  tile.accumulate ORDER %sum#0, %o[%h, %i0, %c0] rows(%c0 to %m)
      : !tile.tile<64x64xf32>, !o
  tile.accumulate ORDER vector %sum#1, %z[%h, %i0] rows(%c0 to %m)
      : !tile.tile<64x1xf32>, !w
  tile.return
}
func.func @main(%q: !t {Q}, %k: !t {K}, %v: !t {V}, %w: !w {W}, %o: !o {O}, %z: !w {Z})
    attributes {tile.plan} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %h = memref.dim %q, %c0 : !t
  %m = memref.dim %q, %c1 : !t
  %tiles = arith.ceildivui %m, %c64 : index
  %grid = arith.muli %h, %tiles : index
  tile.launch @weighted grid(%grid) args(%q, %k, %v, %w, %o, %z, %tiles : !t, !t, !t,
      !w, !o, !w, index)
  return
}
"""

# Per head its 64 rows or fewer, but for the first, as columns.
TRANSPOSED = """
!t = memref<?x?x64xf32, strided<[?, ?, 1]>>
tile.kernel private @transposed(%x: !t, %y: !t, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %x, %c1 : !t
  %xt = tile.load transposed %x[%block, %c0, %c0] rows(%c1 to %m) : !t
      -> !tile.tile<64x64xf32>
  tile.store %xt, %y[%block, %c0, %c0] : !tile.tile<64x64xf32>, !t
  tile.return
}
func.func @main(%x: !t {X}, %y: !t {Y}) attributes {tile.plan} {
  %c0 = arith.constant 0 : index
  %h = memref.dim %x, %c0 : !t
  tile.launch @transposed grid(%h) args(%x, %y : !t, !t)
  return
}
"""

# Per head the product of its 64 queries or fewer with the transposed of the keys.
LOADED = """
!t = memref<?x?x64xT, strided<[?, ?, 1]>>
!o = memref<?x?x64xf32, strided<[?, ?, 1]>>
tile.kernel private @loaded(%q: !t, %k: !t, %o: !o, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %q, %c1 : !t
  %n = memref.dim %k, %c1 : !t
  %qt = tile.load %q[%block, %c0, %c0] rows(%c0 to %m) : !t -> !tile.tile<64x64xT>
  %kt = tile.load transposed %k[%block, %c0, %c0] rows(%c0 to %n) : !t
      -> !tile.tile<64x64xT>
  %s = tile.dot %qt, %kt : !tile.tile<64x64xT>, !tile.tile<64x64xT>
      -> !tile.tile<64x64xf32>
  tile.store %s, %o[%block, %c0, %c0] rows(%c0 to %m) : !tile.tile<64x64xf32>, !o
  tile.return
}
func.func @main(%q: !t {Q}, %k: !t {K}, %o: !o {O}) attributes {tile.plan} {
  %c0 = arith.constant 0 : index
  %h = memref.dim %q, %c0 : !t
  tile.launch @loaded grid(%h) args(%q, %k, %o : !t, !t, !o)
  return
}
"""

# The fused backward pass: gradients of 64 keys and their values stay on chip while
# the queries pass by, to whose gradients each of these tiles adds. A block of the
# grid has the keys of a head in PARTS, in turn: one alone owns what it adds to.
BACKWARD = """
!t = memref<?x?x?x64xT, strided<[?, ?, ?, 1]>>
!g = memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>
!r = memref<?x?x?xf32, strided<[?, ?, ?]>>
tile.kernel private @zero(%dq: !g, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %hq = memref.dim %dq, %c1 : !g
  %sq = memref.dim %dq, %c2 : !g
  %b = arith.divui %block, %hq : index
  %h = arith.remui %block, %hq : index
  %tile = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  scf.for %i0 = %c0 to %sq step %c64 {
    tile.store %tile, %dq[%b, %h, %i0, %c0] rows(%c0 to %sq) : !tile.tile<64x64xf32>, !g
  }
  tile.return
}
KERNELfunc.func @main(%q: !t {Q}, %k: !t {K}, %v: !t {V}, %do: !t {DO}, %lse: !r {LSE},
    %delta: !r {DELTA},
    %scale: f32 {SCALE}, %dq: !g {DQ}, %dk: !t {DK}, %dv: !t {DV})
        attributes {tile.plan} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  PARTS
  %b = memref.dim %q, %c0 : !t
  %h = memref.dim %q, %c1 : !t
  %heads = arith.muli %b, %h : index
  %grid = arith.muli %heads, %parts : index
  tile.launch @zero grid(%heads) args(%dq : !g)
  tile.launch @backward grid(%grid) args(%q, %k, %v, %do, %lse, %delta, %scale, %dq,
      %dk, %dv, %parts
      : !t, !t, !t, !t, !r, !r, f32, !g, !t, !t, index)
  return
}
"""

# What both kernels begin with, and what they compute of a pair.
BEGIN = """
tile.kernel private @backward(%q: !t, %k: !t, %v: !t, %do: !t, %lse: !r, %delta: !r,
    %scale: f32,
    %dq: !g, %dk: !t, %dv: !t, %parts: index, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %hq = memref.dim %q, %c1 : !t
  %sq = memref.dim %q, %c2 : !t
  %sk = memref.dim %k, %c2 : !t
  %head = arith.divui %block, %parts : index
  %part = arith.remui %block, %parts : index
  %b = arith.divui %head, %hq : index
  %h = arith.remui %head, %hq : index
"""
PAIRS = """
      ^bb0(%r: i32, %c: i32, %x: f32, %y: f32, %lr: f32, %dr: f32):
        %query = arith.addi %i, %c : i32
        %key = arith.addi %j, %r : i32
        %causal = arith.cmpi sle, %key, %query : i32
        %exists = arith.cmpi slt, %query, %rows : i32
        %live = arith.andi %causal, %exists : i1
        %scaled = arith.mulf %x, %scale : f32
        %distance = arith.subf %scaled, %lr : f32
        %power = math.exp %distance : f32
        %weight = arith.select %live, %power, %zero : f32
        %change = arith.subf %y, %dr : f32
        %slope = arith.mulf %weight, %change : f32
        YIELD
"""

CPU_KERNEL = """
BEGIN
  %own = arith.ceildivui %sk, %parts : index
  %rounded_own = arith.ceildivui %own, %c64 : index
  %keys = arith.muli %rounded_own, %c64 : index
  %first = arith.muli %part, %keys : index
  %behind = arith.addi %first, %keys : index
  %last = arith.minui %behind, %sk : index
  %none = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  scf.for %j0 = %first to %last step %c64 {
    %kt = tile.load %k[%b, %h, %j0, %c0] rows(%c0 to %sk) : !t -> !tile.tile<64x64xT>
    %vt = tile.load %v[%b, %h, %j0, %c0] rows(%c0 to %sk) : !t -> !tile.tile<64x64xT>
    %sums:2 = scf.for %i0 = %c0 to %sq step %c64 iter_args(%dva = %none, %dka = %none)
        -> (!tile.tile<64x64xf32>, !tile.tile<64x64xf32>) {
      %qt = tile.load %q[%b, %h, %i0, %c0] rows(%c0 to %sq) : !t -> !tile.tile<64x64xT>
      %dot = tile.load %do[%b, %h, %i0, %c0] rows(%c0 to %sq) : !t
          -> !tile.tile<64x64xT>
      %l = tile.load vector transposed %lse[%b, %h, %i0] rows(%c0 to %sq) : !r
          -> !tile.tile<1x64xf32>
      %d = tile.load vector transposed %delta[%b, %h, %i0] rows(%c0 to %sq) : !r
          -> !tile.tile<1x64xf32>
      %s = tile.dot %kt, %qt transpose_rhs : !tile.tile<64x64xT>, !tile.tile<64x64xT>
          -> !tile.tile<64x64xf32>
      %dp = tile.dot %vt, %dot transpose_rhs : !tile.tile<64x64xT>, !tile.tile<64x64xT>
          -> !tile.tile<64x64xf32>
      %i = arith.index_cast %i0 : index to i32
      %j = arith.index_cast %j0 : index to i32
      %rows = arith.index_cast %sq : index to i32
      %p, %ds = tile.map ins(%s, %dp, %l, %d : !tile.tile<64x64xf32>,
          !tile.tile<64x64xf32>, !tile.tile<1x64xf32>, !tile.tile<1x64xf32>) {
      PAIRS
      } -> !tile.tile<64x64xT>, !tile.tile<64x64xT>
      %dvn = tile.dot %p, %dot acc %dva : !tile.tile<64x64xT>, !tile.tile<64x64xT>
          -> !tile.tile<64x64xf32>
      %dkn = tile.dot %ds, %qt acc %dka : !tile.tile<64x64xT>, !tile.tile<64x64xT>
          -> !tile.tile<64x64xf32>
      %dqt = tile.dot %ds, %kt transpose_lhs : !tile.tile<64x64xT>, !tile.tile<64x64xT>
          -> !tile.tile<64x64xf32>
      tile.accumulate ORDER %dqt, %dq[%b, %h, %i0, %c0] rows(%c0 to %sq)
          : !tile.tile<64x64xf32>, !g
      scf.yield %dvn, %dkn : !tile.tile<64x64xf32>, !tile.tile<64x64xf32>
    }
    tile.store %sums#0, %dv[%b, %h, %j0, %c0] rows(%c0 to %sk) : !tile.tile<64x64xf32>,
        !t
    tile.store %sums#1, %dk[%b, %h, %j0, %c0] rows(%c0 to %sk) : !tile.tile<64x64xf32>,
        !t
  }
  tile.return
}
"""

# On a GPU a warp has 16 of the 64 keys, and adds what these give. A block of the
# grid has one tile of keys.
GPU_KERNEL = """
BEGIN
  %c32 = arith.constant 32 : index
  %j0 = arith.muli %part, %c64 : index
  %none = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  %kt = tile.load %k[%b, %h, %j0, %c0] rows(%c0 to %sk) : !t -> !tile.tile<64x64xT>
  %vt = tile.load %v[%b, %h, %j0, %c0] rows(%c0 to %sk) : !t -> !tile.tile<64x64xT>
  %sums:2 = scf.for %i0 = %c0 to %sq step %c32 iter_args(%dva = %none, %dka = %none)
      -> (!tile.tile<64x64xf32>, !tile.tile<64x64xf32>) {
    %qt = tile.load %q[%b, %h, %i0, %c0] rows(%c0 to %sq) : !t -> !tile.tile<32x64xT>
    %dot = tile.load %do[%b, %h, %i0, %c0] rows(%c0 to %sq) : !t -> !tile.tile<32x64xT>
    %l = tile.load vector transposed %lse[%b, %h, %i0] rows(%c0 to %sq) : !r
        -> !tile.tile<1x32xf32>
    %d = tile.load vector transposed %delta[%b, %h, %i0] rows(%c0 to %sq) : !r
        -> !tile.tile<1x32xf32>
    %next:2 = tile.rows 16 ins(%kt, %vt : !tile.tile<64x64xT>, !tile.tile<64x64xT>)
        outs(%dva, %dka : !tile.tile<64x64xf32>, !tile.tile<64x64xf32>) {
    ^bb0(%first: index, %kr: !tile.tile<16x64xT>, %vr: !tile.tile<16x64xT>,
         %dvr: !tile.tile<16x64xf32>, %dkr: !tile.tile<16x64xf32>):
      %s = tile.dot %kr, %qt transpose_rhs : !tile.tile<16x64xT>, !tile.tile<32x64xT>
          -> !tile.tile<16x32xf32>
      %dp = tile.dot %vr, %dot transpose_rhs : !tile.tile<16x64xT>, !tile.tile<32x64xT>
          -> !tile.tile<16x32xf32>
      %row0 = arith.addi %j0, %first : index
      %i = arith.index_cast %i0 : index to i32
      %j = arith.index_cast %row0 : index to i32
      %rows = arith.index_cast %sq : index to i32
      %p, %ds = tile.map ins(%s, %dp, %l, %d : !tile.tile<16x32xf32>,
          !tile.tile<16x32xf32>, !tile.tile<1x32xf32>, !tile.tile<1x32xf32>) {
      PAIRS
      } -> !tile.tile<16x32xT>, !tile.tile<16x32xT>
      %dvn = tile.dot %p, %dot acc %dvr : !tile.tile<16x32xT>, !tile.tile<32x64xT>
          -> !tile.tile<16x64xf32>
      %dkn = tile.dot %ds, %qt acc %dkr : !tile.tile<16x32xT>, !tile.tile<32x64xT>
          -> !tile.tile<16x64xf32>
      %dqt = tile.dot %ds, %kr transpose_lhs : !tile.tile<16x32xT>, !tile.tile<16x64xT>
          -> !tile.tile<32x64xf32>
      tile.accumulate any_order %dqt, %dq[%b, %h, %i0, %c0] rows(%c0 to %sq)
          : !tile.tile<32x64xf32>, !g
      tile.yield %dvn, %dkn : !tile.tile<16x64xf32>, !tile.tile<16x64xf32>
    } -> !tile.tile<64x64xf32>, !tile.tile<64x64xf32>
    scf.yield %next#0, %next#1 : !tile.tile<64x64xf32>, !tile.tile<64x64xf32>
  }
  tile.store %sums#0, %dv[%b, %h, %j0, %c0] rows(%c0 to %sk) : !tile.tile<64x64xf32>, !t
  tile.store %sums#1, %dk[%b, %h, %j0, %c0] rows(%c0 to %sk) : !tile.tile<64x64xf32>, !t
  tile.return
}
"""


def fill(text, element, order="", **names):
    wide = element == "f32"
    text = text.replace("ROUND",
                        "" if wide else "%rounded = arith.truncf %e : f32 to T")
    if wide:
        text = text.replace("%rounded,", "%e,")
    text = text.replace(
        "YIELD", "tile.yield %weight, %slope : f32, f32" if wide
        else """%p16 = arith.truncf %weight : f32 to T
        %ds16 = arith.truncf %slope : f32 to T
        tile.yield %p16, %ds16 : T, T""")
    for place in ("xT", ": T,", " T\n", "to T"):
        text = text.replace(place, place.replace("T", element))
    text = text.replace("ORDER ", order)
    for name, value in names.items():
        text = text.replace("{%s}" % name.upper(), "{%s}" % value)
    return text


def near(got, want, element):
    bound = {"f32": 1e-5, "bf16": 1e-2}[element]
    got, want = np.asarray(got).astype("f8"), np.asarray(want, "f8")
    assert got.shape == want.shape, (got.shape, want.shape)
    error = np.abs(got - want).max() / max(np.abs(want).max(), 1)
    assert error <= bound, (element, error)


def inputs(rng, element, *shapes):
    dtype = {"f32": "f4", "bf16": ml_dtypes.bfloat16}[element]
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    return arrays, [x.astype("f8") for x in arrays]


def test_state(target, rng, element, order):
    text = fill(STATE, element, order, k=arg("k", "h n d"), v=arg("v", "h n d"),
                s=arg("s", "h d d", output=True))
    kernel = attn.compile(text, target=target)
    for n in (1, 64, 150):
        (k, v), (k8, v8) = inputs(rng, element, (3, n, 64), (3, n, 64))
        near(kernel(k, v), 2 * k8.swapaxes(1, 2) @ v8,
             "f32" if element == "f32" else "bf16")


def test_weighted(target, rng, element, order):
    text = fill(WEIGHTED, element, order, q=arg("q", "h m d"), k=arg("k", "h n d"),
                v=arg("v", "h n d"), w=arg("w", "h n"),
                o=arg("o", "h m d", output=True),
                z=arg("z", "h m", output=True))
    kernel = attn.compile(text, target=target)
    for m, n in ((1, 1), (100, 77), (64, 128)):
        (q, k, v), (q8, k8, v8) = inputs(rng, element, (2, m, 64), (2, n, 64),
                                         (2, n, 64))
        w = rng.standard_normal((2, n)).astype("f4")
        weights = q8 @ k8.swapaxes(1, 2) * w[:, None]
        o, z = kernel(q, k, v, w)
        near(o, weights @ v8, element)
        near(z, 1 + weights.sum(-1), "f32")


def test_transposed(target, rng):
    text = fill(TRANSPOSED, "f32", x=arg("x", "h m d"),
                y=arg("y", "h d d", output=True))
    kernel = attn.compile(text, target=target)
    for m in (1, 40, 64):
        (x,), (x8,) = inputs(rng, "f32", (2, m, 64))
        want = np.zeros((2, 64, 64))
        want[:, :, 1:m] = x8[:, 1:].swapaxes(1, 2)
        near(kernel(x), want, "f32")


def test_loaded(rng, element):
    text = fill(LOADED, element, q=arg("q", "h m d"), k=arg("k", "h n d"),
                o=arg("o", "h m d", output=True))
    kernel = attn.compile(text)
    for m, n in ((1, 64), (40, 33), (64, 64)):
        (q, k), (q8, k8) = inputs(rng, element, (2, m, 64), (2, n, 64))
        want = np.zeros((2, m, 64))
        want[:, :, :n] = q8 @ k8.swapaxes(1, 2)
        near(kernel(q, k), want, element)


def test_backward(target, rng, element, order, parts=None):
    rows, keys, row = "b h sq d", "b h sk d", "b h sq"
    count = "%%parts = arith.constant %s : index" % parts
    if not parts:
        count = """%c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %sk = memref.dim %k, %c2 : !t
  %parts = arith.ceildivui %sk, %c64 : index"""
    text = BACKWARD.replace("KERNEL", CPU_KERNEL if parts else GPU_KERNEL)
    text = text.replace("BEGIN\n", BEGIN[1:]).replace("      PAIRS\n", PAIRS[1:])
    text = fill(text.replace("PARTS", count), element, order,
                q=arg("q", rows), k=arg("k", keys), v=arg("v", keys),
                do=arg("do", rows),
                lse=arg("lse", row), delta=arg("delta", row), scale=arg("scale", ""),
                dq=arg("dq", rows, output=True), dk=arg("dk", keys, output=True),
                dv=arg("dv", keys, output=True))
    kernel = attn.compile(text, target=target)
    for sq, sk in ((1, 1), (150, 100), (64, 200)):
        arrays, (q, k, v, do) = inputs(rng, element, (2, 2, sq, 64), (2, 2, sk, 64),
                                       (2, 2, sk, 64), (2, 2, sq, 64))
        s = q @ k.swapaxes(-1, -2) / 8
        live = np.arange(sk) <= np.arange(sq)[:, None]
        lse = np.log((np.exp(s) * live).sum(-1)).astype("f4")
        p = np.where(live, np.exp(s - lse[..., None]), 0)
        dp = do @ v.swapaxes(-1, -2)
        delta = (p * dp).sum(-1).astype("f4")
        ds = p * (dp - delta[..., None])
        dq, dk, dv = kernel(*arrays, lse, delta, 0.125)
        near(dq, ds @ k, element)
        near(dk, ds.swapaxes(-1, -2) @ q, element)
        near(dv, p.swapaxes(-1, -2) @ do, element)
        if not order:
            again = kernel(*arrays, lse, delta, 0.125)
            assert np.array_equal(np.asarray(again[0]), np.asarray(dq))


def main(target):
    on_cpu = target == "cpu"
    target = None if on_cpu else target
    rng = np.random.default_rng(3)
    for element in ("f32", "bf16"):
        for order in ("", "any_order "):
            test_state(target, rng, element, order)
            test_weighted(target, rng, element, order)
    test_transposed(target, rng)
    for element in ("f32", "bf16"):
        if not on_cpu:
            test_backward(target, rng, element, "any_order ")
            continue
        test_loaded(rng, element)
        test_backward(target, rng, element, "", parts=1)
        test_backward(target, rng, element, "any_order ", parts=3)


if __name__ == "__main__":
    main(*sys.argv[1:])
