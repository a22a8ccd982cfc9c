// RUN: attn-opt %s --tile-gpu-specialize-warps=stages=2 --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-specialize-warps=stages=2 %tidy %verify_kernels | FileCheck %s

// Queries that a map changes do so in shared memory, once; where the map multiplies
// by one number, and that is 1, nobody does it, and nobody waits for it.

!in = memref<?x?x64xf16, strided<[?, ?, 1]>>
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: tile_gpu.kernel private @kernel(
// CHECK-SAME: %[[SIGN:[a-z0-9]+]]: f32
// CHECK: tile_gpu.role "compute" warpgroups(2)
// CHECK: %[[Q:.*]] = tile_gpu.ring.wait
// CHECK: scf.if %{{.*}} {
// CHECK-NEXT: tile_gpu.smem.map %[[Q]] {
// CHECK: arith.mulf %{{.*}}, %[[SIGN]]
// CHECK-LABEL: tile_gpu.kernel private @adds(
// CHECK: tile_gpu.role "compute" warpgroups(2)
// CHECK: %[[Q:.*]] = tile_gpu.ring.wait
// CHECK-NOT: scf.if
// CHECK: tile_gpu.smem.map %[[Q]] {
tile.kernel private @kernel(%Q: !in, %K: !in, %V: !in, %O: !in, %sign: f32, %n: index,
    %block: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %row = arith.muli %block, %c128 : index
  %init = tile.fill %zero : f32 -> !tile.tile<128x64xf32>
  %loaded = tile.load %Q[%c0, %row, %c0] : !in -> !tile.tile<128x64xf16>
  %q = tile.map ins(%loaded : !tile.tile<128x64xf16>) {
  ^bb0(%r: i32, %c: i32, %x: f16):
    %wide = arith.extf %x : f16 to f32
    %y = arith.mulf %wide, %sign : f32
    %z = arith.truncf %y : f32 to f16
    tile.yield %z : f16
  } -> !tile.tile<128x64xf16>
  %o = scf.for %j = %c0 to %n step %c64 iter_args(%acc = %init) -> (!tile.tile<128x64xf32>) {
    %k = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x64xf16>
    %v = tile.load %V[%c0, %j, %c0] : !in -> !tile.tile<64x64xf16>
    %next = tile.rows 64 ins(%q : !tile.tile<128x64xf16>) outs(%acc : !tile.tile<128x64xf32>) {
    ^bb0(%first: index, %mine: !tile.tile<64x64xf16>, %old: !tile.tile<64x64xf32>):
      %s = tile.dot %mine, %k transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
      %p = tile.map ins(%s : !tile.tile<64x64xf32>) {
      ^bb1(%r: i32, %c: i32, %x: f32):
        %y = arith.truncf %x : f32 to f16
        tile.yield %y : f16
      } -> !tile.tile<64x64xf16>
      %sum = tile.dot %p, %v acc %old : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
      tile.yield %sum : !tile.tile<64x64xf32>
    } -> !tile.tile<128x64xf32>
    scf.yield %next : !tile.tile<128x64xf32>
  }
  tile.store %o, %O[%c0, %row, %c0] : !tile.tile<128x64xf32>, !in
  tile.return
}
tile.kernel private @adds(%Q: !in, %K: !in, %V: !in, %O: !in, %sign: f32, %n: index,
    %block: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %row = arith.muli %block, %c128 : index
  %init = tile.fill %zero : f32 -> !tile.tile<128x64xf32>
  %loaded = tile.load %Q[%c0, %row, %c0] : !in -> !tile.tile<128x64xf16>
  %q = tile.map ins(%loaded : !tile.tile<128x64xf16>) {
  ^bb0(%r: i32, %c: i32, %x: f16):
    %wide = arith.extf %x : f16 to f32
    %y = arith.addf %wide, %sign : f32
    %z = arith.truncf %y : f32 to f16
    tile.yield %z : f16
  } -> !tile.tile<128x64xf16>
  %o = scf.for %j = %c0 to %n step %c64 iter_args(%acc = %init) -> (!tile.tile<128x64xf32>) {
    %k = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x64xf16>
    %v = tile.load %V[%c0, %j, %c0] : !in -> !tile.tile<64x64xf16>
    %next = tile.rows 64 ins(%q : !tile.tile<128x64xf16>) outs(%acc : !tile.tile<128x64xf32>) {
    ^bb0(%first: index, %mine: !tile.tile<64x64xf16>, %old: !tile.tile<64x64xf32>):
      %s = tile.dot %mine, %k transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
      %p = tile.map ins(%s : !tile.tile<64x64xf32>) {
      ^bb1(%r: i32, %c: i32, %x: f32):
        %y = arith.truncf %x : f32 to f16
        tile.yield %y : f16
      } -> !tile.tile<64x64xf16>
      %sum = tile.dot %p, %v acc %old : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
      tile.yield %sum : !tile.tile<64x64xf32>
    } -> !tile.tile<128x64xf32>
    scf.yield %next : !tile.tile<128x64xf32>
  }
  tile.store %o, %O[%c0, %row, %c0] : !tile.tile<128x64xf32>, !in
  tile.return
}
}
