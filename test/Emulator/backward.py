"""The fused backward, which no GPU has run yet, on the emulator: exchanges,
rings that warps fill, stores in the order of fragments, bulk reductions.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import ml_dtypes
import numpy as np

import attn

PLAN = """
func.func @backward(
    %q: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> {attn.arg = {name = "q",
        dims = ["b", "hq", "sq", ""]}},
    %do: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> {attn.arg = {name = "do",
        dims = ["b", "hq", "sq", ""]}},
    %k: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> {attn.arg = {name = "k",
        dims = ["b", "hk", "sk", ""]}},
    %v: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> {attn.arg = {name = "v",
        dims = ["b", "hk", "sk", ""]}},
    %lse: memref<?x?x?xf32> {attn.arg = {name = "lse", dims = ["b", "hq", "padded"]}},
    %delta: memref<?x?x?xf32> {attn.arg = {name = "delta", dims = ["b", "hq",
        "padded"]}},
    %blocks: memref<?xi32> {attn.arg = {name = "blocks", dims = ["blocks"]}},
    %dk: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> {attn.arg = {name = "dk", output,
        dims = ["b", "hk", "sk", ""]}},
    %dv: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> {attn.arg = {name = "dv", output,
        dims = ["b", "hk", "sk", ""]}},
    %dq: memref<?x8192xf32> {attn.arg = {name = "dq", output, dims = ["blocks", ""]}})
        attributes {tile.plan} {
  %d0 = arith.constant 0 : index
  %d1 = arith.constant 1 : index
  %d2 = arith.constant 2 : index
  %d128 = arith.constant 128 : index
  %unit = arith.constant 0.088388347648318447 : f32
  %scale = arith.constant 0.12751743364475547 : f32
  %b = memref.dim %q, %d0 : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
  %hq = memref.dim %q, %d1 : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
  %sq = memref.dim %q, %d2 : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
  %hk = memref.dim %k, %d1 : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
  %sk = memref.dim %k, %d2 : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
  %g = arith.divsi %hq, %hk : index
  %b32 = arith.index_cast %b : index to i32
  %hk32 = arith.index_cast %hk : index to i32
  %sq32 = arith.index_cast %sq : index to i32
  %sk32 = arith.index_cast %sk : index to i32
  %g32 = arith.index_cast %g : index to i32
  %nk = arith.ceildivsi %sk, %d128 : index
  %bh = arith.muli %b, %hk : index
  %grid = arith.muli %bh, %nk : index
  %Q = tile_gpu.tensor_map %q : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> !qmap
  %dO = tile_gpu.tensor_map %do : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> !qmap
  %K = tile_gpu.tensor_map %k : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> !kvmap
  %V = tile_gpu.tensor_map %v : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> !kvmap
  tile_gpu.reset %dq : memref<?x8192xf32>
  tile_gpu.launch @fused_kernel grid(%grid) args(
      %Q, %dO, %K, %V, %lse, %delta, %dk, %dv, %dq, %sq32, %sk32, %hk32, %b32, %g32,
          %scale, %unit
      : !qmap, !qmap, !kvmap, !kvmap, memref<?x?x?xf32>, memref<?x?x?xf32>,
        !grad, !grad, memref<?x8192xf32>,
        i32, i32, i32, i32, i32, f32, f32)
  return
}
"""

B, HQ, HK, SQ, SK, D = 1, 2, 1, 100, 200, 128
TILES = (SQ + 63) // 64
rng = np.random.default_rng(1)
bf16 = ml_dtypes.bfloat16
q, do = (rng.standard_normal((B, HQ, SQ, D)).astype(bf16) for _ in range(2))
k, v = (rng.standard_normal((B, HK, SK, D)).astype(bf16) for _ in range(2))

# Forward and backward in float64.
q8, do8 = q.astype("f8"), do.astype("f8")
k8, v8 = (x.astype("f8").repeat(HQ // HK, 1) for x in (k, v))
s = q8 @ k8.swapaxes(-1, -2) / np.sqrt(D)
lse = np.log(np.exp(s).sum(-1, keepdims=True))
p = np.exp(s - lse)
delta = (do8 * (p @ v8)).sum(-1, keepdims=True)
ds = p * (do8 @ v8.swapaxes(-1, -2) - delta)
want_dq = ds @ k8  # The kernel leaves the scale to a later one.
want_dk = (ds.swapaxes(-1, -2) @ q8 / np.sqrt(D)).reshape(B, HK, -1, SK, D).sum(2)
want_dv = (p.swapaxes(-1, -2) @ do8).reshape(B, HK, -1, SK, D).sum(2)

# Statistics in base 2, padded to whole tiles, in the order of an accumulator's
# lanes.
i = np.arange(TILES * 64)
order = i // 16 * 16 + i % 8 // 2 * 4 + i % 16 // 8 * 2 + i % 2


def permuted(x, filling):
    padded = np.full((B, HQ, TILES * 64), filling, "f4")
    padded[..., :SQ] = x[..., 0]
    result = np.empty_like(padded)
    result[..., order] = padded
    return result


# Of a 64x64 f32 accumulator in fragment order: of each 16 rows, which a warp has, the
# four registers of every lane that 8 columns are, then those of the next 8.
thread, register = np.meshgrid(np.arange(128), np.arange(32), indexing="ij")
row = thread // 32 * 16 + thread % 32 // 4 + 8 * (register // 2 % 2)
col = 8 * (register // 4) + 2 * (thread % 4) + register % 2
place = ((thread // 32 * 8 + register // 4) * 32 + thread % 32) * 4 + register % 4

text = open(sys.argv[1]).read()
end = text.rindex("}")
kernel = attn.compile(text[:end] + PLAN + "}\n", target="emulator")
assert kernel.target == "emulator:sm_90a"
# Sums that more than one block adds to are of no fixed order.
for schedule in ("eager", "lazy", "random:1", "random:2", "adversary:1", "adversary:2"):
    os.environ["ATTN_EMULATOR"] = schedule
    dk, dv, raw = kernel(q, do, k, v, permuted(lse / np.log(2), np.inf),
                         permuted(delta, 0),
                         np.zeros(B * HQ * TILES, "i4"))
    dq = np.zeros((B * HQ * TILES, 64, D))
    for group in range(2):
        dq[:, row, col + 64 * group] = np.asarray(raw)[:, 4096 * group:][:, place]
    dq = dq.reshape(B, HQ, TILES * 64, D)[:, :, :SQ]
    for name, got, want in (("dq", dq, want_dq), ("dk", dk, want_dk),
                            ("dv", dv, want_dv)):
        error = np.abs(np.asarray(got).astype("f8") - want).max() / np.abs(want).max()
        assert error < 1e-2, (schedule, name, error)
        print(schedule, name, error)
