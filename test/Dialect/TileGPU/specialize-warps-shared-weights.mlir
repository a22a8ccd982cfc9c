// RUN: attn-opt %s --tile-gpu-specialize-warps=stages=2 --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-specialize-warps=stages=2 %tidy %verify_kernels | FileCheck %s

// Two warpgroups share the channels of the sums. Each computes the weights of half
// of the keys of a tile; what rows are reduced to, and the weights, come together in
// shared memory, and each multiplies all weights with its channels.

!in = memref<?x?x576xbf16, strided<[?, ?, 1]>>
!out = memref<?x?x512xf32, strided<[?, ?, 1]>>
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: tile_gpu.kernel private @kernel(
// CHECK: %[[K:.*]] = tile_gpu.ring.create tma consumers(8) : <2, 64x576xbf16 swizzle 128>
// CHECK: %[[MAX:.*]] = tile_gpu.smem.alloc : <64x2xf32>
// CHECK: %[[P:.*]] = tile_gpu.smem.alloc : <64x64xbf16 swizzle 64>
// CHECK: %[[BARRIER:.*]] = tile_gpu.barrier.create warps(8)
// CHECK: tile_gpu.role "compute" warpgroups(2)
// CHECK: ^bb0(%[[WG:.*]]: i32):
// CHECK: scf.for
// CHECK: %[[SLOT:.*]] = tile_gpu.ring.wait %[[K]]
// CHECK: %[[FIRST:.*]] = arith.muli %[[WG]], %c32
// CHECK: tile_gpu.smem.slice %[[SLOT]][%[[FIRST]], %c0{{.*}}] : {{.*}} -> <32x576xbf16 swizzle 128 pitch 64>
// CHECK: tile.dot {{.*}} -> !tile.tile<64x32xf32>
// CHECK: tile.reduce ins(%{{.*}} : !tile.tile<64x32xf32>)
// CHECK: tile_gpu.vec.store %{{.*}}, %[[MAX]][%[[WG]]]
// CHECK-NEXT: tile_gpu.barrier.sync %[[BARRIER]] threads_only
// CHECK: %[[A:.*]] = tile_gpu.vec.load %[[MAX]][%c0
// CHECK: %[[B:.*]] = tile_gpu.vec.load %[[MAX]][%c1
// CHECK: tile.map ins(%{{.*}}, %{{.*}} : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>)
// CHECK: arith.maximumf
// CHECK: tile.map ins(%{{.*}} : !tile.tile<64x32xf32>, !tile.tile<64x1xf32>)
// CHECK: %[[MINE:.*]] = tile_gpu.smem.slice %[[P]][%c0{{.*}}, %[[FIRST]]] : {{.*}} -> <64x32xbf16 swizzle 64>
// CHECK: tile_gpu.frag.store %{{.*}}, %[[MINE]]
// CHECK-NEXT: tile_gpu.barrier.sync %[[BARRIER]]{{$}}
// CHECK: %[[ALL:.*]] = builtin.unrealized_conversion_cast %[[P]] : {{.*}} to !tile.tile<64x64xbf16>
// CHECK: tile.dot %[[ALL]], %{{.*}} acc %{{.*}} : !tile.tile<64x64xbf16>, !tile.tile<64x256xbf16> -> !tile.tile<64x256xf32>
// CHECK: tile_gpu.ring.release %[[K]]
tile.kernel private @kernel(%Q: !in, %K: !in, %O: !out, %n: index, %block: index)
    attributes {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64,
                                          overlap = none, block_v = 512>} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %ninf = arith.constant 0xFF800000 : f32
  %row = arith.muli %block, %c64 : index
  %init = tile.fill %zero : f32 -> !tile.tile<64x512xf32>
  %m0 = tile.fill %ninf : f32 -> !tile.tile<64x1xf32>
  %q = tile.load %Q[%c0, %row, %c0] : !in -> !tile.tile<64x576xbf16>
  %r:2 = scf.for %j = %c0 to %n step %c64 iter_args(%m = %m0, %acc = %init)
      -> (!tile.tile<64x1xf32>, !tile.tile<64x512xf32>) {
    %k = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x576xbf16>
    %v = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x512xbf16>
    %next:2 = tile.rows 64 ins(%q : !tile.tile<64x576xbf16>)
        outs(%m, %acc : !tile.tile<64x1xf32>, !tile.tile<64x512xf32>) {
    ^bb0(%first: index, %mine: !tile.tile<64x576xbf16>, %before: !tile.tile<64x1xf32>,
         %old: !tile.tile<64x512xf32>):
      %s = tile.dot %mine, %k transpose_rhs : !tile.tile<64x576xbf16>, !tile.tile<64x576xbf16> -> !tile.tile<64x64xf32>
      %t = tile.reduce ins(%s : !tile.tile<64x64xf32>) identity(%ninf : f32) {
      ^bb1(%a: f32, %b: f32):
        %x = arith.maximumf %a, %b : f32
        tile.yield %x : f32
      } -> !tile.tile<64x1xf32>
      %most = tile.map ins(%before, %t : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>) {
      ^bb1(%i: i32, %c: i32, %a: f32, %b: f32):
        %x = arith.maximumf %a, %b : f32
        tile.yield %x : f32
      } -> !tile.tile<64x1xf32>
      %p = tile.map ins(%s, %most : !tile.tile<64x64xf32>, !tile.tile<64x1xf32>) {
      ^bb1(%i: i32, %c: i32, %a: f32, %b: f32):
        %x = arith.subf %a, %b : f32
        %y = arith.truncf %x : f32 to bf16
        tile.yield %y : bf16
      } -> !tile.tile<64x64xbf16>
      %sum = tile.dot %p, %v acc %old : !tile.tile<64x64xbf16>, !tile.tile<64x512xbf16> -> !tile.tile<64x512xf32>
      tile.yield %most, %sum : !tile.tile<64x1xf32>, !tile.tile<64x512xf32>
    } -> !tile.tile<64x1xf32>, !tile.tile<64x512xf32>
    scf.yield %next#0, %next#1 : !tile.tile<64x1xf32>, !tile.tile<64x512xf32>
  }
  tile.store %r#1, %O[%c0, %row, %c0] : !tile.tile<64x512xf32>, !out
  tile.return
}
}
