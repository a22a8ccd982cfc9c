// The mean of the values whose score is the largest, and how many they are.
//
// RUN: %python %S/Inputs/hardmax.py %s
// RUN: attn-run --monoid %s --attention b=1,hq=2,sq=5,d=16,outputs=2 | FileCheck %s
//
// REQUIRES: attn-run, python
// UNSUPPORTED: sanitizer
//
// CHECK: output o: f32 [1, 2, 5, 16]
// CHECK: output count: f32 [1, 2, 5]

attn.monoid @hardmax cocycle stats(f32) components(value, unit) outputs("o", "count") {
  identity { %e = arith.constant 0xFF800000 : f32 attn.yield %e : f32 }
  combine { ^bb0(%a: f32, %b: f32): %c = arith.maximumf %a, %b : f32 attn.yield %c : f32 }
  rescale { ^bb0(%from: f32, %to: f32): %same = arith.cmpf oeq, %from, %to : f32
            %r = arith.uitofp %same : i1 to f32 attn.yield %r : f32 }
  lift { ^bb0(%s: f32): %one = arith.constant 1.0 : f32 attn.yield %s, %one, %one : f32, f32, f32 }
  finalize { ^bb0(%c: f32, %sum: f32, %n: f32): %one = arith.constant 1.0 : f32
             %d = arith.maximumf %n, %one : f32 %o = arith.divf %sum, %d : f32
             attn.yield %o, %n : f32, f32 }
}
