// Over how many keys does a row spread its attention? (sum w)^2 / sum w^2 says
// it. Squared weights fade with the square of the factor: `rescale` yields a
// factor for each component, and both sums stay on the path of a softmax. The
// same as a general monoid, key by key, for comparison.
//
// RUN: attn-run %s --entry fast --sizes b=2,hq=4,hk=2,sq=70,sk=300 --check | FileCheck %s
// RUN: attn-run %s --entry parts --sizes b=2,hq=4,hk=2,sq=3,sk=900 --check | FileCheck %s
// RUN: attn-run %s --entry slow --sizes b=1,hq=2,hk=2,sq=30,sk=60 --check | FileCheck %s
// REQUIRES: attn-run
// CHECK: check {{.*}}: ok
// CHECK: check {{.*}}: ok

attn.monoid @participation cocycle stats(f32) components(value, unit, unit)
    outputs("o", "ratio") {
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
    %r2 = arith.mulf %r, %r : f32
    attn.yield %r, %r, %r2 : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one, %one : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %squares: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %square = arith.mulf %sum, %sum : f32
    %p = arith.divf %square, %squares : f32
    %ratio = arith.select %empty, %zero, %p : f32
    attn.yield %o, %ratio : f32, f32
  }
}

attn.monoid @participation_by_keys general stats(f32)
    components(value, unit, unit) outputs("o", "ratio") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %ninf, %zero, %zero, %zero : f32, f32, f32, f32
  }
  combine {
  ^bb0(%a: f32, %va: f32, %na: f32, %qa: f32,
       %b: f32, %vb: f32, %nb: f32, %qb: f32):
    %ninf = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %m = arith.maximumf %a, %b : f32
    %noA = arith.cmpf oeq, %a, %ninf : f32
    %noB = arith.cmpf oeq, %b, %ninf : f32
    %da = arith.subf %a, %m : f32
    %db = arith.subf %b, %m : f32
    %ea = math.exp %da : f32
    %eb = math.exp %db : f32
    %ra = arith.select %noA, %zero, %ea : f32
    %rb = arith.select %noB, %zero, %eb : f32
    %v0 = arith.mulf %ra, %va : f32
    %v1 = arith.mulf %rb, %vb : f32
    %v = arith.addf %v0, %v1 : f32
    %n0 = arith.mulf %ra, %na : f32
    %n1 = arith.mulf %rb, %nb : f32
    %n = arith.addf %n0, %n1 : f32
    %ra2 = arith.mulf %ra, %ra : f32
    %rb2 = arith.mulf %rb, %rb : f32
    %q0 = arith.mulf %ra2, %qa : f32
    %q1 = arith.mulf %rb2, %qb : f32
    %q = arith.addf %q0, %q1 : f32
    attn.yield %m, %v, %n, %q : f32, f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %v, %one, %one : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %squares: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %square = arith.mulf %sum, %sum : f32
    %p = arith.divf %square, %squares : f32
    %ratio = arith.select %empty, %zero, %p : f32
    attn.yield %o, %ratio : f32, f32
  }
}

func.func @fast(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o:2 = attn.attention monoid(@participation)
      queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {causal = #attn.causal<bottom_right>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}

// Parts of the keys, whose states are multiplied.
func.func @parts(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o:2 = attn.attention monoid(@participation)
      queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 64,
                                 splits = 4>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}

func.func @slow(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o:2 = attn.attention monoid(@participation_by_keys)
      queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {causal = #attn.causal<bottom_right>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}
