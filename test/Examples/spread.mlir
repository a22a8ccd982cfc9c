// How far are the scores of a row apart, where its weights are? The mean of the
// distance from the largest one, and the variance, from sums of distances and of
// their squares. Where the largest score so far grows, so do all distances:
// `shift` says what becomes of the sums, as `rescale` does of the weights in them.
// Sums of scores themselves would lose all digits to a large bias, and the
// variance, a difference of squares, half of them to any.
//
// RUN: attn-run %s --entry fast --sizes b=2,hq=4,hk=2,sq=70,sk=300 --check | FileCheck %s
// RUN: attn-run %s --entry parts --sizes b=2,hq=4,hk=2,sq=3,sk=900 --check | FileCheck %s
// RUN: attn-run %s --entry short --sizes b=1,hq=2,hk=1,sq=70,sk=150 --check --device emulator:sm_90a | FileCheck %s
// RUN: attn-run %s --entry parts --sizes b=1,hq=2,hk=1,sq=20,sk=300 --check --device emulator:sm_80 | FileCheck %s
// REQUIRES: attn-run
// CHECK: check {{.*}}: ok
// CHECK: check {{.*}}: ok
// CHECK: check {{.*}}: ok

attn.monoid @spread cocycle stats(f32) components(value, unit, unit, unit)
    outputs("o", "gap", "variance") {
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
  shift {
  ^bb0(%from: f32, %to: f32, %sum: f32, %first: f32, %second: f32):
    %d = arith.subf %from, %to : f32
    %more = arith.mulf %d, %sum : f32
    %moved = arith.addf %first, %more : f32
    %both = arith.addf %first, %moved : f32
    %squares = arith.mulf %d, %both : f32
    %moved2 = arith.addf %second, %squares : f32
    attn.yield %sum, %moved, %moved2 : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %s, %one, %one, %zero, %zero : f32, f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %first: f32, %second: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %e1 = arith.divf %first, %sum : f32
    %e2 = arith.divf %second, %sum : f32
    %below = arith.negf %e1 : f32
    %square = arith.mulf %e1, %e1 : f32
    %rest = arith.subf %e2, %square : f32
    %gap = arith.select %empty, %zero, %below : f32
    %variance = arith.select %empty, %zero, %rest : f32
    attn.yield %o, %gap, %variance : f32, f32, f32
  }
}

func.func @fast(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  %o:3 = attn.attention monoid(@spread)
      queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {causal = #attn.causal<bottom_right>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1, %o#2 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
}

func.func @short(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                %v: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  %o:3 = attn.attention monoid(@spread)
      queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>) {causal = #attn.causal<bottom_right>}
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1, %o#2 : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
}

// Parts of the keys, whose states are multiplied.
func.func @parts(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  %o:3 = attn.attention monoid(@spread)
      queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 64,
                                 splits = 4>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1, %o#2 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
}
