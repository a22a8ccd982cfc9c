// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize | FileCheck %s

// score = slope-biased bias + f(cap * tanh((scale / cap) * s)): the named options
// in the order that the semantics give them.
// CHECK-LABEL: func.func @scores(
// CHECK:         attn.aggregate @softmax
// CHECK:         score {
// CHECK-NEXT:    ^bb0(%[[S:.*]]: f32, %{{.*}}: i32, %[[H:.*]]: i32, %[[I:.*]]: i32, %[[J:.*]]: i32
// CHECK:           %[[SCALE:.*]] = arith.constant 1.250000e-01 : f32
// An infinite cap is one that changes nothing, and the quotient is finite.
// CHECK:           %[[CAP:.*]] = arith.minimumf %{{.*}}, %{{.*}} : f32
// CHECK:           %[[Q:.*]] = arith.divf %[[SCALE]], %[[CAP]] : f32
// CHECK:           %[[BELOW:.*]] = arith.minimumf %[[Q]]
// CHECK:           %[[F:.*]] = arith.maximumf %[[BELOW]]
// CHECK:           %[[R:.*]] = arith.mulf %[[S]], %[[F]] : f32
// CHECK:           %[[T:.*]] = math.tanh %[[R]]
// CHECK:           %[[C:.*]] = arith.mulf %[[CAP]], %[[T]]
// CHECK:           %[[N:.*]] = arith.negf %[[C]]
// CHECK:           tensor.extract %{{.*}}[%c0, %{{.*}}] : tensor<1x?x?x?xbf16>
// CHECK:           %[[BIAS:.*]] = arith.extf
//                  A bias of -inf is a mask, also of a NaN.
// CHECK:           %[[DEAD:.*]] = arith.cmpf oeq, %[[BIAS]]
// CHECK:           %[[SUM:.*]] = arith.addf %[[N]], %[[BIAS]]
// CHECK:           %[[B:.*]] = arith.select %[[DEAD]], %[[BIAS]], %[[SUM]]
// CHECK:           math.absi
// CHECK:           %[[P:.*]] = arith.mulf
// CHECK:           arith.subf %[[B]], %[[P]]
// CHECK-NOT:     mask {
func.func @scores(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>, %cap: f32,
                  %bias: tensor<1x?x?x?xbf16>, %slopes: tensor<?xf32>)
    -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      softcap(%cap) bias(%bias : tensor<1x?x?x?xbf16>)
      alibi(%slopes : tensor<?xf32>)
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %x = arith.negf %s : f32
        attn.yield %x : f32
      } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// The aligned diagonal of row i is i + len - sq, with the batch's own length;
// a window compares distances, so that no size of it overflows.
// CHECK-LABEL: func.func @masks(
// CHECK:         key_source(lengths %[[LENGTHS:.*]] : tensor<?xi32>)
// CHECK:         mask {
// CHECK:           %[[LEN:.*]] = tensor.extract
// CHECK:           %[[OFFSET:.*]] = arith.subi %[[LEN]]
// CHECK:           %[[NOW:.*]] = arith.addi %{{.*}}, %[[OFFSET]]
// CHECK:           %[[PAST:.*]] = arith.cmpi sle, %[[J:.*]], %[[NOW]]
// CHECK:           %[[AGE:.*]] = arith.subi %[[NOW]], %[[J]]
// CHECK:           %[[NEAR:.*]] = arith.cmpi sle, %[[AGE]], %[[LEFT:.*]] : i32
// CHECK:           %[[UNBOUNDED:.*]] = arith.cmpi slt, %[[LEFT]], %c0
// CHECK:           arith.ori %[[UNBOUNDED]], %[[NEAR]]
// CHECK:           tensor.extract %{{.*}} : tensor<?x1x?x?xi8>
// CHECK:           arith.cmpi ne
// CHECK:           arith.andi
func.func @masks(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>, %lengths: tensor<?xi32>, %left: i32,
                 %mask: tensor<?x1x?x?xi8>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      mask_tensor(%mask : tensor<?x1x?x?xi8>)
      lengths(%lengths : tensor<?xi32>) window_left(%left)
      {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// Constants of the function are copied into the region, not captured.
// CHECK-LABEL: func.func @constant_window(
// CHECK:         mask {
// CHECK:           arith.constant 128 : i32
// CHECK-NOT:       arith.ori
// CHECK:           attn.yield
func.func @constant_window(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                           %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %left = arith.constant 128 : i32
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      window_left(%left) {causal = #attn.causal<top_left>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// A sink is the state of a key without a value, one of -inf the identity;
// results that nothing reads are not computed.
// CHECK-LABEL: func.func @sinks(
// CHECK:         attn.aggregate @softmax
// CHECK:         init {
// CHECK:           %[[SINK:.*]] = tensor.extract
// CHECK:           %[[DEAD:.*]] = arith.cmpf oeq, %[[SINK]], %{{.*}} : f32
// CHECK:           %[[C:.*]] = arith.select %[[DEAD]], %{{.*}}, %[[SINK]] : f32
// CHECK:           %[[W:.*]] = arith.select %[[DEAD]], %cst{{.*}}, %cst{{.*}} : f32
// CHECK:           attn.yield %[[C]], %cst{{.*}}, %[[W]] : f32, f32, f32
// CHECK:         finalize {
// CHECK:           math.log
// CHECK-NOT:       arith.divf
// CHECK:         } -> tensor<?x?x?xf32>
func.func @sinks(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>, %sinks: tensor<?xf32>)
    -> tensor<?x?x?xf32> {
  %o, %lse = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      sinks(%sinks : tensor<?xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %lse : tensor<?x?x?xf32>
}

// Packed sequences: lengths are differences of row offsets.
// CHECK-LABEL: func.func @packed(
// CHECK:         query_source(varlen %{{.*}} : tensor<?xi32>) key_source(varlen %{{.*}} : tensor<?xi32>)
// CHECK:         mask {
// CHECK-COUNT-4:   tensor.extract
func.func @packed(%q: tensor<?x?x64xf32>, %k: tensor<?x?x64xf32>,
                  %v: tensor<?x?x64xf32>, %cu_q: tensor<?xi32>,
                  %cu_k: tensor<?xi32>) -> tensor<?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x64xf32>)
      keys(%k : tensor<?x?x64xf32>) values(%v : tensor<?x?x64xf32>)
      cu_seqlens_q(%cu_q : tensor<?xi32>) cu_seqlens_k(%cu_k : tensor<?xi32>)
      {causal = #attn.causal<bottom_right>} -> tensor<?x?x64xf32>
  return %o : tensor<?x?x64xf32>
}

// CHECK-LABEL: func.func @precision(
// CHECK:         attn.aggregate @softmax {{.*}}precision = #attn.precision<tf32>
func.func @precision(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                     %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {precision = #attn.precision<tf32>} -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// Pages: the tensors of k and v tell no number of keys, the table does. What
// regions see is the position of a key; diagonals from the last key on do not
// need it.
// CHECK-LABEL: func.func @pages(
// CHECK:         key_source(paged %{{.*}} : tensor<?x?xi32>)
// CHECK:         score {
// CHECK:         ^bb0(%{{[^:]*}}: f32, %[[B:[^:]*]]: i32, %{{[^:]*}}: i32, %{{[^:]*}}: i32, %[[J:[^:]*]]: i32,
// CHECK:           %[[AT:.*]] = arith.index_cast %[[B]]
// CHECK:           %[[START:.*]] = tensor.extract %{{.*}}[%[[AT]]]
// CHECK:           %[[POSITION:.*]] = arith.addi %[[J]], %[[START]]
// CHECK:           arith.sitofp %[[POSITION]]
// CHECK:         mask {
// CHECK-NOT:       tensor.extract
// CHECK:         }
func.func @pages(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x16x64xf32>,
                 %v: tensor<?x?x16x64xf32>, %table: tensor<?x?xi32>,
                 %start: tensor<?xi32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x16x64xf32>) values(%v : tensor<?x?x16x64xf32>)
      block_table(%table : tensor<?x?xi32>) k_start(%start : tensor<?xi32>)
      {causal = #attn.causal<bottom_right>}
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %x = arith.sitofp %j : i32 to f32
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// A diagonal that starts with the first query sees positions.
// CHECK-LABEL: func.func @rolling(
// CHECK:         key_source(ring %[[START:.*]], lengths %{{.*}} : tensor<?xi32>, tensor<?xi32>)
// CHECK:         mask {
// CHECK:         ^bb0(%{{[^:]*}}: i32, %{{[^:]*}}: i32, %[[I:[^:]*]]: i32, %[[J:[^:]*]]: i32,
// CHECK:           %[[FIRST:.*]] = tensor.extract
// CHECK:           %[[POSITION:.*]] = arith.addi %[[J]], %[[FIRST]]
// CHECK:           arith.cmpi sle, %[[POSITION]], %[[I]]
func.func @rolling(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>, %n: tensor<?xi32>,
                   %start: tensor<?xi32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      lengths(%n : tensor<?xi32>) k_start(%start : tensor<?xi32>)
      {rolling, causal = #attn.causal<top_left>} -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
