// RUN: attn-opt %s --attn-pipeline='target=sm_80 until-after=tile' | FileCheck %s
// RUN: attn-opt %s --attn-pipeline=target=sm_80 | attn-opt --emit-ptx | FileCheck %s --check-prefix=PTX

// Kernels of functions whose names PTX has not: LLVM ends the process at them.

// CHECK: tile.kernel private @a_b____kernel0
// CHECK: tile.kernel private @_1_kernel0
// PTX: .entry a_b____kernel0(
// PTX: .entry _1_kernel0(
!t = tensor<?x?x?x16xf32>
func.func @"a b.é"(%q: !t, %k: !t, %v: !t) -> !t {
  %o = attn.attention queries(%q : !t) keys(%k : !t) values(%v : !t) -> !t
  return %o : !t
}
func.func @"1"(%q: !t, %k: !t, %v: !t) -> !t {
  %o = attn.attention queries(%q : !t) keys(%k : !t) values(%v : !t) -> !t
  return %o : !t
}
