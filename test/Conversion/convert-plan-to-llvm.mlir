// RUN: attn-opt %s --convert-plan-to-llvm | FileCheck %s

// A kernel with scratch: o[block, :] = 2 * x[block, :], through the scratch.
// CHECK-LABEL: llvm.func internal @scale_kernel(
// CHECK-SAME: %{{[^:]*}}: !llvm.ptr, %{{[^:]*}}: !llvm.ptr {llvm.noalias},
// CHECK-SAME: attributes {always_inline
tile.kernel private @scale_kernel(%x: memref<?x16xf32, strided<[?, 1]>>, %o: memref<?x16xf32, strided<[?, 1]>>, %f: f32, %block: index, %scratch: memref<64xi8>) attributes {scratch_bytes = 64 : i64} {
  %c0 = arith.constant 0 : index
  %s = memref.view %scratch[%c0][] : memref<64xi8> to memref<16xf32>
  // CHECK: llvm.load %{{.*}} : !llvm.ptr -> vector<16xf32>
  %v = vector.load %x[%block, %c0] : memref<?x16xf32, strided<[?, 1]>>, vector<16xf32>
  %b = vector.broadcast %f : f32 to vector<16xf32>
  %m = arith.mulf %v, %b : vector<16xf32>
  vector.store %m, %s[%c0] : memref<16xf32>, vector<16xf32>
  %w = vector.load %s[%c0] : memref<16xf32>, vector<16xf32>
  vector.store %w, %o[%block, %c0] : memref<?x16xf32, strided<[?, 1]>>, vector<16xf32>
  tile.return
}

// CHECK-LABEL: llvm.func @attn_entry_scale(%arg0: !llvm.ptr, %arg1: !llvm.ptr) -> i32
func.func @scale(%x: memref<?x16xf32, strided<[?, 1]>>, %f: f32, %o: memref<?x16xf32, strided<[?, 1]>>) attributes {tile.plan} {
  %c0 = arith.constant 0 : index
  // CHECK: %[[STATUS:.*]] = llvm.alloca %{{.*}} x i32
  %n = memref.dim %x, %c0 : memref<?x16xf32, strided<[?, 1]>>
  // The second callback of the runtime allocates.
  // CHECK: llvm.getelementptr %arg1[1]
  // CHECK: %[[W:.*]] = llvm.call %{{.*}}(%arg1, %{{.*}}) : !llvm.ptr, (!llvm.ptr, i64) -> !llvm.ptr
  %w = tile.workspace(%n) : memref<?x16xf32>
  %wc = memref.cast %w : memref<?x16xf32> to memref<?x16xf32, strided<[?, 1]>>
  // CHECK: %[[BODY:.*]] = llvm.mlir.addressof @scale_kernel__body0
  // CHECK: %[[BYTES:.*]] = llvm.mlir.constant(64 : i64)
  // CHECK: llvm.call %{{.*}}(%arg1, %[[BODY]], %{{.*}}, %{{.*}}, %[[BYTES]])
  tile.launch @scale_kernel grid(%n) args(%x, %wc, %f : memref<?x16xf32, strided<[?, 1]>>, memref<?x16xf32, strided<[?, 1]>>, f32)
  tile.launch @scale_kernel grid(%n) args(%wc, %o, %f : memref<?x16xf32, strided<[?, 1]>>, memref<?x16xf32, strided<[?, 1]>>, f32)
  // CHECK: llvm.getelementptr %arg1[2]
  // CHECK: llvm.call %{{.*}}(%arg1, %[[W]]) : !llvm.ptr, (!llvm.ptr, !llvm.ptr) -> ()
  // CHECK: %[[RESULT:.*]] = llvm.load %[[STATUS]]
  // CHECK: llvm.return %[[RESULT]]
  return
}

// CHECK-LABEL: llvm.func internal @scale_kernel__body0(
// CHECK: llvm.call @scale_kernel(
