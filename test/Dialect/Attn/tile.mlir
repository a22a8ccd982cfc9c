// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-split --attn-relax-maximum --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --tile-expand-stream --canonicalize --cse | FileCheck %s

// The function becomes the plan, its results trailing arguments; no score
// matrix exists beyond one tile.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME:    attributes {tile.plan}
// CHECK:         tile.launch @forward_kernel0
// CHECK-LABEL: tile.kernel private @forward_kernel0(
//              Full tiles: the maximum is held in units of the dot, no map
//              comes between dot and reduction.
// CHECK:         scf.for
// CHECK:           tile.rows 32
// CHECK:             %[[S:.*]] = tile.dot {{.*}} transpose_rhs
// CHECK-NEXT:        tile.reduce ins(%[[S]]
//                  A row far from 0 has a k that is a power of two.
// CHECK:             %[[SIZE:.*]] = math.absf
// CHECK-NEXT:        %[[IS_FAR:.*]] = arith.cmpf ogt, %[[SIZE]],
// CHECK-NEXT:        %[[K:.*]] = arith.select %[[IS_FAR]],
// CHECK:             math.exp2
// CHECK-NEXT:        tile.yield {{.*}}, %[[K]] :
// CHECK-NOT:         tile.any
// CHECK:             %[[P:.*]] = tile.map ins(%[[S]], %{{.*}}#2, %{{.*}}#3
// CHECK:               math.fma
// CHECK-NEXT:          math.exp2
// CHECK:             tile.reduce ins(%[[P]]
// CHECK:             tile.dot %[[P]], %{{.*}} acc %{{.*}} scale
//              The last, ragged tile is masked by its number of keys.
// CHECK:         scf.for
// CHECK:             arith.cmpi slt
// CHECK:         tile.store
// CHECK:         tile.store vector
func.func @forward(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o, %lse = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 256, rows = 32, block_k = 128>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}

// A causal window: the mask's expression gives the keys to walk over and those
// that need no mask. The head of the walk is masked, then the core, the tail.
// CHECK-LABEL: kernel private @window_kernel0(
// CHECK:         arith.minsi
// CHECK:         scf.for
// CHECK:           tile.rows
//                    Row blocks that the tile is dead for are left out.
// CHECK:             scf.if
// CHECK:               arith.cmpi slt
// CHECK:               arith.select
// CHECK:         scf.for
// CHECK:           tile.rows
// CHECK-NEXT:          ^bb0
// CHECK-NEXT:          tile.dot
// CHECK-NEXT:          tile.reduce
// CHECK:         scf.for
// CHECK:           tile.rows
// CHECK:             scf.if
// CHECK:         return
func.func @window(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>, %left: i32) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      window_left(%left)
      {causal = #attn.causal<bottom_right>,
       schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// A mask from memory: tiles without a live element are skipped once they are
// seen, and a value that no row may see is not read.
// CHECK-LABEL: kernel private @boolean_kernel0(
// CHECK:         scf.for
// CHECK:           %[[ELEMENTS:.*]] = tile.map
// CHECK:             memref.load %{{.*}} : memref<?x1x?x?xi8
// CHECK:           %[[LIVE:.*]] = tile.reduce rows ins(%[[ELEMENTS]]
// CHECK:           %[[ANY:.*]] = tile.any %[[LIVE]]
// CHECK:           scf.if %[[ANY]]
// CHECK:             tile.load {{.*}} live %[[LIVE]]
func.func @boolean(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>, %mask: tensor<?x1x?x?xi1>)
    -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      mask_tensor(%mask : tensor<?x1x?x?xi1>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// Without statistics there is one map between the two products.
// CHECK-LABEL: kernel private @sum_kernel0(
// CHECK:         %[[S:.*]] = tile.dot {{.*}} transpose_rhs
// CHECK-NEXT:    %[[P:.*]] = tile.map ins(%[[S]]
// CHECK-NOT:     tile.reduce
// CHECK:         tile.dot %[[P]], %{{.*}} acc %{{[^ ]*}} :
func.func @sum(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
               %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention monoid(@sigmoid_sum) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// A suffix monoid: weights are gated by an exclusive scan from the last key,
// the old sums by the whole tile.
// CHECK-LABEL: kernel private @suffix_kernel0(
// CHECK:         %[[C:.*]]:2 = tile.map
// CHECK:         tile.reduce ins(%[[C]]#0
// CHECK:         tile.scan reverse ins(%[[C]]#0
// CHECK:         math.exp %{{.*}} {tile.least_power = -116 : i32} : f32
// CHECK:         math.exp %{{.*}} {tile.least_power = -116 : i32} : f32
// CHECK:         tile.dot %{{.*}}, %{{.*}} acc %{{.*}} scale
func.func @suffix(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention monoid(@stick_breaking) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// A general monoid takes the element path.
// CHECK-LABEL: kernel private @general_kernel0(
// CHECK:         tile.fold
func.func @general(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention monoid(@maxplus) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// A NaN dot does not show where -inf is added to it: no values are multiplied
// here that would tell of it, so the term is selected.
// CHECK-LABEL: kernel private @hidden_kernel0(
// CHECK:           %[[TERM:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK:           %[[DEAD:.*]] = arith.cmpf oeq, %[[TERM]], %{{.*}} : f32
// CHECK:           %[[SUM:.*]] = arith.addf %{{.*}}, %[[TERM]] : f32
// CHECK:           arith.select %[[DEAD]], %[[TERM]], %[[SUM]] : f32
func.func @hidden(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>)
    -> tensor<?x?x?xf32> {
  %o = attn.attention monoid(@logsumexp) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %inf = arith.constant 0xFF800000 : f32
      %zero = arith.constant 0.0 : f32
      %two = arith.constant 2 : i32
      %live = arith.cmpi sge, %j, %two : i32
      %term = arith.select %live, %zero, %inf : f32
      %sum = arith.addf %s, %term : f32
      attn.yield %sum : f32
    }
      -> tensor<?x?x?xf32>
  return %o : tensor<?x?x?xf32>
}

// Parts go through workspace; the finalize's kernel multiplies them in order.
// CHECK-LABEL: func.func @split(
// CHECK-COUNT-3: tile.workspace
// CHECK:         tile.launch @split_kernel0
// CHECK:         tile.launch @split_kernel1
// CHECK-NOT:     tile.launch
// CHECK-LABEL: kernel private @split_kernel1(
// CHECK:         scf.for
// CHECK:           tile.load vector
// CHECK:           tile.map
// CHECK:         tile.store
func.func @split(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, splits = 3>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// The module has a function of the first kernel's name.
// CHECK-LABEL: func.func @taken(
// CHECK: tile.launch @taken_kernel1
// CHECK: kernel private @taken_kernel1
// CHECK: func.func private @taken_kernel0()
func.func @taken(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
func.func private @taken_kernel0() {
  return
}
