// RUN: attn-opt %s --convert-plan-to-llvm | FileCheck %s

// Another plan gets the records of this one, and its status is returned.
// CHECK-LABEL: llvm.func internal @attn_entry_few(
// CHECK-LABEL: llvm.func @attn_entry_dispatch(
// CHECK-SAME:      %[[RECORDS:[a-z0-9]*]]: !llvm.ptr, %[[RUNTIME:[a-z0-9]*]]: !llvm.ptr) -> i32
// CHECK:         %[[FEW:.*]] = llvm.icmp "ule" %{{.*}}, %{{.*}} : i64
// CHECK:         llvm.cond_br %[[FEW]], ^[[OTHER:.*]], ^[[REST:.*]]
// CHECK:       ^[[OTHER]]:
// CHECK-NEXT:    %[[STATUS:.*]] = llvm.call @attn_entry_few(%[[RECORDS]], %[[RUNTIME]])
// CHECK-NEXT:    llvm.return %[[STATUS]] : i32
// CHECK:       ^[[REST]]:
// CHECK:         llvm.call %{{.*}}(%[[RUNTIME]],
// CHECK:         llvm.return
func.func private @few(%x: memref<?xf32, strided<[?]>>) attributes {tile.plan} {
  return
}
func.func @dispatch(%x: memref<?xf32, strided<[?]>>) attributes {tile.plan} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %n = memref.dim %x, %c0 : memref<?xf32, strided<[?]>>
  %isFew = arith.cmpi ule, %n, %c16 : index
  tile.dispatch %isFew to @few
  %w = tile.workspace(%n) : memref<?xf32>
  return
}
