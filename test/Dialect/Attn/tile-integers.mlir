// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-relax-maximum --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --tile-expand-stream --canonicalize --cse | FileCheck %s

// A shift by what may be the width or more has a result all the same; one by a
// constant below the width costs nothing, nor does what `exact` promised.
// CHECK-LABEL: kernel private @shift_kernel0
// CHECK:         tile.map
// CHECK:           %[[INSIDE:.*]] = arith.cmpi ule, %[[BY:.*]], %c31_i32
// CHECK-NEXT:      %[[THREE:.*]] = arith.shrui %{{.*}}, %c3_i32{{[_0-9]*}} : i32
// CHECK-NEXT:      %[[AMOUNT:.*]] = arith.minui %[[BY]], %c31_i32
// CHECK-NEXT:      %[[SHIFTED:.*]] = arith.shli %[[THREE]], %[[AMOUNT]] : i32
// CHECK-NEXT:      %[[LEFT:.*]] = arith.select %[[INSIDE]], %[[SHIFTED]], %c0_i32
// CHECK-NEXT:      arith.shrsi %[[LEFT]], %[[AMOUNT]] : i32
// CHECK-NEXT:      arith.sitofp
func.func @shift(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
                 %v: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>)
    values(%v : tensor<?x?x?x16xf32>)
    {schedule = #attn.schedule<block_q = 32, rows = 32, block_k = 32>}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %three = arith.constant 3 : i32
      %x = arith.shrui %i, %three exact : i32
      %y = arith.shli %x, %j overflow<nsw> : i32
      %z = arith.shrsi %y, %j : i32
      %f = arith.sitofp %z : i32 to f32
      %score = arith.addf %s, %f : f32
      attn.yield %score : f32
    } -> tensor<?x?x?x16xf32>
  return %o : tensor<?x?x?x16xf32>
}

// So has the integer of a float that it cannot hold: the nearest that it can, and 0 of
// NaN. What is between two numbers costs nothing.
// CHECK-LABEL: kernel private @convert_kernel0
// CHECK:         tile.map
// CHECK-DAG:       %[[LESS:.*]] = arith.cmpf olt, %[[X:.*]], %cst{{.*}} : f32
// CHECK-DAG:       %[[MORE:.*]] = arith.cmpf oge, %[[X]], %cst{{.*}} : f32
// CHECK-DAG:       %[[NUMBER:.*]] = arith.cmpf ord, %[[X]], %{{.*}} : f32
// CHECK:           arith.select %[[NUMBER]], %[[X]]
// CHECK:           %[[WHOLE:.*]] = arith.fptosi %{{.*}} : f32 to i8
// CHECK-NEXT:      %[[MOST:.*]] = arith.select %[[MORE]], %c127_i8, %[[WHOLE]] : i8
// CHECK-NEXT:      arith.select %[[LESS]], %c-128_i8, %[[MOST]] : i8
// CHECK:           %[[HELD:.*]] = arith.maxnumf
// CHECK-NEXT:      arith.fptoui %[[HELD]] : f32 to i8
func.func @convert(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
                   %v: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>)
    values(%v : tensor<?x?x?x16xf32>)
    {schedule = #attn.schedule<block_q = 32, rows = 32, block_k = 32>}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %x = arith.fptosi %s : f32 to i8
      %zero = arith.constant 0.0 : f32
      %most = arith.constant 255.0 : f32
      %less = arith.minnumf %s, %most : f32
      %held = arith.maxnumf %less, %zero : f32
      %y = arith.fptoui %held : f32 to i8
      %z = arith.addi %x, %y : i8
      %f = arith.sitofp %z : i8 to f32
      attn.yield %f : f32
    } -> tensor<?x?x?x16xf32>
  return %o : tensor<?x?x?x16xf32>
}
