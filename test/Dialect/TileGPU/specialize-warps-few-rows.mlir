// RUN: attn-opt %s --tile-gpu-specialize-warps=stages=2 --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --tile-gpu-specialize-warps=stages=2 --canonicalize --cse --convert-tile-to-tile-gpu | FileCheck %s --check-prefix=GPU
// RUN: attn-opt %s %tidy --tile-gpu-specialize-warps=stages=2 %tidy %verify_kernels | FileCheck %s

// Rows that are as few as the columns of a product: one warpgroup has all channels,
// keys are the rows of its products, and weights come to the second one through shared
// memory.

!in = memref<?x?x576xbf16, strided<[?, ?, 1]>>
!out = memref<?x?x512xf32, strided<[?, ?, 1]>>
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: tile_gpu.kernel private @kernel(
// CHECK-DAG: %[[Q:.*]] = tile_gpu.ring.create tma consumers(4) : <{{[12]}}, 16x576xbf16 swizzle 128>
// CHECK-DAG: %[[K:.*]] = tile_gpu.ring.create tma consumers(4) : <2, 64x576xbf16 swizzle 128>
// CHECK: %[[P:.*]] = tile_gpu.smem.alloc : <16x64xbf16 swizzle 128>
// CHECK: %[[BARRIER:.*]] = tile_gpu.barrier.create warps(4)
// CHECK: tile_gpu.role "compute" warpgroups(1)
// CHECK: scf.for
// CHECK: %[[SLOT:.*]] = tile_gpu.ring.wait %[[K]]
// CHECK: tile.dot {{.*}} -> !tile.tile<16x64xf32>
// CHECK: tile.map {{.*}} {
// CHECK: } -> !tile.tile<16x64xbf16>
// CHECK: %[[HELD:.*]] = builtin.unrealized_conversion_cast %{{.*}} : !tile.tile<16x64xbf16> to !tile_gpu.frag<64x16xbf16, acc>
// CHECK: %[[VIEW:.*]] = tile_gpu.smem.transpose %[[P]]
// CHECK: tile_gpu.frag.store %[[HELD]], %[[VIEW]]
// CHECK-NEXT: tile_gpu.barrier.sync %[[BARRIER]]{{$}}
// CHECK: %[[ALL:.*]] = builtin.unrealized_conversion_cast %[[P]] : {{.*}} to !tile.tile<16x64xbf16>
// CHECK: tile.dot %[[ALL]], %{{.*}} acc %{{.*}} : !tile.tile<16x64xbf16>, !tile.tile<64x512xbf16> -> !tile.tile<16x512xf32>
// CHECK: tile_gpu.ring.release %[[K]]
// GPU-LABEL: tile_gpu.kernel private @kernel(
// GPU: tile_gpu.mma.issue %{{.*}}, %{{.*}} : !tile_gpu.smem<64x576xbf16 swizzle 128>, !tile_gpu.smem<576x16xbf16 swizzle 128 transposed> -> !tile_gpu.token<64x16xf32>
// GPU: tile_gpu.reduce {{.*}} {
// GPU: } -> !tile_gpu.vec<16xf32, col>
// GPU: tile_gpu.mma.issue %{{.*}}, %{{.*}} acc(%{{.*}}) : !tile_gpu.smem<512x64xbf16 swizzle 128 transposed>, !tile_gpu.smem<64x16xbf16 swizzle 128 transposed> -> !tile_gpu.token<512x16xf32>
// GPU: tile_gpu.global.store {{.*}} transposed : {{.*}}<512x16xf32, acc>
tile.kernel private @kernel(%Q: !in, %K: !in, %O: !out, %n: index, %block: index)
    attributes {schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 64,
                                          overlap = none, block_v = 512>} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %ninf = arith.constant 0xFF800000 : f32
  %c16 = arith.constant 16 : index
  %row = arith.muli %block, %c16 : index
  %init = tile.fill %zero : f32 -> !tile.tile<16x512xf32>
  %m0 = tile.fill %ninf : f32 -> !tile.tile<16x1xf32>
  %q = tile.load %Q[%c0, %row, %c0] : !in -> !tile.tile<16x576xbf16>
  %r:2 = scf.for %j = %c0 to %n step %c64 iter_args(%m = %m0, %acc = %init)
      -> (!tile.tile<16x1xf32>, !tile.tile<16x512xf32>) {
    %k = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x576xbf16>
    %v = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x512xbf16>
    %next:2 = tile.rows 16 ins(%q : !tile.tile<16x576xbf16>)
        outs(%m, %acc : !tile.tile<16x1xf32>, !tile.tile<16x512xf32>) {
    ^bb0(%first: index, %mine: !tile.tile<16x576xbf16>, %before: !tile.tile<16x1xf32>,
         %old: !tile.tile<16x512xf32>):
      %s = tile.dot %mine, %k transpose_rhs : !tile.tile<16x576xbf16>, !tile.tile<64x576xbf16> -> !tile.tile<16x64xf32>
      %t = tile.reduce ins(%s : !tile.tile<16x64xf32>) identity(%ninf : f32) {
      ^bb1(%a: f32, %b: f32):
        %x = arith.maximumf %a, %b : f32
        tile.yield %x : f32
      } -> !tile.tile<16x1xf32>
      %most = tile.map ins(%before, %t : !tile.tile<16x1xf32>, !tile.tile<16x1xf32>) {
      ^bb1(%i: i32, %c: i32, %a: f32, %b: f32):
        %x = arith.maximumf %a, %b : f32
        tile.yield %x : f32
      } -> !tile.tile<16x1xf32>
      %p = tile.map ins(%s, %most : !tile.tile<16x64xf32>, !tile.tile<16x1xf32>) {
      ^bb1(%i: i32, %c: i32, %a: f32, %b: f32):
        %x = arith.subf %a, %b : f32
        %y = arith.truncf %x : f32 to bf16
        tile.yield %y : bf16
      } -> !tile.tile<16x64xbf16>
      %sum = tile.dot %p, %v acc %old : !tile.tile<16x64xbf16>, !tile.tile<64x512xbf16> -> !tile.tile<16x512xf32>
      tile.yield %most, %sum : !tile.tile<16x1xf32>, !tile.tile<16x512xf32>
    } -> !tile.tile<16x1xf32>, !tile.tile<16x512xf32>
    scf.yield %next#0, %next#1 : !tile.tile<16x1xf32>, !tile.tile<16x512xf32>
  }
  tile.store %r#1, %O[%c0, %row, %c0] : !tile.tile<16x512xf32>, !out
  tile.return
}
}
