// RUN: attn-opt %s --attn-set-target=target=cpu-avx2 --attn-import-prelude --attn-to-aggregate --attn-choose-schedule --attn-share-prefixes=explain=1 --attn-choose-schedule=missing=1 --verify-diagnostics | FileCheck %s
// RUN: attn-opt %s --attn-set-target=target=sm_90a --attn-import-prelude --attn-to-aggregate --attn-choose-schedule --attn-share-prefixes=explain=1 --verify-diagnostics | FileCheck %s --check-prefix=GPU
// RUN: attn-opt %s --attn-set-target=target=sm_90a --attn-import-prelude --attn-to-aggregate --attn-choose-schedule --attn-share-prefixes=explain=1 --attn-choose-schedule=missing=1 --attn-split --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --verify-diagnostics | FileCheck %s --check-prefix=PLAN

// CHECK-LABEL: func.func @decode(
// CHECK-SAME:    %[[Q:.*]]: tensor<?x?x?x64xf16>, %[[K:.*]]: tensor<?x?x16x64xf16>, %[[V:[^:]*]]: tensor<?x?x16x32xf16>, %[[T:[^:]*]]: tensor<?x?xi32>, %[[N:[^:]*]]: tensor<?xi32>
// CHECK:         %[[ROWS:.*]], %[[TABLES:.*]], %[[KEYS:.*]], %[[COUNTS:.*]], %[[STARTS:.*]], %[[PLACES:.*]] = attn.share
// CHECK-SAME:      queries(%[[Q]] : {{[^)]*}}) keys(%[[K]] : {{[^)]*}}) table(%[[T]] : {{[^)]*}}) lengths(%[[N]] : {{[^)]*}}) levels(2) causal
// CHECK-SAME:      -> tensor<?x?x64x64xf16>, tensor<?x?xi32>, tensor<?xi32>, tensor<?xi32>, tensor<?xi32>, tensor<2x?xi32>
// CHECK:         %[[S:.*]]:3 = attn.partial @softmax scores(%[[ROWS]], %[[K]] : {{[^)]*}}) values(%[[V]] : {{[^)]*}})
// CHECK-SAME:      query_source(lengths %[[COUNTS]] : tensor<?xi32>)
// CHECK-SAME:      key_source(paged %[[TABLES]], lengths %[[KEYS]] : tensor<?x?xi32>, tensor<?xi32>)
// CHECK-SAME:      schedule = #attn.schedule<{{.*}}splits = 4
// CHECK-NOT:       mask {
// CHECK:           -> tensor<4x?x?x64xf32>, tensor<4x?x?x64x32xf32>, tensor<4x?x?x64xf32>
// CHECK:         %[[P:.*]]:3 = attn.partial @softmax scores(%[[Q]], %[[K]]
// CHECK-SAME:      key_source(paged %[[T]], lengths %[[N]]
// CHECK:           mask {
// CHECK:           ^bb0({{.*}}, %[[FIRSTS:[^:]*]]: tensor<?xi32>):
// CHECK:             %[[FIRST:.*]] = tensor.extract %[[FIRSTS]]
// CHECK:             %[[OWN:.*]] = arith.cmpi sge, %{{.*}}, %[[FIRST]]
// CHECK:             arith.andi %{{.*}}, %[[OWN]]
// CHECK:         attn.combine @softmax(%[[P]]#0, %[[P]]#1, %[[P]]#2 : {{[^)]*}}) shared(%[[S]]#0, %[[S]]#1, %[[S]]#2 : {{[^)]*}}) at(%[[PLACES]] : tensor<2x?xi32>)
// CHECK:         attn.finalize @softmax

// Parts are counted as the plan runs; they begin where tiles do.
// GPU-LABEL:   func.func @decode(
// GPU:           levels(2) causal -> tensor<?x?x128x64xf16>
// GPU:           attn.partial @softmax {{.*}} parts(%{{.*}} : index) {granule = 128

// Three kernels for each level, and one that gathers rows; then the groups, the own
// keys, and the states, with heads packed or not.
// PLAN-LABEL:  func.func @decode(
// PLAN-COUNT-11:  tile.launch
// PLAN:          return
func.func @decode(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x16x64xf16>,
                  %v: tensor<?x?x16x32xf16>, %t: tensor<?x?xi32>,
                  %n: tensor<?xi32>) -> tensor<?x?x?x32xf16> {
  // expected-remark@+1 {{shared prefixes: 2 levels of equal pages, found as the plan runs}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf16>)
      keys(%k : tensor<?x?x16x64xf16>) values(%v : tensor<?x?x16x32xf16>)
      lengths(%n : tensor<?xi32>) block_table(%t : tensor<?x?xi32>)
      {causal = #attn.causal<bottom_right>, cascade = 2 : i64} -> tensor<?x?x?x32xf16>
  return %o : tensor<?x?x?x32xf16>
}
