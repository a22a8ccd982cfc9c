// RUN: attn-opt %s --verify-roundtrip -o %t
// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize | FileCheck %s --check-prefix=AGGREGATE
// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize --attn-set-target="target=cpu-avx2" --attn-choose-schedule --attn-fold-bases --attn-split --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --canonicalize --cse | FileCheck %s --check-prefix=TILE
// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize --attn-fold-bases | FileCheck %s --check-prefix=FOLD

// Keys are at k_start + j and queries behind them: the last one is where the last
// key is. What turns is not in the score.
// AGGREGATE-LABEL: func.func @rotary(
// AGGREGATE:         attn.aggregate @softmax
// AGGREGATE-SAME:      rotary = #attn.rotary<32, halves>
// AGGREGATE:         score {
// AGGREGATE-NOT:       tensor.extract
// AGGREGATE:         finalize {
// AGGREGATE:         rotate_queries {
// AGGREGATE-NEXT:    ^bb0(%[[X:[^:]*]]: f32, %[[Y:[^:]*]]: f32, %[[B:[^:]*]]: i32, %[[H:[^:]*]]: i32, %[[I:[^:]*]]: i32, %[[C:[^:]*]]: i32,
// AGGREGATE:           %[[OFFSET:.*]] = arith.subi
// AGGREGATE:           %[[AT:.*]] = arith.addi %[[I]], %[[OFFSET]]
// AGGREGATE:           tensor.extract %{{.*}} : tensor<?xi32>
// AGGREGATE:           arith.addi %[[AT]]
// AGGREGATE:         rotate_keys {
// AGGREGATE-NEXT:    ^bb0(%{{[^:]*}}: f32, %{{[^:]*}}: f32, %{{[^:]*}}: i32, %{{[^:]*}}: i32, %[[J:[^:]*]]: i32,
// AGGREGATE-NOT:       arith.subi
// AGGREGATE:           %[[START:.*]] = tensor.extract %{{.*}} : tensor<?xi32>
// AGGREGATE:           arith.addi %[[J]], %[[START]]

// Both channels of a pair are a tile each, and the others one more; three products
// go into the same scores. Queries turn before the keys are visited.
// TILE-LABEL: tile.kernel private @rotary_kernel0
// TILE:         %[[Q0:.*]] = tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c0]
// TILE:         %[[Q1:.*]] = tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c16]
// TILE:         tile.map ins(%[[Q0]], %[[Q1]] :
// TILE:         tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c32]
// TILE:         tile.stream
// TILE:           %[[K0:.*]] = tile.load
// TILE:           %[[K1:.*]] = tile.load
// TILE:           %[[K:.*]]:2 = tile.map ins(%[[K0]], %[[K1]] :
// TILE:           %[[REST:.*]] = tile.load
// TILE:           tile.rows
// TILE:             %[[S0:.*]] = tile.dot %{{.*}}, %[[K]]#0 transpose_rhs
// TILE:             %[[S1:.*]] = tile.dot %{{.*}}, %[[K]]#1 acc %[[S0]] transpose_rhs
// TILE:             tile.dot %{{.*}}, %[[REST]] acc %[[S1]] transpose_rhs
func.func @rotary(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>, %start: tensor<?xi32>,
                  %cos: tensor<?x16xf32>, %sin: tensor<?x16xf32>)
    -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      k_start(%start : tensor<?xi32>)
      tables(%cos, %sin : tensor<?x16xf32>, tensor<?x16xf32>)
      {rotary = #attn.rotary<32, halves>}
    rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32,
         %cosines: tensor<?x16xf32>, %sines: tensor<?x16xf32>):
      %row = arith.index_cast %n : i32 to index
      %column = arith.index_cast %c : i32 to index
      %u = tensor.extract %cosines[%row, %column] : tensor<?x16xf32>
      %w = tensor.extract %sines[%row, %column] : tensor<?x16xf32>
      %xu = arith.mulf %x, %u : f32
      %yw = arith.mulf %y, %w : f32
      %yu = arith.mulf %y, %u : f32
      %xw = arith.mulf %x, %w : f32
      %first = arith.subf %xu, %yw : f32
      %second = arith.addf %yu, %xw : f32
      attn.yield %first, %second : f32, f32
    } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// By slot, positions are places; interleaved pairs are in tiles a channel apart.
// AGGREGATE-LABEL: func.func @by_slot(
// AGGREGATE:         rotate_keys {
// AGGREGATE-NEXT:    ^bb0(%{{[^:]*}}: f32, %[[Y:[^:]*]]: f32, %{{[^:]*}}: i32, %{{[^:]*}}: i32, %[[J:[^:]*]]: i32,
// AGGREGATE-NEXT:      arith.sitofp %[[J]] : i32 to f32
// TILE-LABEL: tile.kernel private @by_slot_kernel0
// TILE:         tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c0]
// TILE:         tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c1]
func.func @by_slot(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>, %start: tensor<?xi32>)
    -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      k_start(%start : tensor<?xi32>)
      {rotary = #attn.rotary<64, interleaved>, rotate_by_slot, rolling}
    rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      %f = arith.sitofp %n : i32 to f32
      %z = arith.mulf %y, %f : f32
      attn.yield %x, %z : f32, f32
    } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// Bases of rows count for queries alone, and those of keys for keys.
// FOLD-LABEL: func.func @bases(
// FOLD:         rotate_queries {
// FOLD-NEXT:    ^bb0(%{{[^:]*}}: f32, %{{[^:]*}}: f32, %{{[^:]*}}: i32, %{{[^:]*}}: i32, %[[I:[^:]*]]: i32, %{{[^:]*}}: i32, %[[ROW:[^:]*]]: i32, %{{[^:]*}}: i32):
// FOLD-NEXT:      arith.addi %[[I]], %[[ROW]]
// FOLD:         rotate_keys {
// FOLD-NEXT:    ^bb0(%{{[^:]*}}: f32, %{{[^:]*}}: f32, %{{[^:]*}}: i32, %{{[^:]*}}: i32, %[[J:[^:]*]]: i32, %{{[^:]*}}: i32, %{{[^:]*}}: i32, %[[KEY:[^:]*]]: i32):
// FOLD-NEXT:      arith.addi %[[J]], %[[KEY]]
func.func @bases(%q: tensor<?x?x?x64xf32>, %row: i32, %key: i32)
    -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @softmax scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) row_base(%row : i32) key_base(%key : i32)
      {rotary = #attn.rotary<8, halves>}
    rotate_queries {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      %f = arith.sitofp %n : i32 to f32
      attn.yield %y, %f : f32, f32
    }
    rotate_keys {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      %f = arith.sitofp %n : i32 to f32
      attn.yield %f, %x : f32, f32
    } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
