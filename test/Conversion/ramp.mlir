// RUN: attn-opt %s --convert-tile-to-tile-gpu --split-input-file | FileCheck %s --check-prefix=GPU
// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx512 --split-input-file | FileCheck %s --check-prefix=CPU

// A warpgroup's product takes a ramp in; the block's threads write what it is
// multiplied by once.

!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>

// GPU-LABEL: kernel private @warpgroup
// GPU: %[[C:.*]] = tile_gpu.smem.ramp : <72x8xbf16>
// GPU-NOT: smem.ramp
// GPU: tile_gpu.role
// GPU: tile_gpu.mma.issue %{{.*}}, %{{.*}} ramp(%{{.*}}, %[[C]])
// GPU: tile_gpu.mma.issue %{{.*}}, %{{.*}} ramp(%{{.*}}, %[[C]])
tile_gpu.kernel private @warpgroup(%q: !tile, %k: !tile, %x: f32, %y: f32,
    %out: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %qt = builtin.unrealized_conversion_cast %q : !tile to !tile.tile<64x128xbf16>
    %kt = builtin.unrealized_conversion_cast %k : !tile to !tile.tile<64x128xbf16>
    %s = tile.dot %qt, %kt ramp %x transpose_rhs : !tile.tile<64x128xbf16>, !tile.tile<64x128xbf16> -> !tile.tile<64x64xf32>
    %t = tile.dot %qt, %kt ramp %y transpose_rhs : !tile.tile<64x128xbf16>, !tile.tile<64x128xbf16> -> !tile.tile<64x64xf32>
    %r = tile.map ins(%s, %t : !tile.tile<64x64xf32>, !tile.tile<64x64xf32>) {
    ^bb0(%i: i32, %j: i32, %u: f32, %v: f32):
      %w = arith.addf %u, %v : f32
      tile.yield %w : f32
    } -> !tile.tile<64x64xf32>
    tile.store %r, %out[%c0, %c0] : !tile.tile<64x64xf32>, memref<64x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// A warp adds it behind its product.
// GPU-LABEL: kernel private @warp
// GPU: %[[S:.*]] = tile_gpu.mma.sync
// GPU: tile_gpu.map ins(%[[S]] :
// GPU: %[[COL:.*]] = arith.sitofp
// GPU: %[[P:.*]] = arith.mulf %{{.*}}, %[[COL]]
// GPU: arith.addf %{{.*}}, %[[P]]
tile_gpu.kernel private @warp(%q: !tile_gpu.smem<16x128xbf16 swizzle 128>, %k: !tile, %x: f32,
    %out: memref<16x64xf32>) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %qt = builtin.unrealized_conversion_cast %q : !tile_gpu.smem<16x128xbf16 swizzle 128> to !tile.tile<16x128xbf16>
    %kt = builtin.unrealized_conversion_cast %k : !tile to !tile.tile<64x128xbf16>
    %s = tile.dot %qt, %kt ramp %x transpose_rhs : !tile.tile<16x128xbf16>, !tile.tile<64x128xbf16> -> !tile.tile<16x64xf32>
    tile.store %s, %out[%c0, %c0] : !tile.tile<16x64xf32>, memref<16x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// So does a CPU.
// CPU-LABEL: kernel @cpu
// CPU: arith.mulf {{.*}} : vector<16xf32>
// CPU: arith.addf {{.*}} : vector<16xf32>
tile.kernel @cpu(%Q: memref<?x64xf32, strided<[?, 1]>>, %K: memref<?x64xf32, strided<[?, 1]>>,
    %S: memref<?x128xf32, strided<[?, 1]>>, %n: index, %x: f32, %block: index) {
  %c0 = arith.constant 0 : index
  %q = tile.load %Q[%block, %c0] rows(%c0 to %n) : memref<?x64xf32, strided<[?, 1]>> -> !tile.tile<32x64xf32>
  %k = tile.load %K[%c0, %c0] rows(%c0 to %n) : memref<?x64xf32, strided<[?, 1]>> -> !tile.tile<128x64xf32>
  %s = tile.dot %q, %k ramp %x transpose_rhs : !tile.tile<32x64xf32>, !tile.tile<128x64xf32> -> !tile.tile<32x128xf32>
  tile.store %s, %S[%block, %c0] rows(%c0 to %n) : !tile.tile<32x128xf32>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}
