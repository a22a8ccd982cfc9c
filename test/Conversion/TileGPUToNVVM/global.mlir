// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s

// Columns beyond a tensor are neither written nor read.

!frag = !tile_gpu.frag<16x64xf32, acc, warp>
!rows = memref<?x64xf32, strided<[?, 1]>>

module attributes {attn.target = "sm_90a"} {

// A part that is as wide as the tensor is in it, or beyond it as a whole: one
// comparison for all columns.
// CHECK-LABEL: llvm.func @parts
// CHECK: %[[SIZE:.*]] = llvm.mlir.constant(64 : i32)
// CHECK: %[[COL:.*]] = llvm.mul %arg{{.*}}, %[[SIZE]]
// CHECK: %[[IN:.*]] = llvm.icmp "slt" %[[COL]], %[[SIZE]] : i32
// CHECK-COUNT-4: @$9 ld.global.b32 $7, {{.*}} %{{[0-9]+}}, %[[IN]], %{{[0-9]+}} :
// CHECK: %[[TO:.*]] = llvm.icmp "slt" %[[COL]], %[[SIZE]] : i32
// CHECK: @$3 st.global.v2.b32 {{.*}}, %[[TO]] :
// CHECK: @$2 st.global.b32 {{.*}}, %[[TO]] :
tile_gpu.kernel private @parts(%m: !rows, %o: !rows, %row: i32, %part: i32) {
  %c64 = arith.constant 64 : i32
  %col = arith.muli %part, %c64 : i32
  tile_gpu.role "copy" warps(1) {
  ^bb0(%w: i32):
    %f = tile_gpu.global.load %m[%row, %col] : !rows -> !frag
    tile_gpu.global.store %f, %o[%row, %col] : !frag, !rows
    tile_gpu.yield
  }
  tile_gpu.return
}

// Nothing says that a part starts at a multiple of its size: each column is
// compared, and no two are stored at once, of which the second may be beyond.
// CHECK-LABEL: llvm.func @anywhere
// CHECK-COUNT-4: @$10 ld.global.b32 $1, {{.*}}@$13 ld.global.b32 $7, {{.*}} : (i64, i1, i1, i64, i1, i1)
// CHECK-NOT: st.global.v2
// CHECK: llvm.return
tile_gpu.kernel private @anywhere(%m: !rows, %o: !rows, %row: i32, %col: i32) {
  tile_gpu.role "copy" warps(1) {
  ^bb0(%w: i32):
    %f = tile_gpu.global.load %m[%row, %col] : !rows -> !frag
    tile_gpu.global.store %f, %o[%row, %col] : !frag, !rows
    tile_gpu.yield
  }
  tile_gpu.return
}

// Known to be inside.
// CHECK-LABEL: llvm.func @whole
// CHECK-NOT: @${{[0-9]}} {{ld|st}}.global
// CHECK: st.global.v2.b32
// CHECK: llvm.return
tile_gpu.kernel private @whole(%m: !rows, %o: !rows, %row: i32) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "copy" warps(1) {
  ^bb0(%w: i32):
    %f = tile_gpu.global.load %m[%row, %c0] : !rows -> !frag
    tile_gpu.global.store %f, %o[%row, %c0] : !frag, !rows
    tile_gpu.yield
  }
  tile_gpu.return
}

// Sums in the order of registers: four elements of a lane, and 512 bytes of a warp,
// follow one another, 8 columns after another; nothing is exchanged.
// CHECK-LABEL: llvm.func @fragment_order
// CHECK-NOT: shfl.sync bfly
// CHECK: ld.global.v4.f32 {$0, $1, $2, $3}, [$4+0];
// CHECK: ld.global.v4.f32 {$0, $1, $2, $3}, [$4+512];
// CHECK: ld.global.v4.f32 {$0, $1, $2, $3}, [$4+3584];
// CHECK: red.relaxed.gpu.global.add.v4.f32 [$0+0], {$1, $2, $3, $4};
// CHECK: red.relaxed.gpu.global.add.v4.f32 [$0+3584], {$1, $2, $3, $4};
// CHECK-NOT: shfl.sync bfly
tile_gpu.kernel private @fragment_order(%m: memref<?x64xf32>, %row: i32) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "add" warps(1) {
  ^bb0(%w: i32):
    %f = tile_gpu.global.load %m[%row, %c0] {fragment_order} : memref<?x64xf32> -> !frag
    tile_gpu.global.reduce %f, %m[%row, %c0] {fragment_order} : !frag, memref<?x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}
