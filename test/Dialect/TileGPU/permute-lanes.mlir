// RUN: attn-opt %s --tile-gpu-permute-lanes | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-permute-lanes %tidy %verify_kernels -o /dev/null

!x = !tile_gpu.frag<32x64xf32, acc, warp>
!row = !tile_gpu.vec<32xf32, row, warp>
!col = !tile_gpu.vec<64xf32, col, warp>

// Rows and columns change places, and their order; 16 bytes are four numbers.
// CHECK-LABEL: kernel @state
// CHECK: global.load %{{[^:]*}}] permuted(4) : memref<128x128xf32> -> !tile_gpu.frag<64x32xf32, acc, warp>
// CHECK: global.load %{{[^:]*}}] permuted(4) : memref<128xf32> -> !tile_gpu.vec<32xf32, col, warp>
// CHECK: global.load %{{[^:]*}}] permuted(4) : memref<128xf32> -> !tile_gpu.vec<64xf32, row, warp>
// CHECK: map ins({{.*}} : !tile_gpu.frag<64x32xf32, acc, warp>, !tile_gpu.vec<32xf32, col, warp>, !tile_gpu.vec<64xf32, row, warp>)
// CHECK: global.store %{{[^:]*}}] permuted(4) : !tile_gpu.frag<64x32xf32, acc, warp>
// CHECK: reduce
// CHECK: -> !tile_gpu.vec<32xf32, col, warp>
// CHECK: global.store %{{[^:]*}}] permuted(4) : !tile_gpu.vec<32xf32, col, warp>
tile_gpu.kernel @state(%s: memref<128x128xf32>, %v: memref<128xf32>, %k: memref<128xf32>) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %c0] transposed : memref<128x128xf32> -> !x
    %y = tile_gpu.global.load %v[%c0] : memref<128xf32> -> !row
    %z = tile_gpu.global.load %k[%c0] : memref<128xf32> -> !col
    %p = tile_gpu.map ins(%x, %y, %z : !x, !row, !col) {
    ^bb1(%r: i32, %c: i32, %a: f32, %b: f32, %d: f32):
      %e = math.fma %b, %d, %a : f32
      tile_gpu.yield %e : f32
    } -> !x
    tile_gpu.global.store %p, %s[%c0, %c0] transposed : !x, memref<128x128xf32>
    %o = tile_gpu.reduce ins(%p : !x) identity(%zero : f32) {
    ^bb1(%a: f32, %b: f32):
      %e = arith.addf %a, %b : f32
      tile_gpu.yield %e : f32
    } -> !row
    tile_gpu.global.store %o, %v[%c0] : !row, memref<128xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Of 16 bits eight, if there are 32 rows; a loop carries the fragment.
// CHECK-LABEL: kernel @narrow
// CHECK: global.load %{{[^:]*}}] permuted(8) : memref<128x128xbf16> -> !tile_gpu.frag<64x32xf32, acc, warp>
// CHECK: scf.for {{.*}} -> (!tile_gpu.frag<64x32xf32, acc, warp>)
// CHECK: global.store %{{[^:]*}}] permuted(8) :
tile_gpu.kernel @narrow(%s: memref<128x128xbf16>) {
  %c0 = arith.constant 0 : i32
  %c4 = arith.constant 4 : i32
  %c1 = arith.constant 1 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %c0] transposed : memref<128x128xbf16> -> !x
    %y = scf.for %i = %c0 to %c4 step %c1 iter_args(%z = %x) -> (!x) : i32 {
      %p = tile_gpu.map ins(%z : !x) {
      ^bb1(%r: i32, %c: i32, %a: f32):
        %e = arith.addf %a, %a : f32
        tile_gpu.yield %e : f32
      } -> !x
      scf.yield %p : !x
    }
    tile_gpu.global.store %y, %s[%c0, %c0] transposed : !x, memref<128x128xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Vectors along columns alone: eight lanes have neighbours, of which one in four
// stores.
// CHECK-LABEL: kernel @vectors
// CHECK: global.load %{{[^:]*}}] permuted(4) : memref<128xf32> -> !tile_gpu.vec<64xf32, row, warp>
// CHECK: global.load %{{[^:]*}}] permuted(4) : memref<128xbf16> -> !tile_gpu.vec<64xf32, row, warp>
// CHECK: global.store %{{[^:]*}}] permuted(4) : !tile_gpu.vec<64xf32, row, warp>
tile_gpu.kernel @vectors(%z: memref<128xf32>, %k: memref<128xbf16>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %z[%c0] : memref<128xf32> -> !col
    %y = tile_gpu.global.load %k[%c0] : memref<128xbf16> -> !col
    %p = tile_gpu.map ins(%x, %y : !col, !col) {
    ^bb1(%r: i32, %c: i32, %a: f32, %b: f32):
      %e = arith.addf %a, %b : f32
      tile_gpu.yield %e : f32
    } -> !col
    tile_gpu.global.store %p, %z[%c0] : !col, memref<128xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// 16 rows are four for each of four lanes.
// CHECK-LABEL: kernel @few
// CHECK: global.load %{{[^:]*}}] permuted(4) : memref<128x128xbf16> -> !tile_gpu.frag<64x16xf32, acc, warp>
tile_gpu.kernel @few(%s: memref<128x128xbf16>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %c0] transposed : memref<128x128xbf16> -> !tile_gpu.frag<16x64xf32, acc, warp>
    tile_gpu.global.store %x, %s[%c0, %c0] transposed : !tile_gpu.frag<16x64xf32, acc, warp>, memref<128x128xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Rows of memory that are rows, as of states whose value channels come first: a
// lane's rows are neighbours then.
// CHECK-LABEL: kernel @values_first
// CHECK: global.load %{{[^:]*}}] transposed permuted(8) : memref<128x128xbf16> -> !tile_gpu.frag<64x32xf32, acc, warp>
// CHECK: global.load %{{[^:]*}}] permuted(8) : memref<128xf32> -> !tile_gpu.vec<32xf32, col, warp>
// CHECK: global.load %{{[^:]*}}] permuted(8) : memref<128xf32> -> !tile_gpu.vec<64xf32, row, warp>
// CHECK: global.store %{{[^:]*}}] transposed permuted(8) : !tile_gpu.frag<64x32xf32, acc, warp>
tile_gpu.kernel @values_first(%s: memref<128x128xbf16>, %v: memref<128xf32>, %k: memref<128xf32>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %c0] : memref<128x128xbf16> -> !x
    %y = tile_gpu.global.load %v[%c0] : memref<128xf32> -> !row
    %z = tile_gpu.global.load %k[%c0] : memref<128xf32> -> !col
    %p = tile_gpu.map ins(%x, %y, %z : !x, !row, !col) {
    ^bb1(%r: i32, %c: i32, %a: f32, %b: f32, %d: f32):
      %e = math.fma %b, %d, %a : f32
      tile_gpu.yield %e : f32
    } -> !x
    tile_gpu.global.store %p, %s[%c0, %c0] : !x, memref<128x128xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Some fragments transposed and others not.
// CHECK-LABEL: kernel @both
// CHECK-NOT: permuted
tile_gpu.kernel @both(%s: memref<128x128xf32>, %v: memref<128xf32>, %k: memref<128xf32>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %c0] : memref<128x128xf32> -> !x
    %y = tile_gpu.global.load %v[%c0] : memref<128xf32> -> !row
    %z = tile_gpu.global.load %k[%c0] : memref<128xf32> -> !col
    tile_gpu.global.store %x, %s[%c0, %c0] transposed : !x, memref<128x128xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// A map that asks for the number of a row.
// CHECK-LABEL: kernel @positions
// CHECK-NOT: permuted
tile_gpu.kernel @positions(%s: memref<128x128xf32>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %c0] transposed : memref<128x128xf32> -> !x
    %p = tile_gpu.map ins(%x : !x) {
    ^bb1(%r: i32, %c: i32, %a: f32):
      %f = arith.sitofp %r : i32 to f32
      %e = arith.mulf %a, %f : f32
      tile_gpu.yield %e : f32
    } -> !x
    tile_gpu.global.store %p, %s[%c0, %c0] transposed : !x, memref<128x128xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Nothing is transposed, and there are no vectors; rows that a product reads; rows of several warps.
// CHECK-LABEL: kernel @others
// CHECK-NOT: permuted
tile_gpu.kernel @others(%s: memref<128x128xf32>, %t: memref<128x128xf32>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "rows" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %c0] : memref<128x128xf32> -> !x
    tile_gpu.global.store %x, %t[%c0, %c0] : !x, memref<128x128xf32>
    tile_gpu.yield
  }
  %tile = tile_gpu.smem.alloc : !tile_gpu.smem<32x64xf32>
  tile_gpu.role "shared" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %c0] transposed : memref<128x128xf32> -> !x
    tile_gpu.frag.store %x, %tile : !x, !tile_gpu.smem<32x64xf32>
    tile_gpu.yield
  }
  tile_gpu.role "two" warps(2) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %c0] transposed : memref<128x128xf32> -> !x
    tile_gpu.global.store %x, %t[%c0, %c0] transposed : !x, memref<128x128xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
