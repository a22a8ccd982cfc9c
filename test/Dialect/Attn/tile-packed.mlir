// RUN: attn-opt %s --attn-pipeline=until-after=tile | FileCheck %s

// No offset, whatever it is, leads out of the tensors: a start is between 0 and
// the rows there are, an end between the start and those.

// CHECK-LABEL: kernel private @packed_kernel0(
// CHECK-SAME:    %[[Q:.*]]: memref<?x?x64xbf16, {{[^%]*}}%{{.*}}: memref<?x?x64xbf16, {{[^%]*}}%{{.*}}: memref<?x?x64xbf16, {{[^%]*}}%[[CU:.*]]: memref<?xi32, {{[^%]*}}%{{.*}}: memref<?xi32
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : index
// A tile finds its sequence by the bits of its number.
// CHECK:         %[[SEQUENCE:.*]] = scf.for
// CHECK:           %[[PROBE:.*]] = memref.load %[[CU]]
// CHECK:           arith.maxsi %[[PROBE]]
// CHECK:           arith.divui
// CHECK:           scf.yield
// CHECK:         %[[BATCH:.*]] = arith.index_cast %[[SEQUENCE]]
// What captures have of the rows behind the last sequence is not looked at.
// CHECK:         %[[BEHIND:.*]] = arith.addi %[[BATCH]], %[[ONE]]
// CHECK-NEXT:    %[[NEXT:.*]] = arith.minsi %[[BEHIND]], %[[LASTONE:.*]] : index
// CHECK-NEXT:    %[[REST:.*]] = arith.cmpi eq, %[[BATCH]], %[[LASTONE]] : index
// CHECK:         %[[TOTAL:.*]] = memref.dim %[[Q]], %[[ONE]]
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
// A tile without rows has nothing to do.
// CHECK:         %[[MOST:.*]] = arith.minsi %{{.*}}, %c128 : index
// CHECK-NEXT:    %[[ROWS:.*]] = arith.maxsi %[[MOST]], %[[ZERO]] : index
// CHECK-NEXT:    %[[NONE:.*]] = arith.cmpi sle, %[[ROWS]], %[[ZERO]] : index
// CHECK-NEXT:    tile.skip %[[NONE]]
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
