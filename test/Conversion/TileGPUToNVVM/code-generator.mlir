// RUN: attn-opt %s --emit-ptx | FileCheck %s
// RUN: sed s/sm_90a/sm_80/ %s | attn-opt --emit-ptx | FileCheck %s --check-prefix=PORTABLE

// What is left out of LLVM's code generator, by what it makes of this where it
// is not.

module attributes {attn.target = "sm_90a"} {
gpu.module @attn_kernels {

// Straight-line strength reduction makes the second product of the first, and
// the third of the second, by comparing each to those before.
// CHECK-LABEL: .entry products
// CHECK-COUNT-3: mul.lo.s32
// CHECK: ret
// PORTABLE-LABEL: .entry products
// PORTABLE: mul.lo.s32
// PORTABLE-NOT: mul.lo.s32
// PORTABLE: ret
llvm.func @products(%out: !llvm.ptr<1>, %b: i32, %s: i32)
    attributes {nvvm.kernel} {
  %5 = llvm.mlir.constant(5 : i32) : i32
  %11 = llvm.mlir.constant(11 : i32) : i32
  %b5 = llvm.add %b, %5 : i32
  %b11 = llvm.add %b, %11 : i32
  %x0 = llvm.mul %b, %s : i32
  %x1 = llvm.mul %b5, %s : i32
  %x2 = llvm.mul %b11, %s : i32
  llvm.store volatile %x0, %out : i32, !llvm.ptr<1>
  llvm.store volatile %x1, %out : i32, !llvm.ptr<1>
  llvm.store volatile %x2, %out : i32, !llvm.ptr<1>
  llvm.return
}
}
}
