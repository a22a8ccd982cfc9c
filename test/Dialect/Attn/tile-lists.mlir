// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-relax-maximum --attn-fix-anchor --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --tile-expand-stream --canonicalize --cse | FileCheck %s

// Ids of documents: a kernel before lists the live key tiles of each query
// tile. The lists are the same for all heads, for the mask does not ask which.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: func.func @ids(
// CHECK: %[[T:.*]] = arith.ceildivui
// CHECK: %[[TILES:.*]] = tile.workspace(%[[B:.*]], %c1, %[[T]], %{{.*}}) : memref<?x?x?x?xi32>
// CHECK: %[[WORDS:.*]] = tile.workspace(%[[B]], %c1, %[[T]], %{{.*}}) : memref<?x?x?x?x4xi32>
// CHECK: %[[CLASSES:.*]] = tile.workspace(%[[B]], %c1, %[[T]], %c0) : memref<?x?x?x?xi32>
// The heads of a section: the first thing that blocks ask for is not to be a chain of
// divisions.
// CHECK: arith.divui %c68266
// CHECK: %[[SECTIONS:.*]] = arith.divui
// CHECK: %[[SECTION:.*]] = arith.divui %{{.*}}, %[[SECTIONS]]
// CHECK: %[[N:.*]] = arith.muli %[[T]], %[[B]]
// CHECK: tile.launch @ids_kernel1 grid(%[[N]]) args({{.*}}%[[TILES]], %[[WORDS]], %[[CLASSES]] :
// No kernel says the order of few work tiles, nor of short ones.
// CHECK: %[[MANY:.*]] = arith.cmpi sgt, %{{.*}}, %c264
// CHECK: %[[LONG:.*]] = arith.cmpi sgt, %{{.*}}, %c1024
// CHECK: %[[BOTH:.*]] = arith.andi %[[MANY]], %[[LONG]]
// CHECK: %[[ORDERED:.*]] = arith.select %[[BOTH]], %[[N]], %c0
// CHECK: tile.launch @ids_kernel2 grid(%[[ORDERED]])
// CHECK: tile.launch @ids_kernel0 grid({{.*}}%[[TILES]], %[[WORDS]], %[[CLASSES]], %[[SECTION]] :
// CHECK-NOT: tile.launch

// The reduction, in the order of the rows: tiles side by side have their keys in
// common. Of the heads of the last section the n-th tile from the end on is the one
// that the lists say comes n-th; of others nothing is read ahead of their counts. Masked tiles, of which the first stands alone, then whole ones; without
// masked ones the first whole tile stands alone. No tile is asked for keys that are
// dead in every row: a row that is NaN is done again, key by key, where there were
// masked tiles. The maxima are those of all keys of a tile, and the mask acts on the
// weights: rows with next to none are done again, too, with the listed tiles in which
// they have live keys.
// CHECK-LABEL: kernel private @ids_kernel0
// CHECK-NOT: arith.divui %c
// CHECK: %[[BATCH:.*]], %[[HEAD:.*]], %[[OWN:.*]], %{{.*}} = tile.work_tile %{{.*}} longest_first section(%[[SECTION:.*]]) batches(%[[B:.*]]) heads(%[[H:.*]]) tiles(
// CHECK: %[[PLACE:.*]] = arith.subi %{{.*}}, %[[OWN]]
// CHECK: %[[MANY:.*]] = arith.cmpi sgt, %{{.*}}, %c264
// CHECK: %[[LONG:.*]] = arith.cmpi sgt, %{{.*}}, %c1024
// CHECK: %[[FOUND:.*]] = arith.andi %[[MANY]], %[[LONG]]
// CHECK: %[[BEFORE:.*]] = arith.muli %[[BATCH]], %[[H]]
// CHECK: %[[NUMBER:.*]] = arith.addi %[[BEFORE]], %[[HEAD]]
// CHECK: %[[LEFT:.*]] = arith.subi %{{.*}}, %[[NUMBER]]
// CHECK: %[[IS_LAST:.*]] = arith.cmpi sle, %[[LEFT]], %[[SECTION]]
// CHECK: %[[IS_SAID:.*]] = arith.andi %[[FOUND]], %[[IS_LAST]]
// CHECK: %[[TILE:.*]] = scf.if %[[IS_SAID]] -> (index) {
// CHECK: %[[NTH:.*]] = memref.load %[[LISTS:.*]][%[[BATCH]], %c0, %[[PLACE]], %c2]
// CHECK: %[[LISTED:.*]] = arith.index_cast %[[NTH]] : i32 to index
// CHECK: scf.yield %[[LISTED]]
// CHECK: else
// CHECK: scf.yield %[[OWN]]
// CHECK: %[[MASKED:.*]] = memref.load %[[LISTS]][%[[BATCH]], %c0, %[[TILE]], %c0]
// CHECK: %[[M:.*]] = arith.index_cast %[[MASKED]]
// CHECK: %[[WHOLE:.*]] = memref.load %[[LISTS]][%[[BATCH]], %c0, %[[TILE]], %c1]
// CHECK: %[[W:.*]] = arith.index_cast %[[WHOLE]]
// CHECK: %[[SOME:.*]] = arith.cmpi sgt, %[[M]], %c0
// CHECK: scf.if %[[SOME]]
// CHECK-NOT: tile.truths
// CHECK: tile.load %{{.*}} rows(
// CHECK: tile.load %{{.*}} rows(
// CHECK: %[[S:.*]] = tile.dot
// CHECK-NEXT: tile.reduce ins(%[[S]] :
// CHECK: arith.cmpi eq
// CHECK: scf.for %{{.*}} = %c1 to %[[M]]
// CHECK: %[[S:.*]] = tile.dot
// CHECK-NEXT: tile.reduce ins(%[[S]] :
// CHECK: tile.map ins(%[[S]],
// CHECK: %[[LIVE:.*]] = arith.cmpi eq
// CHECK: %[[P:.*]] = math.exp2
// CHECK: arith.select %[[LIVE]], %[[P]], %cst
// CHECK: scf.for %{{.*}} = %c0 to %[[W]]
// CHECK: tile.rows 64
// CHECK: } else {
// CHECK: scf.if
// CHECK-NOT: arith.cmpi eq
// CHECK: scf.for %{{.*}} = %c1 to %[[W]]
// CHECK: %[[AGAIN:.*]] = scf.if %[[SOME]] -> (!tile.tile<128x1xi1>) {
// CHECK: %[[SUM:.*]] = tile.reduce ins(%{{.*}} : !tile.tile<128x128xf32>)
// CHECK: %[[SPOILED:.*]] = tile.map ins(%[[SUM]], %[[FAR:.*]] : !tile.tile<128x1xf32>, !tile.tile<128x1xi1>)
// CHECK: arith.cmpf uno
// CHECK: %[[FAINT:.*]] = tile.map ins(%{{.*}}, %[[SPOILED]] : !tile.tile<128x1xf32>, !tile.tile<128x1xi1>)
// CHECK: arith.cmpf olt
// CHECK: scf.yield %[[FAINT]]
// CHECK: } else {
// CHECK: scf.yield %[[FAR]]
// CHECK: %[[ANY:.*]] = tile.any %[[AGAIN]] by_rows
// CHECK: scf.if %[[ANY]]
// CHECK: %[[LISTED:.*]] = arith.addi %{{.*}}, %{{.*}} : index
// CHECK: scf.for %{{.*}} = %c0 to %[[LISTED]] step %c1
// CHECK: tile.map ins(%[[AGAIN]] : !tile.tile<128x1xi1>)
// CHECK: arith.cmpi eq
// CHECK: } -> !tile.tile<128x128xi1>
// CHECK: %[[SOME:.*]] = tile.any %{{.*}} by_rows
// CHECK: scf.if %[[SOME]]
// CHECK: scf.for
// CHECK: arith.cmpi eq

// A block lists a query tile's: 128 key tiles at a time by the ids of rows and of
// keys, least and greatest: tiles are whole, dead, or, where ends of both are equal,
// mixed; then those that these do not settle by elements: of eight rows, and of all, 64 at a time, where those are all live or all dead. A
// ragged tile needs them, and is a pass of its own before those of the others. Nobody
// asks which keys of a tile are live. Counts are stored ahead of the look, which most
// blocks have no tile for, and again behind it.
// CHECK-LABEL: kernel private @ids_kernel1
// CHECK-SAME: occupancy = 2
// CHECK: memref.store %c0_i32, %[[LIST:.*]][%{{.*}}, %c0]
// CHECK: memref.store %c0_i32, %[[LIST]][%{{.*}}, %c1]
// CHECK: %[[START:.*]] = arith.select %{{.*}}, %c0, %c1
// CHECK: scf.for %[[PASS:.*]] = %[[START]] to %{{.*}} step %c1
// CHECK: %[[CHUNK:.*]] = arith.cmpi sgt, %[[PASS]], %c0
// CHECK: %[[WORDS:.*]]:8 = scf.if %[[CHUNK]]
// CHECK: tile.map {
// CHECK: memref.load {{.*}} : memref<?x?xi32, strided<[?, 1]>>
// CHECK: } -> !tile.tile<128x128xi32>
// CHECK: arith.minsi
// CHECK: } -> !tile.tile<128x1xi32>
// CHECK: arith.maxsi
// CHECK: } -> !tile.tile<128x1xi32>
// CHECK: tile.map {
// CHECK: memref.load
// CHECK: } -> !tile.tile<128x128xi32>
// CHECK: %[[CLASS:.*]]:2 = tile.map ins(
// CHECK: %[[BITS:.*]]:8 = tile.bits %[[CLASS]]#0, %[[CLASS]]#1
// CHECK: scf.yield %[[BITS]]#0
// CHECK: scf.yield %c0_i32, %c0_i32, %c0_i32, %c0_i32, %c1_i32, %c0_i32, %c0_i32, %c0_i32
// CHECK: %[[NUM:.*]] = arith.minsi %{{.*}}, %c4
// CHECK: scf.for %{{.*}} = %c0 to %[[NUM]]
// CHECK: math.ctpop
// CHECK: scf.for
// CHECK: memref.store
// CHECK: scf.for
// CHECK: memref.store
// CHECK: memref.store %{{.*}}, %[[LIST]][%{{.*}}, %c0]
// CHECK: memref.store %{{.*}}, %[[LIST]][%{{.*}}, %c1]
// CHECK: %[[OPEN:.*]] = arith.cmpi ne, %{{.*}}, %c0_i32
// CHECK: scf.if %[[OPEN]]
// CHECK: scf.for
// CHECK: scf.for
// CHECK: tile.map {
// CHECK: arith.muli %{{.*}}, %c19_i32
// CHECK: arith.cmpi eq
// CHECK: } -> !tile.tile<128x8xi1>, !tile.tile<128x8xi1>
// CHECK: tile.bits
// CHECK: %[[BOTH:.*]] = arith.andi
// CHECK: scf.if %[[BOTH]]
// CHECK: memref.store
// CHECK: } else {
// CHECK: scf.for %{{.*}} = %c0 to %c128 step %c64
// CHECK: %[[E:.*]]:2 = tile.map {
// CHECK: arith.cmpi eq
// CHECK: } -> !tile.tile<128x64xi1>, !tile.tile<128x64xi1>
// CHECK: tile.bits
// CHECK: scf.if
// CHECK: scf.if
// CHECK: memref.store
// CHECK: memref.store
// CHECK: memref.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c0]
// CHECK: memref.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c1]
// CHECK: tile.return
func.func @ids(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %ids: tensor<?x?xi32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%ids : tensor<?x?xi32>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xi32>):
        %bb = arith.index_cast %b : i32 to index
        %ii = arith.index_cast %i : i32 to index
        %jj = arith.index_cast %j : i32 to index
        %x = tensor.extract %t[%bb, %ii] : tensor<?x?xi32>
        %y = tensor.extract %t[%bb, %jj] : tensor<?x?xi32>
        %e = arith.cmpi eq, %x, %y : i32
        attn.yield %e : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// Ids of rows alone, beside a comparison: least and greatest settle most tiles, too,
// so that one kernel lists them. Nobody asks for their order.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: func.func @rows(
// CHECK: tile.launch @rows_kernel1
// CHECK: tile.launch @rows_kernel0
// CHECK-NOT: tile.launch
// CHECK-LABEL: kernel private @rows_kernel0
// CHECK: tile.work_tile %{{.*}} longest_first
// CHECK-LABEL: kernel private @rows_kernel1
// CHECK: arith.minsi
// CHECK: } -> !tile.tile<128x1xi32>
// CHECK: arith.maxsi
// CHECK: } -> !tile.tile<128x1xi32>
// CHECK: %[[CLASS:.*]]:2 = tile.map ins(
// CHECK: tile.bits %[[CLASS]]#0, %[[CLASS]]#1
func.func @rows(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %ids: tensor<?xi32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%ids : tensor<?xi32>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xi32>):
        %size = arith.constant 64 : i32
        %ii = arith.index_cast %i : i32 to index
        %x = tensor.extract %t[%ii] : tensor<?xi32>
        %y = arith.divui %j, %size : i32
        %e = arith.cmpi eq, %x, %y : i32
        attn.yield %e : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// A boolean of each head's pairs: one list for each head. A tile is evaluated, 32
// rows at a time, by a block of its own, and the lists are made of what those have
// found; elements are bits from then on.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: func.func @pairs(
// CHECK: %[[T:.*]] = arith.ceildivui
// CHECK: %[[K:.*]] = arith.maxsi
// CHECK: tile.workspace(%c1, %[[H:.*]], %[[T]], %{{.*}}) : memref<?x?x?x?xi32>
// CHECK: tile.workspace(%c1, %[[H]], %[[T]], %[[K]]) : memref<?x?x?x?x4xi32>
// CHECK: tile.workspace(%c1, %[[H]], %[[T]], %[[K]]) : memref<?x?x?x?xi32>
// CHECK: tile.workspace(%c1, %[[H]], %[[T]], %[[K]]) : memref<?x?x?x?x128x4xi32>
// CHECK: %[[N:.*]] = arith.muli %[[T]], %[[H]]
// CHECK: %[[TILES:.*]] = memref.dim
// CHECK: %[[ALL:.*]] = arith.muli %[[N]], %[[TILES]]
// CHECK: tile.launch @pairs_kernel1 grid(%[[ALL]])
// CHECK: tile.launch @pairs_kernel2 grid(%[[N]])
// Few work tiles take the last rows first, without a kernel that says so, and so do
// those of few keys.
// CHECK: %[[MANY:.*]] = arith.cmpi sgt, %{{.*}}, %c132
// CHECK: %[[LONG:.*]] = arith.cmpi sgt, %{{.*}}, %c1024
// CHECK: %[[BOTH:.*]] = arith.andi %[[MANY]], %[[LONG]]
// CHECK: %[[ORDERED:.*]] = arith.select %[[BOTH]], %[[N]], %c0
// CHECK: tile.launch @pairs_kernel3 grid(%[[ORDERED]])
// CHECK: tile.launch @pairs_kernel0 grid(

// The n-th work tile is the query tile with the n-th most to do, which the lists say
// beside its counts. The number of the next masked tile is read a step ahead, for its
// words and bits are where that says; no element is read from the mask, but of a row
// that is done again.
// CHECK-LABEL: kernel private @pairs_kernel0
// CHECK: %{{.*}}, %[[HEAD:.*]], %[[PLACE:.*]], %{{.*}} = tile.work_tile %{{.*}} in_order
// CHECK: %[[TILE:.*]] = scf.if %{{.*}} -> (index) {
// CHECK: %[[NTH:.*]] = memref.load %[[LISTS:.*]][%c0, %[[HEAD]], %[[PLACE]], %c2] : memref<?x?x?x?xi32>
// CHECK: arith.muli %[[TILE]], %c128
// CHECK-NOT: memref.load {{.*}}xi8,
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> ({{.*}}, i32)
// CHECK-NOT: memref.load {{.*}}xi8,
// CHECK: %[[PLACE:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK: tile.rows 64
// CHECK-COUNT-4: memref.load %{{.*}}[%c0, %{{.*}}, %{{.*}}, %[[PLACE]], {{.*}}] : memref<?x?x?x?x128x4xi32>
// CHECK: %[[S:.*]] = tile.dot
// CHECK: tile.map ins(%[[S]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK-NOT: memref.load {{.*}}xi8,
// CHECK: tile.any

// CHECK-LABEL: tile.kernel private @pairs_kernel1
// CHECK-SAME: occupancy = 4
// CHECK: %[[CLASS:.*]] = scf.if %{{.*}} -> (i32) {
// CHECK: scf.for %[[ROW:.*]] = %c0 to %c128 step %c32
// CHECK: memref.load {{.*}} : memref<?x?x?xi8, strided<[?, ?, 1]>>
// CHECK: } -> !tile.tile<128x32xi1>, !tile.tile<128x32xi1>
// CHECK: tile.store_bits %{{.*}}, %{{.*}}[{{.*}}] row(%c0) column(%[[ROW]])
// CHECK: tile.bits
// CHECK-NOT: memref.store
// CHECK: memref.store %[[CLASS]],

// CHECK-LABEL: kernel private @pairs_kernel2
// CHECK: scf.for
// CHECK: tile.map {
// CHECK: memref.load {{.*}} : memref<?x?x?x?xi32>
// CHECK: } -> !tile.tile<128x1xi1>, !tile.tile<128x1xi1>
// CHECK: tile.bits
// CHECK-NOT: !tile.tile<128x128xi1>
// CHECK: memref.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c1]
// CHECK-NEXT: tile.return

// The order: how many query tiles take longer, in halves of a whole tile, or as
// long and are behind: so many come before this one.
// CHECK-LABEL: kernel private @pairs_kernel3
// CHECK: %{{.*}}, %{{.*}}, %[[OWN:.*]], %{{.*}} = tile.work_tile
// CHECK: %[[MINE:.*]] = arith.index_cast %[[OWN]] : index to i32
// CHECK: %[[BEFORE:.*]] = scf.for %{{.*}} = %c0 to %{{.*}} step %c128
// CHECK: %[[MASKS:.*]] = memref.load %[[LISTS:.*]][%{{.*}}, %{{.*}}, %{{.*}}, %c0]
// CHECK: %[[WHOLES:.*]] = memref.load %[[LISTS]][%{{.*}}, %{{.*}}, %{{.*}}, %c1]
// CHECK: tile.map {
// CHECK: %[[M:.*]] = arith.subi %{{.*}}, %[[MASKS]]
// CHECK: arith.muli %[[M]], %c3_i32
// CHECK: %[[W:.*]] = arith.subi %{{.*}}, %[[WHOLES]]
// CHECK: arith.muli %[[W]], %c2_i32
// CHECK: arith.cmpi sgt
// CHECK: arith.cmpi eq
// CHECK: arith.cmpi sgt
// CHECK: } -> !tile.tile<128x1xi1>
// CHECK: tile.bits
// CHECK-COUNT-4: math.ctpop
// CHECK: %[[RANK:.*]] = arith.index_cast %[[BEFORE]] : i32 to index
// CHECK: memref.store %[[MINE]], %[[LISTS]][%{{.*}}, %{{.*}}, %[[RANK]], %c2]
func.func @pairs(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %m: tensor<?x?x?xi1>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%m : tensor<?x?x?xi1>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?x?xi1>):
        %hh = arith.index_cast %h : i32 to index
        %ii = arith.index_cast %i : i32 to index
        %jj = arith.index_cast %j : i32 to index
        %x = tensor.extract %t[%hh, %ii, %jj] : tensor<?x?x?xi1>
        attn.yield %x : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// Not listed: a mask whose keys have bounds; tiles of warps.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: func.func @causal(
// CHECK-NOT: tile.workspace
func.func @causal(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: func.func @portable(
// CHECK-NOT: tile.workspace
// CHECK-LABEL: kernel private @portable_kernel0
// CHECK: tile.any
func.func @portable(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %m: tensor<?xi1>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%m : tensor<?xi1>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xi1>):
        %jj = arith.index_cast %j : i32 to index
        %x = tensor.extract %t[%jj] : tensor<?xi1>
        attn.yield %x : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// Both kernels take the rows of a query tile from the same place, although 192
// is no multiple of 128: the lists are numbered by tiles from the first row on.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel private @short_kernel0
// CHECK: %[[ROW:.*]] = arith.muli %{{.*}}, %c192 : index
// CHECK-NEXT: %[[LEFT:.*]] = arith.subi %{{.*}}, %[[ROW]] : index
// CHECK-NEXT: arith.minsi %[[LEFT]], %c192 : index
// CHECK: tile.load %{{.*}}[%{{.*}}, %{{.*}}, %[[ROW]], %c0] rows(%[[ROW]] to
// CHECK-LABEL: kernel private @short_kernel1
// CHECK: %[[ROW:.*]] = arith.muli %{{.*}}, %c192 : index
// CHECK-NEXT: %[[LEFT:.*]] = arith.subi %{{.*}}, %[[ROW]] : index
// CHECK-NEXT: arith.minsi %[[LEFT]], %c192 : index
func.func @short(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>, %m: tensor<?x?xi8>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>) captures(%m : tensor<?x?xi8>)
      {schedule = #attn.schedule<block_q = 192, rows = 64, block_k = 96>} mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xi8>):
        %zero = arith.constant 0 : i8
        %ii = arith.index_cast %i : i32 to index
        %jj = arith.index_cast %j : i32 to index
        %x = tensor.extract %t[%ii, %jj] : tensor<?x?xi8>
        %live = arith.cmpi ne, %x, %zero : i8
        attn.yield %live : i1
      } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}

// -----

// Keys of a prefix, and what a tensor of pairs says: a tile of the prefix is whole
// whatever that holds, and its elements are not looked at.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: tile.kernel private @prefix_kernel1
// CHECK: %[[KNOWN:.*]] = arith.select %{{.*}}, %c2_i32, %{{.*}} : i32
// CHECK: %[[OPEN:.*]] = arith.cmpi eq, %[[KNOWN]], %c1_i32
// CHECK: scf.if %[[OPEN]] -> (i32) {
// CHECK: scf.for %{{.*}} = %c0 to %c128 step %c32
// CHECK: scf.yield %[[KNOWN]] : i32
// CHECK-LABEL: kernel private @prefix_kernel2
func.func @prefix(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %m: tensor<?x?xi1>, %p: i32) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%m, %p : tensor<?x?xi1>, i32) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xi1>, %n: i32):
        %first = arith.cmpi slt, %j, %n : i32
        %ii = arith.index_cast %i : i32 to index
        %jj = arith.index_cast %j : i32 to index
        %x = tensor.extract %t[%ii, %jj] : tensor<?x?xi1>
        %live = arith.ori %first, %x : i1
        attn.yield %live : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// A table of blocks has fewer elements than there would be bits: no bits. No tile
// is left to a look at its elements, so one kernel lists them; another says in
// which order query tiles come.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: func.func @blocks(
// CHECK-COUNT-3: tile.workspace
// CHECK-NOT: tile.workspace
// CHECK: tile.launch @blocks_kernel1
// CHECK: tile.launch @blocks_kernel2
// CHECK: tile.launch @blocks_kernel0
// CHECK-NOT: tile.launch
func.func @blocks(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %m: tensor<?x?xi1>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%m : tensor<?x?xi1>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xi1>):
        %c7 = arith.constant 7 : i32
        %i2 = arith.shrui %i, %c7 : i32
        %j2 = arith.shrui %j, %c7 : i32
        %ii = arith.index_cast %i2 : i32 to index
        %jj = arith.index_cast %j2 : i32 to index
        %x = tensor.extract %t[%ii, %jj] : tensor<?x?xi1>
        attn.yield %x : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// Pairs of positions some distance on, in a tensor of the other order, with ids
// beside them: bits, and nothing else is read of rows and keys.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: func.func @shifted(
// CHECK-COUNT-4: tile.workspace
// CHECK-LABEL: kernel private @shifted_kernel0
// CHECK-NOT: memref.load {{.*}} : memref<?xi32
// CHECK: tile.dot
// CHECK-NOT: memref.load {{.*}} : memref<?xi32
// CHECK: tile.any
// CHECK-LABEL: kernel private @shifted_kernel1
func.func @shifted(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %m: tensor<?x?xi1>, %ids: tensor<?xi32>, %n: i32) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%m, %ids, %n : tensor<?x?xi1>, tensor<?xi32>, i32) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xi1>, %d: tensor<?xi32>, %x: i32):
        %i2 = arith.addi %i, %x : i32
        %ii = arith.index_cast %i2 : i32 to index
        %jj = arith.index_cast %j : i32 to index
        %p = tensor.extract %t[%jj, %ii] : tensor<?x?xi1>
        %r = arith.index_cast %i : i32 to index
        %y = tensor.extract %d[%r] : tensor<?xi32>
        %z = tensor.extract %d[%jj] : tensor<?xi32>
        %e = arith.cmpi eq, %y, %z : i32
        %live = arith.andi %p, %e : i1
        attn.yield %live : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// A mask of many operations: the kernel of classes makes bits of its elements where
// the run has room for them, and of two kernels the one that reads them has blocks
// then. A schedule in order needs no order.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: func.func @many(
// CHECK: %[[T:.*]] = arith.ceildivui
// CHECK: %[[K:.*]] = arith.maxsi
// CHECK-COUNT-3: tile.workspace(
// CHECK: %[[ALL:.*]] = arith.muli %[[K]], %[[T]]
// CHECK: %[[FITS:.*]] = arith.cmpi sle, %[[ALL]], %c131072
// CHECK: %[[ROOM:.*]] = arith.select %[[FITS]], %[[K]], %c0
// CHECK: tile.workspace(%c1, %c1, %[[T]], %[[ROOM]]) : memref<?x?x?x?x128x4xi32>
// CHECK: tile.launch @many_kernel1
// CHECK: tile.launch @many_kernel2
// CHECK: %[[NONE:.*]] = arith.cmpi sle, %{{.*}}, %c0
// CHECK: %[[WITHOUT:.*]] = arith.select %[[NONE]], %[[GRID:.*]], %c0 : index
// CHECK: tile.launch @many_kernel3 grid(%[[WITHOUT]])
// CHECK: %[[WITH:.*]] = arith.select %[[NONE]], %c0, %[[GRID]] : index
// CHECK: tile.launch @many_kernel0 grid(%[[WITH]])

// CHECK-LABEL: kernel private @many_kernel0
// CHECK-NOT: math.absi
// CHECK: tile.any
// Eight blocks have every eighth key tile each.
// CHECK-LABEL: kernel private @many_kernel1
// CHECK-SAME: occupancy = 4
// CHECK: arith.remui %{{.*}}, %c8
// CHECK: scf.if %{{.*}} -> (!tile.tile<128x1xi1>, !tile.tile<128x1xi1>) {
// CHECK: math.absi
// CHECK: tile.store_bits
// CHECK: } else {
// CHECK: math.absi
// CHECK-NOT: tile.store_bits
// CHECK: scf.for
// CHECK-LABEL: kernel private @many_kernel2
// CHECK-LABEL: kernel private @many_kernel3
// CHECK: math.absi
func.func @many(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, order = in_order>} mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %few = arith.constant 16 : i32
        %width = arith.constant 128 : i32
        %g = arith.cmpi slt, %i, %few : i32
        %f = arith.cmpi slt, %j, %few : i32
        %d = arith.subi %i, %j : i32
        %a = math.absi %d : i32
        %n = arith.cmpi sle, %a, %width : i32
        %x = arith.ori %g, %f : i1
        %live = arith.ori %x, %n : i1
        attn.yield %live : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// What no row is asked for is the same in all: one of them is evaluated.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel private @padding_kernel1
// CHECK: %[[E:.*]]:2 = tile.map {
// CHECK: memref.load {{.*}} : memref<?xi8
// CHECK: } -> !tile.tile<128x1xi1>, !tile.tile<128x1xi1>
// CHECK-NEXT: tile.bits %[[E]]#0, %[[E]]#1
func.func @padding(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %m: tensor<?xi1>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%m : tensor<?xi1>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xi1>):
        %jj = arith.index_cast %j : i32 to index
        %x = tensor.extract %t[%jj] : tensor<?xi1>
        attn.yield %x : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}
