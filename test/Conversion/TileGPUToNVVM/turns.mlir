// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s

// Turns of two warpgroups, by the barriers 1 and 2 of 256 threads. The last
// member opens the first turn, member 0 takes the last one that is passed, so
// that none is left when the kernel ends. What belongs to a turn is computed
// before it is passed: the barrier's number depends on it.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @turns
// CHECK: %[[ZERO:.*]] = llvm.inline_asm has_side_effects "mov.u32 $0, %ctaid.z;"
// CHECK: ^bb1:
// CHECK-NEXT: %[[MEMBER:.*]] = llvm.lshr
// CHECK: %[[LAST:.*]] = llvm.icmp "eq" %[[MEMBER]], %{{.*}} : i32
// CHECK-NEXT: llvm.cond_br %[[LAST]], ^[[OPEN:bb[0-9]+]], ^[[GO:bb[0-9]+]]
// CHECK: ^[[OPEN]]:
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.arrive.aligned.count"
// CHECK: ^[[GO]]:
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.count"
// CHECK: llvm.select
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.arrive.aligned.count"
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.count"
// CHECK: llvm.and %{{.*}}, %[[ZERO]] : i32
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.arrive.aligned.count"
// CHECK: %[[FIRST:.*]] = llvm.icmp "eq" %[[MEMBER]], %{{.*}} : i32
// CHECK-NEXT: llvm.cond_br %[[FIRST]], ^[[CLOSE:bb[0-9]+]], ^[[END:bb[0-9]+]]
// CHECK: ^[[CLOSE]]:
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.count"
// CHECK: ^[[END]]:
// CHECK-NOT: barrier
// CHECK: llvm.return
tile_gpu.kernel private @turns(%out: memref<?xf32>) {
  %c0 = arith.constant 0 : i32
  %one = arith.constant 1.0 : f32
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    tile_gpu.turn.wait %turns[%wg]
    tile_gpu.turn.pass %turns[%wg]
    %x = tile_gpu.frag.fill %one : f32 -> !tile_gpu.vec<64xf32, row>
    tile_gpu.turn.wait %turns[%wg]
    tile_gpu.turn.pass %turns[%wg] after(%x : !tile_gpu.vec<64xf32, row>)
    tile_gpu.global.store %x, %out[%c0] : !tile_gpu.vec<64xf32, row>, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}
