// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm --split-input-file | FileCheck %s

module attributes {attn.target = "sm_90a"} {
// A block of one role has nothing to do ahead of its wait but to find out where
// it reads: what does that comes first, behind the wait or not, and the wait
// has a predicate of the addresses, which is true.
// CHECK-LABEL: llvm.func @states
// CHECK: %[[ZERO:.*]] = llvm.inline_asm has_side_effects "mov.u32 $0, %ctaid.z;"
// CHECK: griddepcontrol.launch_dependents
// CHECK: llvm.udiv
// CHECK: xor.b64 %all, %all, $0;\0Axor.b64 %all, %all, $1;
// CHECK-SAME: and.b32 %low, %low, $4;\0Asetp.eq.u32 %now, %low, 0;\0A@%now griddepcontrol.wait;
// CHECK-SAME: %[[A:[0-9]+]], %[[B:[0-9]+]], %{{[0-9]+}}, %{{[0-9]+}}, %[[ZERO]] :
// CHECK-NOT: llvm.mul
// CHECK: ld.global.b32 $1, [$4+0]{{.*}} %[[A]], %{{[0-9]+}}, %[[B]], %{{[0-9]+}} :
tile_gpu.kernel private @states(%m: memref<?x?xf32, strided<[?, 1]>>, %n: i32) {
  %c1 = arith.constant 1 : i32
  %c0 = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.dependents.launch
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.dependencies.wait
      %row = arith.muli %head, %c16 : i32
      %x = tile_gpu.global.load %m[%head, %row] rows(%n) : memref<?x?xf32, strided<[?, 1]>> -> !tile_gpu.vec<16xf32, row, warp>
      tile_gpu.global.store %x, %m[%tile, %c0] rows(%n) : !tile_gpu.vec<16xf32, row, warp>, memref<?x?xf32, strided<[?, 1]>>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// In a cluster, a warp that multiplies nothing waits behind the addresses that it
// reads first, in the branch that follows as well.
// CHECK-LABEL: llvm.func @lengths
// CHECK: llvm.udiv
// CHECK: %[[LENGTH:.*]] = llvm.ptrtoint
// CHECK: %[[ENTRY:.*]] = llvm.ptrtoint
// CHECK: @%now griddepcontrol.wait;{{.*}} %[[LENGTH]], %[[ENTRY]], %{{[0-9]+}} :
// CHECK: ld.relaxed.gpu.global.b32
// CHECK: llvm.cond_br
// CHECK-NOT: llvm.udiv
// CHECK: ld.relaxed.gpu.global.b32
tile_gpu.kernel private @lengths(%m: memref<?xi32, strided<[1]>>, %t: memref<?xi32, strided<[1]>>, %n: index, %tickets: memref<1xi32>, %i: i32) {
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>) cluster(2) tiles(%i) heads(%i) batch(%i) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    %some = arith.cmpi sgt, %n, %c1 : index
    tile_gpu.dependencies.wait
    %length = memref.load %m[%n] {nontemporal = true} : memref<?xi32, strided<[1]>>
    scf.if %some {
      %row = arith.divui %n, %c7 : index
      %entry = memref.load %t[%row] {nontemporal = true} : memref<?xi32, strided<[1]>>
    }
    tile_gpu.yield
  }
  tile_gpu.role "draw" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// A wait behind which nothing known is read stays as it is.
// CHECK-LABEL: llvm.func @roles
// CHECK: llvm.inline_asm has_side_effects "griddepcontrol.wait;", "~{memory}"
tile_gpu.kernel private @roles(%i: i32) {
  tile_gpu.role "draw" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.dependencies.wait
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}
