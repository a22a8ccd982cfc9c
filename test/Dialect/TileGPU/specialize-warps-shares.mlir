// RUN: attn-opt %s --tile-gpu-specialize-warps=stages=2 --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-specialize-warps=stages=2 %tidy %verify_kernels | FileCheck %s

// Sums of 512 channels are more than a product has: two warpgroups share them, each
// with the weights of all rows. Values that are columns of the keys have no ring and
// no copy of their own.

!in = memref<?x?x576xf16, strided<[?, ?, 1]>>
!out = memref<?x?x512xf32, strided<[?, ?, 1]>>
!row = memref<?x?xf32, strided<[?, 1]>>
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: tile_gpu.kernel private @kernel(
// CHECK: %[[Q:.*]] = tile_gpu.ring.create tma consumers(8) : <1, 64x576xf16 swizzle 128>
// CHECK: %[[K:.*]] = tile_gpu.ring.create tma consumers(8) : <2, 64x576xf16 swizzle 128>
// CHECK-NOT: tile_gpu.ring.create
// CHECK: tile_gpu.role "load"
// CHECK-COUNT-2: tile_gpu.ring.load
// CHECK-NOT: tile_gpu.ring.load
// CHECK: tile_gpu.role "compute" warpgroups(2)
// CHECK: ^bb0(%[[WG:.*]]: i32):
// CHECK: tile.fill %{{.*}} -> <64x256xf32>
// CHECK: scf.for
// CHECK: %[[SLOT:.*]] = tile_gpu.ring.wait %[[K]]
// CHECK: tile.dot {{.*}} -> !tile.tile<64x64xf32>
// CHECK: %[[FIRST:.*]] = arith.muli %[[WG]], %c256
// CHECK: tile_gpu.smem.slice %[[SLOT]][%c0{{.*}}, %[[FIRST]]] : {{.*}} -> <64x256xf16 swizzle 128>
// CHECK: tile.dot {{.*}} : !tile.tile<64x64xf16>, !tile.tile<64x256xf16> -> !tile.tile<64x256xf32>
// CHECK-NEXT: tile_gpu.ring.release %[[K]]
// CHECK-NOT: tile_gpu.ring.release %[[K]]
// CHECK: scf.yield
// Each stores its channels, and one of them what rows have.
// CHECK: %[[MINE:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK: tile.store %{{.*}}, %{{.*}}[%c0, %{{.*}}, %[[MINE]]] : <64x256xf32>
// CHECK: arith.cmpi eq, %[[WG]], %c0
// CHECK-NEXT: scf.if
// CHECK-NEXT: tile.store vector
tile.kernel private @kernel(%Q: !in, %K: !in, %O: !out, %L: !row, %n: index,
    %block: index) attributes {schedule = #attn.schedule<block_q = 64, rows = 64,
    block_k = 64, overlap = none, block_v = 512>} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %row = arith.muli %block, %c64 : index
  %init = tile.fill %zero : f32 -> !tile.tile<64x512xf32>
  %rows = tile.fill %zero : f32 -> !tile.tile<64x1xf32>
  %q = tile.load %Q[%c0, %row, %c0] : !in -> !tile.tile<64x576xf16>
  %o = scf.for %j = %c0 to %n step %c64 iter_args(%acc = %init) -> (!tile.tile<64x512xf32>) {
    %k = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x576xf16>
    %v = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x512xf16>
    %next = tile.rows 64 ins(%q : !tile.tile<64x576xf16>) outs(%acc : !tile.tile<64x512xf32>) {
    ^bb0(%first: index, %mine: !tile.tile<64x576xf16>, %old: !tile.tile<64x512xf32>):
      %s = tile.dot %mine, %k transpose_rhs : !tile.tile<64x576xf16>, !tile.tile<64x576xf16> -> !tile.tile<64x64xf32>
      %p = tile.map ins(%s : !tile.tile<64x64xf32>) {
      ^bb1(%r: i32, %c: i32, %x: f32):
        %y = arith.truncf %x : f32 to f16
        tile.yield %y : f16
      } -> !tile.tile<64x64xf16>
      %sum = tile.dot %p, %v acc %old : !tile.tile<64x64xf16>, !tile.tile<64x512xf16> -> !tile.tile<64x512xf32>
      tile.yield %sum : !tile.tile<64x512xf32>
    } -> !tile.tile<64x512xf32>
    scf.yield %next : !tile.tile<64x512xf32>
  }
  tile.store %o, %O[%c0, %row, %c0] : !tile.tile<64x512xf32>, !out
  tile.store vector %rows, %L[%c0, %row] : !tile.tile<64x1xf32>, !row
  tile.return
}
func.func @f(%Q: !in, %K: !in, %O: !out, %L: !row, %n: index) attributes {tile.plan} {
  tile.launch @kernel grid(%n) args(%Q, %K, %O, %L, %n : !in, !in, !out, !row, index)
  return
}
}
