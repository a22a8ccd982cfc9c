// A compile that fails shrinks to what it fails for: here the one monoid that
// breaks a law, out of two and two functions.
//
// RUN: attn-reduce %s --reduction-tree='traversal-mode=0 test=%S/Inputs/breaks-law.sh' -o %t.mlir
// RUN: FileCheck %s < %t.mlir --implicit-check-not=func.func --implicit-check-not=@sum
// RUN: not attn-opt %t.mlir --attn-check-laws 2>&1 | FileCheck %s --check-prefix=LAW

// CHECK: attn.monoid @wrong
// LAW: breaks the law "identity

attn.monoid @sum cocycle stats() components(value) outputs("o") {
  identity {
    attn.yield
  }
  combine {
    attn.yield
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

attn.monoid @wrong cocycle stats(f32) components(value) outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %difference = arith.subf %a, %b : f32
    attn.yield %difference : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %one : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}

func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

func.func @none(%a: f32) -> f32 {
  %0 = arith.addf %a, %a : f32
  return %0 : f32
}
