// RUN: attn-opt %s --attn-pipeline=until-after=tile | FileCheck %s

// Queries, keys and results are sources: loads, stores and extents speak of the
// sequence that a tile finds, and of positions in it. Rows behind the last
// sequence are those of one more.

// CHECK-LABEL: kernel private @packed_kernel0(
// CHECK-SAME:    %[[Q:[^:, ]*]]: memref<?x?x64xbf16, {{[^%]*}}%[[K:[^:, ]*]]: memref<?x?x64xbf16, {{[^%]*}}%{{[^:, ]*}}: memref<?x?x64xbf16, {{[^%]*}}%[[CU:[^:, ]*]]: memref<?xi32, {{[^%]*}}%[[CUK:[^:, ]*]]: memref<?xi32, {{[^%]*}}%[[O:[^:, ]*]]: memref<
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : index
// A work tile is one of a sequence; blocks pass over those that are not there.
// CHECK:         %[[TOTAL:.*]] = memref.dim %[[Q]], %[[ONE]]
// CHECK:         %[[BATCH:[^,]*]], %{{.*}} = tile.work_tile %{{.*}} in_order section(%{{.*}}) varlen(%[[CU]] : {{.*}}, %[[TOTAL]]) block_q(128) heads(
// CHECK:         %[[ROWS:.*]] = tile.source %[[Q]] varlen(%[[CU]] : {{.*}}) rest
// CHECK-NEXT:    %[[SQ:.*]] = tile.extent %[[ROWS]][%[[BATCH]]]
// CHECK-NEXT:    %[[KEYS:.*]] = tile.source %[[K]] varlen(%[[CUK]] : {{[^)]*}}) :
// CHECK-NEXT:    %[[SK:.*]] = tile.extent %[[KEYS]][%[[BATCH]]]
// CHECK:         %[[LEFT:.*]] = arith.subi %[[SQ]]
// CHECK-NEXT:    %[[MOST:.*]] = arith.minsi %[[LEFT]], %c128 : index
// CHECK-NEXT:    %[[LIVE:.*]] = arith.maxsi %[[MOST]], %[[ZERO]] : index
// CHECK:         %[[RESULTS:.*]] = tile.source %[[O]] varlen(%[[CU]] : {{.*}}) rest
// CHECK:         tile.load %[[ROWS]][%[[BATCH]],
// CHECK:         tile.load %[[KEYS]][%[[BATCH]],
// CHECK:         tile.store %{{.*}}, %[[RESULTS]][%[[BATCH]],
module attributes {attn.target = "sm_80"} {
func.func @packed(%q: tensor<?x?x64xbf16>, %k: tensor<?x?x64xbf16>,
                  %v: tensor<?x?x64xbf16>, %cu_q: tensor<?xi32>,
                  %cu_k: tensor<?xi32>) -> tensor<?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x64xbf16>)
      keys(%k : tensor<?x?x64xbf16>) values(%v : tensor<?x?x64xbf16>)
      cu_seqlens_q(%cu_q : tensor<?xi32>) cu_seqlens_k(%cu_k : tensor<?xi32>)
      -> tensor<?x?x64xbf16>
  return %o : tensor<?x?x64xbf16>
}
}
