// RUN: attn-opt %s --split-input-file --tile-gpu-keep-workspace | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-keep-workspace %tidy %verify_kernels -o /dev/null

module attributes {attn.target = "sm_90a"} {
// What reads a number and the sizes of a tensor makes the same again.
tile_gpu.kernel private @list(%q: memref<?x8xf32>, %w: f32, %m: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %q, %c0 : memref<?x8xf32>
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %i = arith.index_cast %n : index to i32
    %x = arith.fptosi %w : f32 to i32
    %y = arith.addi %x, %i : i32
    memref.store %y, %m[%c0] : memref<?xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
tile_gpu.kernel private @count(%m: memref<?xi32>, %s: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = memref.load %m[%c0] : memref<?xi32>
    memref.store %x, %s[%c0] : memref<1xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
tile_gpu.kernel private @reduce(%q: memref<?x8xf32>, %m: memref<?xi32>, %s: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = memref.load %m[%c0] : memref<?xi32>
    %y = memref.load %s[%c0] : memref<1xi32>
    %z = memref.load %q[%c0, %c0] : memref<?x8xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: func.func @plan
// CHECK-SAME: (%[[Q:.*]]: memref<?x8xf32>, %[[W:.*]]: f32, %[[N:.*]]: index)
// CHECK: %[[D:.*]] = memref.dim %[[Q]]
// CHECK: %[[K0:.*]] = arith.index_cast %[[N]] : index to i64
// CHECK: %[[B:.*]] = arith.bitcast %[[W]] : f32 to i32
// CHECK: %[[K1:.*]] = arith.extui %[[B]] : i32 to i64
// CHECK: %[[K2:.*]] = arith.index_cast %[[D]] : index to i64
// CHECK: %[[M:.*]]:2, %[[NEW:.*]] = tile_gpu.keep 0(%[[N]]) key(%[[K0]], %[[K1]], %[[K2]]) : memref<?xi32>, memref<1xi32>
// CHECK: %[[NONE:.*]] = arith.constant 0 : index
// CHECK: %[[G0:.*]] = arith.select %[[NEW]], %[[N]], %[[NONE]] : index
// CHECK: tile_gpu.launch @list grid(%[[G0]]) args(%[[Q]], %[[W]], %[[M]]#0
// CHECK: %[[G1:.*]] = arith.select %[[NEW]], %[[N]], %[[NONE]]
// CHECK: tile_gpu.launch @count grid(%[[G1]]) args(%[[M]]#0, %[[M]]#1
// CHECK: tile_gpu.launch @reduce grid(%[[N]]) args(%[[Q]], %[[M]]#0, %[[M]]#1
func.func @plan(%q: memref<?x8xf32>, %w: f32, %n: index) attributes {tile.plan} {
  %m = tile.workspace(%n) : memref<?xi32>
  %s = tile.workspace() : memref<1xi32>
  tile_gpu.launch @list grid(%n) args(%q, %w, %m : memref<?x8xf32>, f32, memref<?xi32>)
  tile_gpu.launch @count grid(%n) args(%m, %s : memref<?xi32>, memref<1xi32>)
  tile_gpu.launch @reduce grid(%n) args(%q, %m, %s : memref<?x8xf32>, memref<?xi32>, memref<1xi32>)
  return
}
}

// -----

// Not what a kernel makes of a tensor's elements, nor what is made of that.
module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @list(%t: memref<?xi32>, %m: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = memref.load %t[%c0] : memref<?xi32>
    memref.store %x, %m[%c0] : memref<?xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
tile_gpu.kernel private @count(%m: memref<?xi32>, %s: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = memref.load %m[%c0] : memref<?xi32>
    memref.store %x, %s[%c0] : memref<1xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: func.func @read_elements
// CHECK-NOT: tile_gpu.keep
// CHECK: return
func.func @read_elements(%t: memref<?xi32>, %n: index) attributes {tile.plan} {
  %m = tile.workspace(%n) : memref<?xi32>
  %s = tile.workspace() : memref<1xi32>
  tile_gpu.launch @list grid(%n) args(%t, %m : memref<?xi32>, memref<?xi32>)
  tile_gpu.launch @count grid(%n) args(%m, %s : memref<?xi32>, memref<1xi32>)
  return
}
}

// -----

// Not what another kernel changes, nor what the plan clears.
module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @list(%n: index, %m: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = arith.index_cast %n : index to i32
    memref.store %x, %m[%c0] : memref<?xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
tile_gpu.kernel private @change(%t: memref<?xi32>, %m: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = memref.load %t[%c0] : memref<?xi32>
    memref.store %x, %m[%c0] : memref<?xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: func.func @changed
// CHECK-NOT: tile_gpu.keep
// CHECK: return
func.func @changed(%t: memref<?xi32>, %n: index) attributes {tile.plan} {
  %m = tile.workspace(%n) : memref<?xi32>
  tile_gpu.launch @list grid(%n) args(%n, %m : index, memref<?xi32>)
  tile_gpu.launch @change grid(%n) args(%t, %m : memref<?xi32>, memref<?xi32>)
  return
}
// CHECK-LABEL: func.func @cleared
// CHECK-NOT: tile_gpu.keep
// CHECK: return
func.func @cleared(%n: index) attributes {tile.plan} {
  %m = tile.workspace(%n) : memref<?xi32>
  tile_gpu.reset %m : memref<?xi32>
  tile_gpu.launch @list grid(%n) args(%n, %m : index, memref<?xi32>)
  return
}
// A number that comes only later is no key, be it one of blocks or of elements.
// CHECK-LABEL: func.func @late
// CHECK-NOT: tile_gpu.keep
// CHECK: return
func.func @late(%n: index) attributes {tile.plan} {
  %m = tile.workspace(%n) : memref<?xi32>
  tile_gpu.launch @list grid(%n) args(%n, %m : index, memref<?xi32>)
  %two = arith.addi %n, %n : index
  tile_gpu.launch @list grid(%n) args(%two, %m : index, memref<?xi32>)
  return
}
// CHECK-LABEL: func.func @late_grid
// CHECK-NOT: tile_gpu.keep
// CHECK: return
func.func @late_grid(%n: index) attributes {tile.plan} {
  %m = tile.workspace(%n) : memref<?xi32>
  tile_gpu.launch @list grid(%n) args(%n, %m : index, memref<?xi32>)
  %two = arith.addi %n, %n : index
  tile_gpu.launch @list grid(%two) args(%n, %m : index, memref<?xi32>)
  return
}
// CHECK-LABEL: func.func @late_size
// CHECK-NOT: tile_gpu.keep
// CHECK: return
func.func @late_size(%n: index) attributes {tile.plan} {
  %m = tile.workspace(%n) : memref<?xi32>
  tile_gpu.launch @list grid(%n) args(%n, %m : index, memref<?xi32>)
  %two = arith.addi %n, %n : index
  %l = tile.workspace(%two) : memref<?xi32>
  tile_gpu.launch @list grid(%n) args(%n, %l : index, memref<?xi32>)
  return
}
}
