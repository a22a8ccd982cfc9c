// Called as attn-reduce, the program shrinks IR while the test script still
// finds what it looks for.
//
// RUN: attn-reduce %s --reduction-tree='traversal-mode=0 test=%S/Inputs/has-exp.sh' | FileCheck %s

// CHECK: func.func @kept
// CHECK: math.exp
func.func @kept(%a: f32) -> f32 {
  %0 = math.exp %a : f32
  return %0 : f32
}

// CHECK-NOT: func.func @dropped
func.func @dropped(%a: f32) -> f32 {
  %0 = arith.addf %a, %a : f32
  return %0 : f32
}
