// RUN: attn-opt %s --split-input-file --tile-gpu-overlap-launches | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-overlap-launches %tidy %verify_kernels -o /dev/null

module attributes {attn.target = "sm_90a"} {
// The first waits for what the stream ran before, and lets the second start,
// which waits in every role and lets the next run start.
// CHECK-LABEL: kernel private @first
// CHECK: tile_gpu.role
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tile_gpu.dependents.launch
// CHECK-NEXT: tile_gpu.dependencies.wait
tile_gpu.kernel private @first(%m: memref<?xi32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: kernel private @second
// CHECK: tile_gpu.role "load"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tile_gpu.dependents.launch
// CHECK-NEXT: tile_gpu.dependencies.wait
// CHECK: tile_gpu.role "compute"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tile_gpu.dependents.launch
// CHECK-NEXT: tile_gpu.dependencies.wait
tile_gpu.kernel private @second(%m: memref<?xi32>, %t: memref<1xi32>) {
  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%wg: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
// What lies between the two comes before, also what has no meaning for all of
// its operands.
// CHECK-LABEL: func.func @plan
// CHECK: %[[T:.*]] = tile.workspace() : memref<1xi32>
// CHECK-NEXT: tile_gpu.reset %[[T]]
// CHECK-NEXT: arith.divui
// CHECK-NEXT: tile_gpu.launch @first grid(%{{.*}}) args(%{{.*}} : memref<?xi32>) programmatic
// CHECK-NEXT: tile_gpu.launch @second {{.*}} programmatic
func.func @plan(%n: index) attributes {tile.plan} {
  %m = tile.workspace(%n) : memref<?xi32>
  tile_gpu.launch @first grid(%n) args(%m : memref<?xi32>)
  %t = tile.workspace() : memref<1xi32>
  tile_gpu.reset %t : memref<1xi32>
  %one = arith.divui %n, %n : index
  tile_gpu.launch @second grid(%one) args(%m, %t : memref<?xi32>, memref<1xi32>)
  return
}
}

// -----

// Not across a reset of what the first kernel works on, nor where the second
// reads memory outside of its roles.
module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @first(%m: memref<1xi32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
tile_gpu.kernel private @early(%m: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %x = memref.load %m[%c0] : memref<1xi32>
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    memref.store %x, %m[%c0] : memref<1xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: func.func @reset
// CHECK-NOT: programmatic
func.func @reset(%n: index) attributes {tile.plan} {
  %m = tile.workspace() : memref<1xi32>
  tile_gpu.launch @early grid(%n) args(%m : memref<1xi32>)
  tile_gpu.reset %m : memref<1xi32>
  tile_gpu.launch @first grid(%n) args(%m : memref<1xi32>)
  return
}
// CHECK-LABEL: func.func @reads
// CHECK: tile_gpu.launch @first {{.*}} programmatic
// CHECK-NEXT: tile_gpu.launch @early
// CHECK-NOT: programmatic
func.func @reads(%n: index) attributes {tile.plan} {
  %m = tile.workspace() : memref<1xi32>
  tile_gpu.launch @first grid(%n) args(%m : memref<1xi32>)
  tile_gpu.launch @early grid(%n) args(%m : memref<1xi32>)
  return
}
}

// -----

module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: kernel private @first
// CHECK-NOT: tile_gpu.dependents
tile_gpu.kernel private @first(%m: memref<1xi32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
tile_gpu.kernel private @second(%m: memref<1xi32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: func.func @plan
// CHECK-NOT: programmatic
func.func @plan(%n: index) attributes {tile.plan} {
  %m = tile.workspace() : memref<1xi32>
  tile_gpu.launch @first grid(%n) args(%m : memref<1xi32>)
  tile_gpu.launch @second grid(%n) args(%m : memref<1xi32>)
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @first(%m: memref<?xi32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
// Arithmetic before the roles, a division too, reads nothing of the first's.
// CHECK-LABEL: kernel private @divides
// CHECK: arith.divui
// CHECK: tile_gpu.dependencies.wait
tile_gpu.kernel private @divides(%m: memref<?xi32>, %n: i32) {
  %c4 = arith.constant 4 : i32
  %group = arith.divui %c4, %n : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: func.func @plan
// CHECK: tile_gpu.launch @divides {{.*}} programmatic
func.func @plan(%n: index, %heads: i32) attributes {tile.plan} {
  %m = tile.workspace(%n) : memref<?xi32>
  tile_gpu.launch @first grid(%n) args(%m : memref<?xi32>)
  tile_gpu.launch @divides grid(%n) args(%m, %heads : memref<?xi32>, i32)
  return
}
}
