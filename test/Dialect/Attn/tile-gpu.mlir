// RUN: attn-opt %s --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-relax-maximum --attn-fix-anchor --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --tile-expand-stream --canonicalize --cse | FileCheck %s

// On a GPU with products of whole warpgroups the first key tile stands alone,
// in the form that is right for any tile, but for the mask itself where all of
// the tile is live; full tiles are loaded without bounds; no row block is
// skipped alone.

// CHECK: module attributes {attn.target = "sm_90a"}
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: tile.kernel private @causal_kernel0
// CHECK-DAG: %[[LIMIT:.*]] = arith.constant 1.07374182E+9 : f32
// CHECK-DAG: %[[LEAST:.*]] = arith.constant -1.07374182E+9 : f32
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-DAG: %[[NOTHING:.*]] = arith.constant -0.000000e+00 : f32
// CHECK: tile.load %{{.*}} rows(%{{.*}} to %{{.*}}) : memref<?x?x?x128xf16, {{.*}} -> <128x128xf16>
// CHECK: scf.if
// CHECK: tile.load %{{.*}} rows(
// CHECK: tile.rows 64
// CHECK: %[[S:.*]] = tile.dot
// CHECK: scf.if %{{.*}} -> (!tile.tile<64x128xf32>) {
// CHECK-NEXT: scf.yield %[[S]]
// CHECK-NEXT: } else {
// CHECK: arith.select
// CHECK: tile.reduce
// Rows that are far from 0, beyond 2^27 / 2^-3 for f16 and this scale, have no
// anchor of their own here.
// CHECK: %[[NEAR:.*]] = arith.cmpf ogt, %{{.*}}, %[[LEAST]] : f32
// CHECK: arith.select %[[NEAR]], %{{.*}}, %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: scf.for
// CHECK-NOT: rows(%
// CHECK: tile.rows 64
// CHECK: scf.for
// CHECK: tile.load %{{.*}} rows(
// They are done again, key by key, by a warp that has one.
// CHECK: %[[SIZE:.*]] = math.absf
// CHECK: arith.cmpf oge, %[[SIZE]], %[[LIMIT]] : f32
// CHECK: %[[ANY:.*]] = tile.any %{{.*}} by_rows : <128x1xi1>
// CHECK: scf.if %[[ANY]]
// CHECK: scf.for
// CHECK: tile.map
// CHECK: scf.if
// CHECK: scf.for
// CHECK: tile.element
// CHECK: tile.element
// CHECK: math.fma
// The sums of other rows stay as they are: 1 times them and -0. All columns of
// the tile are there.
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[ONE]] : f32
// CHECK: tile.map
// CHECK-NOT: arith.minsi
// CHECK: tile.element
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[NOTHING]] : f32
// CHECK-NEXT: math.fma
// CHECK-NEXT: tile.yield
func.func @causal(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x128xf16>) -> tensor<?x?x?x128xf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x128xf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}

// Keys of a window are an interval of each row, found once for the row.
// CHECK-LABEL: kernel private @window_kernel0
// CHECK: tile.map ins(%{{.*}} : !tile.tile<64x128xf32>) {
// CHECK: ^bb0(%{{.*}}: i32, %[[COL:.*]]: i32, %{{.*}}: f32):
// CHECK: arith.cmpi slt, %[[COL]], %{{.*}} : i32
// CHECK: arith.cmpi sge, %[[COL]], %{{.*}} : i32
// CHECK: arith.andi
// CHECK-NEXT: arith.select
func.func @window(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x128xf16>, %w: i32) -> tensor<?x?x?x128xf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x128xf16>) window_left(%w) {causal = #attn.causal<bottom_right>}
      -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}

// Where the mask's integers may wrap, a second walk evaluates it.
// CHECK-LABEL: kernel private @wraps_kernel0
// CHECK: scf.if
// CHECK: } else {
// CHECK: tile.rows 64
func.func @wraps(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x128xf16>, %w: i32) -> tensor<?x?x?x128xf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x128xf16>) captures(%w : i32) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %n: i32):
        %last = arith.addi %i, %n : i32
        %live = arith.cmpi sle, %j, %last : i32
        attn.yield %live : i1
      } -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}

// A factor of the score is the unit of its maximum; its sign goes to where it
// costs nothing for each element.
// CHECK-LABEL: kernel private @softcap_kernel0
// CHECK: %[[SIGN:.*]] = math.copysign
// CHECK: %[[F:.*]] = arith.mulf %{{.*}}, %[[SIGN]]
// CHECK: %[[R:.*]] = arith.mulf %{{.*}}, %[[F]]
// CHECK-NEXT: %[[T:.*]] = math.tanh %[[R]] fastmath<afn>
// CHECK-NOT: arith.mulf %[[T]]
// CHECK: tile.yield
func.func @softcap(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x128xf16>, %c: f32) -> tensor<?x?x?x128xf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x128xf16>) softcap(%c) -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}

// Scores between -c and c need no maximum where exp(c) is a number to multiply
// with: of two kernels one gets blocks. Weights of 16 bits have no room for that
// in f16.
// CHECK-NOT: @softcap_kernel1
// CHECK-LABEL: func.func @capped
// CHECK: %[[SIZE:.*]] = math.absf %{{.*}} : f32
// CHECK: %[[SMALL:.*]] = arith.cmpf ole, %[[SIZE]], %{{.*}} : f32
// CHECK: %[[FIXED:.*]] = arith.select %[[SMALL]], %[[GRID:.*]], %c0
// CHECK: tile.launch @capped_kernel1 grid(%[[FIXED]])
// CHECK: %[[OTHER:.*]] = arith.select %[[SMALL]], %c0, %[[GRID]]
// CHECK: tile.launch @capped_kernel0 grid(%[[OTHER]])
// CHECK-LABEL: kernel private @capped_kernel0
// CHECK: scf.for
// CHECK: tile.reduce
// CHECK: arith.cmpf ogt
// CHECK: tile.dot {{.*}} scale
// CHECK-LABEL: kernel private @capped_kernel1
// CHECK: scf.for
// CHECK-NOT: arith.cmpf ogt
// CHECK: %[[T:.*]] = math.tanh %{{.*}} fastmath<afn>
// CHECK: %[[E:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: math.exp2 %[[E]] fastmath<afn>
// CHECK-NOT: arith.cmpf ogt
// CHECK: tile.dot %{{[^ ]*}}, %{{[^ ]*}} acc %{{[^ ]*}} :
func.func @capped(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %c: f32) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) softcap(%c) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// 120 keys are padded to 128 columns, of which the last are the next tile's: the
// first tile keeps its mask.
// CHECK-LABEL: kernel private @padded_kernel0
// CHECK: tile.rows 64
// CHECK: tile.dot
// CHECK-NEXT: tile.map
// CHECK: arith.select
// CHECK: tile.reduce
func.func @padded(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x128xf16>) -> tensor<?x?x?x128xf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x128xf16>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 120, loop = peeled>}
      -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}

// An output that shows the reference point needs the maximum: one kernel. The
// sums of others do not: dead rows of the second kernel get none back.
// CHECK-LABEL: func.func @capped_max(
// CHECK-COUNT-1: tile.launch
// CHECK-NOT: tile.launch
// CHECK: return
// CHECK-LABEL: func.func @capped_lse(
// CHECK-COUNT-2: tile.launch
// CHECK-LABEL: kernel private @capped_lse_kernel1
// CHECK: scf.if
// CHECK: arith.cmpf oeq, %[[SUM:.*]], %[[ZERO:.*]] : f32
// CHECK-NEXT: arith.select %{{.*}}, %{{.*}}, %[[ZERO]] : f32
// CHECK: tile.store
func.func @capped_max(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %c: f32) -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  %o:3 = attn.attention monoid(@softmax_max) queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) softcap(%c)
      -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1, %o#2 : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
}
func.func @capped_lse(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %c: f32) -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
  %o:2 = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) softcap(%c)
      -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %o#0, %o#1 : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
}

// Items without a mask are drawn late, by a warp of their own; those of a causal
// mask by the one that copies.
// CHECK-LABEL: tile.kernel private @dense_kernel0
// CHECK-SAME: fetch = late
func.func @dense(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x128xf16>) -> tensor<?x?x?x128xf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x128xf16>) -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}

// Values of more channels than a warpgroup has registers for: neighbouring work
// tiles have the same rows, the queries and keys whole, and channels of their own.
// CHECK-LABEL: tile.kernel private @wide_kernel0
// CHECK-DAG: %[[TWO:.*]] = arith.constant 2 : i32
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK: %{{.*}}, %{{.*}}, %[[TILE:.*]], %{{.*}} = tile.work_tile
// CHECK: %[[NUMBER:.*]] = arith.index_cast %[[TILE]]
// CHECK: arith.divui %[[NUMBER]], %[[TWO]] : i32
// CHECK: %[[REST:.*]] = arith.remui %[[NUMBER]], %[[TWO]] : i32
// CHECK: %[[SLICE:.*]] = arith.index_cast %[[REST]]
// CHECK: %[[FIRST:.*]] = arith.muli %[[SLICE]], %{{.*}}
// CHECK: tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %[[ZERO]]] {{.*}} -> <64x576xbf16>
// CHECK: tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST]]] {{.*}} -> <32x256xbf16>
// CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST]]]
func.func @wide(%q: tensor<?x?x?x576xbf16>, %k: tensor<?x?x?x576xbf16>,
    %v: tensor<?x?x?x512xbf16>) -> tensor<?x?x?x512xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x576xbf16>) keys(%k : tensor<?x?x?x576xbf16>)
      values(%v : tensor<?x?x?x512xbf16>) -> tensor<?x?x?x512xbf16>
  return %o : tensor<?x?x?x512xbf16>
}

// Values that are columns of the keys come from their memory. Two warpgroups share
// these channels, so that one work tile has them all.
// CHECK-LABEL: tile.kernel private @latent_kernel0(
// CHECK-SAME: %{{.*}}: memref<{{.*}}>, %[[K:[^:]*]]: memref<?x?x?x576xbf16
// CHECK-SAME: block_k = 128, {{.*}}overlap = none, {{.*}}block_v = 512
// CHECK: tile.load %[[K]][%[[B:.*]], %[[H:.*]], %[[KEY:.*]], %[[C0:.*]]] : {{.*}} -> <128x576xbf16>
// CHECK-NEXT: tile.load %[[K]][%[[B]], %[[H]], %[[KEY]], %[[C0]]] : {{.*}} -> <128x512xbf16>
func.func @latent(%q: tensor<?x?x?x576xbf16>, %k: tensor<?x?x?x576xbf16>,
    %v: tensor<?x?x?x512xbf16> {attn.columns_of = 1 : i64}) -> tensor<?x?x?x512xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x576xbf16>) keys(%k : tensor<?x?x?x576xbf16>)
      values(%v : tensor<?x?x?x512xbf16>) -> tensor<?x?x?x512xbf16>
  return %o : tensor<?x?x?x512xbf16>
}
}
