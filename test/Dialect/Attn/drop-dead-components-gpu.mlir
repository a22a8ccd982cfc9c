// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="target=sm_90a" -o /dev/null
// RUN: attn-opt %s --attn-pipeline="target=sm_80" -o /dev/null

// Who asks for the logarithm of the sum, or for the maximum, multiplies no
// values: there is no product whose sums nobody reads, which the assembler
// would delete on its own, with what it waits for.

// CHECK-LABEL: kernel private @lse_kernel0
// CHECK-COUNT-2: tile.dot {{.*}} transpose_rhs
// CHECK-NOT:     tile.dot
// CHECK-LABEL: kernel private @largest_kernel0
// CHECK-COUNT-2: tile.dot {{.*}} transpose_rhs
// CHECK-NOT:     tile.dot
func.func @lse(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
               %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?xf32> {
  %o, %lse = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %lse : tensor<?x?x?xf32>
}

attn.monoid private @peak cocycle stats(f32) components(value)
    outputs("o", "max") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32):
    attn.yield %acc, %m : f32, f32
  }
}
func.func @largest(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                   %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?xf32> {
  %o, %max = attn.attention monoid(@peak) queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %max : tensor<?x?x?xf32>
}
