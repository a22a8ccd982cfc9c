// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s

// Keys above a threshold of their row: of each element a difference and a shift of its
// sign; a vote; scores, words and states in shared memory; and a loop of each lane over
// its row's keys, which no vote ends. What is left behind 16 of them is compared again.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @largest
// CHECK-COUNT-16: llvm.intr.fshl
// CHECK-NOT: st.shared
// CHECK: llvm.call_intrinsic "llvm.nvvm.vote.any.sync"
// CHECK: llvm.cond_br
// CHECK: bar.warp.sync
// CHECK-COUNT-4: "st.shared::cta.v2.b32 [$0], {$1, $2};"
// CHECK: "st.shared::cta.v4.b32 [$0], {$1, $2, $3, $4};"
// CHECK: bar.warp.sync
// CHECK: "ld.shared::cta.v4.b32 {$0, $1, $2, $3}, [$4];"
// CHECK: llvm.intr.cttz
// CHECK-NOT: vote.any
// CHECK: llvm.cond_br
// CHECK: llvm.intr.cttz
// CHECK: llvm.fmul
// CHECK: llvm.intr.maximum
// CHECK-NOT: vote.any
// CHECK: llvm.cond_br
// CHECK: bar.warp.sync
// CHECK: llvm.call_intrinsic "llvm.nvvm.vote.any.sync"
tile_gpu.kernel private @largest(%m: memref<?xf32>) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %scratch = tile_gpu.smem.alloc : !tile_gpu.smem<64x40xf32>
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %s = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.frag<64x32xf32, acc>
    %most = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.vec<64xf32, row>
    %next = tile_gpu.fold_above %s, %scratch threshold(0) factor(0.125)
        states(%most : !tile_gpu.vec<64xf32, row>) {
    ^bb1(%i: i32, %j: i32, %x: f32, %best: f32):
      %n = arith.maximumf %best, %x : f32
      tile_gpu.yield %n : f32
    } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32>
        -> !tile_gpu.vec<64xf32, row>
    tile_gpu.global.store %next, %m[%c0] : !tile_gpu.vec<64xf32, row>, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}
