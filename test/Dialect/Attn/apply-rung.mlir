// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize --attn-drop-dead-components --attn-apply-rung --split-input-file | FileCheck %s

// The first traversal is of the statistic alone, the second of sums that are
// measured from it: a monoid without statistics.
// CHECK-LABEL: module {
// CHECK:       attn.monoid private @softmax_sums cocycle stats() components(value, unit)
// CHECK:       attn.monoid private @softmax_statistics cocycle stats(f32) components(unit) outputs("c0")
// CHECK-LABEL: func.func @safe(
// CHECK:         %[[C:.*]] = attn.aggregate @softmax_statistics
// CHECK-NOT:       values
// CHECK:           mask {
// CHECK:           -> tensor<?x?x?xf32>
// CHECK:         %[[O:.*]] = attn.aggregate @softmax_sums
// CHECK-SAME:      values(
// CHECK-SAME:      captures({{.*}}%[[C]]
// CHECK:           score {
// CHECK:             tensor.extract
// CHECK:             math.exp
// CHECK:           mask {
// CHECK:           finalize {
// CHECK:         return %[[O]]
func.func @safe(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {causal = #attn.causal<top_left>, attn.rung = #attn.rung<safe>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

// The scores are in memory; both traversals read them, and compute no dot.
// CHECK-LABEL: func.func @naive(
// CHECK:         %[[S:.*]] = attn.scores @softmax
// CHECK:           score {
// CHECK:           mask {
// CHECK:           -> tensor<?x?x?x?xf32>
// CHECK:         %[[C:.*]] = attn.aggregate @softmax_statistics
// CHECK-SAME:      captures(%[[S]]
// CHECK:           score {
// CHECK-NEXT:      ^bb0(%[[DOT:[^:]*]]: f32,
// CHECK-NOT:         %[[DOT]]
// CHECK:             %[[X:.*]] = tensor.extract
// CHECK:             attn.yield %[[X]]
// CHECK:         attn.aggregate @softmax_sums
// CHECK-SAME:      captures(%[[S]], %[[C]]
func.func @naive(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {causal = #attn.causal<top_left>, attn.rung = #attn.rung<naive>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

// Weights from one point, and a count of the keys that it sees.
// CHECK:       attn.monoid private @softmax_sums cocycle stats() components(value, unit, unit)
// CHECK-LABEL: func.func @lazy(
// CHECK-NOT:     attn.aggregate @softmax_statistics
// CHECK:         attn.aggregate @softmax_sums
// CHECK:           math.exp
// CHECK:           finalize {
// CHECK:             arith.divf
func.func @lazy(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {attn.rung = #attn.rung<lazy>} -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

// The states of tiles of ceil(M / 4d) keys are in memory: of 1 MiB of f32, which
// are on chip, and 64 channels.
// CHECK-LABEL: func.func @fa1(
// CHECK:         arith.ceildivui
// CHECK:         attn.partial @softmax
// CHECK-SAME:      attn.rung = #attn.rung<fa1>
// CHECK-SAME:      granule = 1024 : i64
// CHECK:         attn.combine
// CHECK:         attn.finalize
module attributes {attn.target = "cpu-generic"} {
  func.func @fa1(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
    %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
        keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
        {attn.rung = #attn.rung<fa1>} -> tensor<?x?x?x64xf32>
    return %o : tensor<?x?x?x64xf32>
  }
}

// -----

// Without statistics there is nothing to find first.
// CHECK-LABEL: func.func @sums(
// CHECK:         attn.aggregate @sigmoid_sum
// CHECK-NOT:     attn.aggregate
func.func @sums(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention monoid(@sigmoid_sum) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {attn.rung = #attn.rung<safe>} -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
