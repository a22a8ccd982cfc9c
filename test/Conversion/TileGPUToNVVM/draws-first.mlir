// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s

// Blocks that draw their first items, too: one draw ahead of the loop, of as many
// numbers as there are items and blocks, and no block's own number.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @first
// CHECK: %[[BLOCKS:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.nctaid.x"
// CHECK: %[[ALL:.*]] = llvm.add %{{.*}}, %[[BLOCKS]] : i32
// CHECK: %[[LAST:.*]] = llvm.add %[[ALL]], %{{.*}} : i32
// CHECK: %[[TICKET:.*]] = llvm.inline_asm has_side_effects "{\0Amov.b32 $0, 0;\0A@$2 atom.relaxed.gpu.global.inc.u32 $0, [$1], $3;\0A}", "=r,l,b,r,~{memory}" %{{.*}}, %{{.*}}, %[[LAST]] :
// CHECK: %[[FIRST:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.idx.i32"(%{{.*}}, %[[TICKET]],
// CHECK: llvm.br ^[[HEADER:bb[0-9]*]](%{{.*}}, %[[FIRST]] : i32, i32)
// CHECK: ^[[HEADER]](%{{.*}}: i32, %[[ITEM:.*]]: i32):
// CHECK: llvm.icmp "slt" %[[ITEM]],
// CHECK: atom.relaxed.gpu.global.inc.u32
// CHECK: %[[NEXT:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.idx.i32"
// CHECK-NEXT: llvm.br ^[[HEADER]](%{{.*}}, %[[NEXT]] : i32, i32)
tile_gpu.kernel private @first(%tickets: memref<1xi32>, %n: i32) {
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      tiles(%n) heads(%c1) batch(%c1) attributes {draws_first} {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "draw" warps(1) {
  ^bb0(%m: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%t: i32, %h: i32, %b: i32, %p: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%m: i32):
    tile_gpu.foreach %s {
    ^bb0(%t: i32, %h: i32, %b: i32, %p: i32):
      tile_gpu.draw_next
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}
