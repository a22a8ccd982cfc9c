// RUN: attn-opt %s --attn-pipeline="until-after=tile target=cpu-avx2" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="until-after=tile target=sm_90a" | FileCheck %s --check-prefix=GPU
// RUN: attn-run %s --sizes b=1,hq=2,hk=2,sq=40,sk=170 --check --target cpu-generic | FileCheck %s --check-prefix=RUNS
// RUN: attn-run %s --sizes b=1,hq=2,hk=2,sq=40,sk=170 --check | FileCheck %s --check-prefix=RUNS

// Gates that are no power: what is too small for products of normal numbers is
// 0, where a weight takes it and where old sums do. The statistic, an output,
// keeps it. GPUs lose no time to such numbers.

// CHECK-LABEL: kernel private @product_kernel0(
// CHECK-DAG:     %[[LEAST:.*]] = arith.constant 1.20370622E-35 : f32
// CHECK:         tile.scan ins
// CHECK:         %[[SIZE:.*]] = math.absf %[[GATE:.*]] : f32
// CHECK-NEXT:    %[[SMALL:.*]] = arith.cmpf olt, %[[SIZE]], %[[LEAST]]
// CHECK-NEXT:    %[[USED:.*]] = arith.select %[[SMALL]], %{{.*}}, %[[GATE]]
// CHECK-NEXT:    arith.mulf %{{.*}}, %[[USED]]
// GPU-NOT: 1.203706
// RUNS: check o: ok
// RUNS: check left: ok
attn.monoid @pass prefix stats(f32) components(value) outputs("o", "left") {
  identity { %one = arith.constant 1.0 : f32 attn.yield %one : f32 }
  combine { ^bb0(%a: f32, %b: f32): %c = arith.mulf %a, %b : f32 attn.yield %c : f32 }
  gate { ^bb0(%c: f32): attn.yield %c : f32 }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %size = math.absf %s : f32
    %sum = arith.addf %size, %one : f32
    %part = arith.divf %one, %sum : f32
    attn.yield %part, %part : f32, f32
  }
  finalize { ^bb0(%c: f32, %acc: f32): attn.yield %acc, %c : f32, f32 }
}
func.func @product(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o:2 = attn.attention monoid(@pass) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}
