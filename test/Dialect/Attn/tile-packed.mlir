// RUN: attn-opt %s --attn-pipeline=until-after=tile | FileCheck %s

// No offset, whatever it is, leads out of the tensors: a start is between 0 and
// the rows there are, an end between the start and those.

// CHECK-LABEL: kernel private @packed_kernel0(
// CHECK-SAME:    %[[Q:.*]]: memref<?x?x64xbf16, {{[^%]*}}%{{.*}}: memref<?x?x64xbf16, {{[^%]*}}%{{.*}}: memref<?x?x64xbf16, {{[^%]*}}%[[CU:.*]]: memref<?xi32, {{[^%]*}}%{{.*}}: memref<?xi32
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : index
// A work tile is one of a sequence; blocks pass over those that are not there.
// CHECK:         %[[TOTAL:.*]] = memref.dim %[[Q]], %[[ONE]]
// CHECK:         %[[BATCH:[^,]*]], %{{.*}} = tile.work_tile %{{.*}} in_order section(%{{.*}}) varlen(%[[CU]] : {{.*}}, %[[TOTAL]]) block_q(128) heads(
// What captures have of the rows behind the last sequence is not looked at.
// CHECK:         %[[BEHIND:.*]] = arith.addi %[[BATCH]], %[[ONE]]
// CHECK-NEXT:    %[[NEXT:.*]] = arith.minsi %[[BEHIND]], %[[LASTONE:.*]] : index
// CHECK-NEXT:    %[[REST:.*]] = arith.cmpi eq, %[[BATCH]], %[[LASTONE]] : index
// CHECK:         %[[FIRST:.*]] = arith.index_cast
// CHECK:         %[[LOW:.*]] = arith.maxsi %[[FIRST]], %[[ZERO]]
// CHECK:         %[[START:.*]] = arith.minsi %[[LOW]], %[[TOTAL]]
// CHECK:         memref.load %[[CU]][%[[NEXT]]]
// CHECK:         %[[LAST:.*]] = arith.index_cast
// CHECK:         %[[HIGH:.*]] = arith.maxsi %[[LAST]], %[[START]]
// CHECK:         %[[END:.*]] = arith.minsi %[[HIGH]], %[[TOTAL]]
// These are the rows up to the last one.
// CHECK:         %[[ROWSEND:.*]] = arith.select %[[REST]], %[[TOTAL]], %[[END]]
// CHECK:         arith.subi %[[ROWSEND]], %[[START]]
// CHECK:         %[[MOST:.*]] = arith.minsi %{{.*}}, %c128 : index
// CHECK-NEXT:    arith.maxsi %[[MOST]], %[[ZERO]] : index
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
