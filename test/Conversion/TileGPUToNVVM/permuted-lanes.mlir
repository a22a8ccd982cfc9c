// Columns that stand for neighbours: 16 bytes at once where memory allows it, else
// one by one; and vectors beside them.
// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm --split-input-file | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s

!x = !tile_gpu.frag<16x32xf32, acc, warp>
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: llvm.func @state
// One warp is what the block has, and no warpgroup.
// CHECK-SAME: nvvm.reqntid = array<i32: 32>
// CHECK-COUNT-4: "{\0Ald.global.v4.b32
// CHECK-NOT: v4
// CHECK: llvm.br ^[[JOIN:bb[0-9]+]]
// CHECK-COUNT-16: "{\0Ald.global.b32
// CHECK-NOT: ld.global
// CHECK: llvm.br ^[[JOIN]]
// CHECK-COUNT-4: "st.global.v4.b32
// CHECK-NOT: v4
// CHECK-COUNT-16: "st.global.b32
// CHECK-NOT: st.global
// CHECK: llvm.return
tile_gpu.kernel private @state(%s: memref<16x128xf32>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %c0] permuted(4) : memref<16x128xf32> -> !x
    tile_gpu.global.store %x, %s[%c0, %c0] permuted(4) : !x, memref<16x128xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Eight of 16 bits. Rows of memory that may not be there. What is loaded is
// unpacked where it is used, behind the next load.
!x = !tile_gpu.frag<16x32xf32, acc, warp>
!k = !tile_gpu.vec<64xf32, row, warp>
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @narrow
// CHECK-COUNT-2: @$5 ld.global.v4.b32
// CHECK-COUNT-16: @$2 ld.global.b16
// CHECK-NOT: llvm.trunc
// The vector: 16 bytes.
// CHECK: ld.global.v4.b32
// CHECK-COUNT-8: ld.global.b16
// CHECK-COUNT-2: @$5 st.global.cs.v4.b32
// CHECK-COUNT-16: @$2 st.global.cs.b16
tile_gpu.kernel private @narrow(%s: memref<16x128xbf16>, %n: i32, %v: memref<128xbf16>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %c0] rows(%n) permuted(8) : memref<16x128xbf16> -> !x
    %y = tile_gpu.global.load %v[%c0] permuted(8) : memref<128xbf16> -> !k
    tile_gpu.global.store %x, %s[%c0, %c0] rows(%n) permuted(8) : !x, memref<16x128xbf16>
    tile_gpu.global.store %y, %v[%c0] permuted(8) : !k, memref<128xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// A number of value channels that is no multiple of four; and strides of columns.
!x = !tile_gpu.frag<16x32xf32, acc, warp>
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @ragged
// CHECK-NOT: global.v
// CHECK-COUNT-16: @$2 ld.global.b32
// CHECK-COUNT-16: st.global.b32
// CHECK-NOT: global.v
tile_gpu.kernel private @ragged(%s: memref<16x130xf32>, %t: memref<16x32xf32, strided<[64, 2]>>, %i: i32) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %i] permuted(4) : memref<16x130xf32> -> !x
    tile_gpu.global.store %x, %t[%c0, %c0] permuted(4) : !x, memref<16x32xf32, strided<[64, 2]>>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// One lane of those that hold it writes an element of a vector.
!v = !tile_gpu.vec<32xf32, col, warp>
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @vector
// CHECK-COUNT-2: ld.global.v4.b32
// CHECK-COUNT-8: ld.global.b32
// CHECK-COUNT-2: @$3 st.global.v2.b32
// CHECK-COUNT-8: @$2 st.global.b16
tile_gpu.kernel private @vector(%s: memref<32xf32>, %t: memref<32xbf16>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0] permuted(4) : memref<32xf32> -> !v
    tile_gpu.global.store %x, %t[%c0] permuted(4) : !v, memref<32xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Products that are summed up, and that nobody else reads, are no additions more.
!x = !tile_gpu.frag<16x32xf32, acc, warp>
!s = !tile_gpu.vec<16xf32, row, warp>
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @sums
// A lane has eight numbers of each of two rows: four chains of two.
// CHECK-COUNT-4: llvm.intr.fma
// CHECK-COUNT-3: llvm.fadd
// CHECK-COUNT-4: llvm.intr.fma
// CHECK-COUNT-7: llvm.fadd
// CHECK-NOT: llvm.fadd
// CHECK: llvm.return
tile_gpu.kernel private @sums(%a: memref<16x32xf32>, %o: memref<16xf32>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile_gpu.global.load %a[%c0, %c0] : memref<16x32xf32> -> !x
    %p = tile_gpu.map ins(%x : !x) {
    ^bb0(%r: i32, %c: i32, %v: f32):
      %y = arith.mulf %v, %v : f32
      tile_gpu.yield %y : f32
    } -> !x
    %zero = arith.constant 0.0 : f32
    %sum = tile_gpu.reduce ins(%p : !x) identity(%zero : f32) {
    ^bb0(%l: f32, %m: f32):
      %y = arith.addf %l, %m : f32
      tile_gpu.yield %y : f32
    } -> !s
    tile_gpu.global.store %sum, %o[%c0] : !s, memref<16xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Lines of 128 bytes, one for each lane at once: a row of 256 bytes has two, and
// 24 of them are 48, behind the last of which nothing is asked for.
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: llvm.func @ahead
// CHECK-COUNT-2: prefetch.global.L2
// CHECK-NOT: prefetch.global.L2
// CHECK: llvm.return
tile_gpu.kernel private @ahead(%m: memref<?x128x128xbf16>, %n: i32, %row: i32) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.global.prefetch %m[%n, %row, %c0] rows(24) columns(128) : memref<?x128x128xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// What has no gaps is one copy by one thread; else lines.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @copied
// CHECK: cp.async.bulk.prefetch.L2.global [$0], 6144;
// CHECK-COUNT-2: @$1 prefetch.global.L2
// CHECK-NOT: prefetch
// CHECK: llvm.return
tile_gpu.kernel private @copied(%m: memref<?x128x128xbf16>, %n: i32, %row: i32) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.global.prefetch %m[%n, %row, %c0] rows(24) columns(128) : memref<?x128x128xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Each lane reads the entry of one of 16 boxes, past its multiprocessor's cache; then
// all ask for 16 rows of 256 bytes at a time, where these are in a page of the tensor
// and begin ahead of the end.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @pages
// CHECK: ld.relaxed.gpu.global.b32
// CHECK-COUNT-16: @$1 prefetch.global.L2
// CHECK: ld.relaxed.gpu.global.b32
// CHECK-COUNT-16: @$1 prefetch.global.L2
// CHECK-NOT: prefetch
// CHECK: llvm.return
tile_gpu.kernel private @pages(%k: memref<?x?x32x128xbf16>, %v: memref<?x?x32x128xbf16>,
    %t: memref<?x?xi32>, %n: i32, %row: i32, %end: i32) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "ask" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.global.prefetch %k[%n, %c0, %row, %c0] rows(256) columns(128) table(%t : memref<?x?xi32>) boxes(16) before(%end) : memref<?x?x32x128xbf16>
    tile_gpu.global.prefetch %v[%n, %c0, %row, %c0] rows(256) columns(128) table(%t : memref<?x?xi32>) boxes(16) before(%end) : memref<?x?x32x128xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}
}
