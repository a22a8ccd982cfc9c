// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-choose-schedule | FileCheck %s

// Neighbours in pictures of 16 x 16, one behind the other: of 128 tokens, eight
// rows of a picture, those around it see a quarter of the tiles less where these
// have 64 keys.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: @pictures
// CHECK: block_q = 128, rows = 64, block_k = 64,
func.func @pictures(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                    %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %c2 = arith.constant 2 : i32
        %c16 = arith.constant 16 : i32
        %c256 = arith.constant 256 : i32
        %t0 = arith.divui %i, %c256 : i32
        %t1 = arith.divui %j, %c256 : i32
        %t2 = arith.subi %t0, %t1 : i32
        %t3 = math.absi %t2 : i32
        %t = arith.cmpi sle, %t3, %c2 : i32
        %i1 = arith.remui %i, %c256 : i32
        %j1 = arith.remui %j, %c256 : i32
        %y0 = arith.divui %i1, %c16 : i32
        %y1 = arith.divui %j1, %c16 : i32
        %y2 = arith.subi %y0, %y1 : i32
        %y3 = math.absi %y2 : i32
        %y = arith.cmpi sle, %y3, %c2 : i32
        %ty = arith.andi %t, %y : i1
        attn.yield %ty : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// Every fourth key before: as many pairs with either.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: @dilated
// CHECK: block_q = 128, rows = 64, block_k = 128,
func.func @dilated(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                   %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %c3 = arith.constant 3 : i32
        %zero = arith.constant 0 : i32
        %width = arith.constant 511 : i32
        %d = arith.subi %i, %j : i32
        %near = arith.cmpi ule, %d, %width : i32
        %rest = arith.andi %d, %c3 : i32
        %fourth = arith.cmpi eq, %rest, %zero : i32
        %live = arith.andi %near, %fourth : i1
        attn.yield %live : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// Neighbours by coordinates that are read for rows and keys; by one coordinate
// and ids, as many keys as without.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: @coordinates
// CHECK: block_q = 128, rows = 64, block_k = 64,
func.func @coordinates(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                       %v: tensor<?x?x?x128xbf16>, %y: tensor<?xi32>, %x: tensor<?xi32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%y, %x : tensor<?xi32>, tensor<?xi32>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %ys: tensor<?xi32>, %xs: tensor<?xi32>):
        %reach = arith.constant 4 : i32
        %row = arith.index_cast %i : i32 to index
        %key = arith.index_cast %j : i32 to index
        %yi = tensor.extract %ys[%row] : tensor<?xi32>
        %xi = tensor.extract %xs[%row] : tensor<?xi32>
        %yj = tensor.extract %ys[%key] : tensor<?xi32>
        %xj = tensor.extract %xs[%key] : tensor<?xi32>
        %dy = arith.subi %yi, %yj : i32
        %dx = arith.subi %xj, %xi : i32
        %ay = math.absi %dy : i32
        %ax = math.absi %dx : i32
        %ny = arith.cmpi sle, %ay, %reach : i32
        %nx = arith.cmpi sle, %ax, %reach : i32
        %live = arith.andi %ny, %nx : i1
        attn.yield %live : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
// CHECK-LABEL: @near_in_documents
// CHECK: block_q = 128, rows = 64, block_k = 128,
func.func @near_in_documents(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                             %v: tensor<?x?x?x128xbf16>, %y: tensor<?xi32>, %ids: tensor<?xi32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%y, %ids : tensor<?xi32>, tensor<?xi32>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %ys: tensor<?xi32>, %t: tensor<?xi32>):
        %reach = arith.constant 4 : i32
        %row = arith.index_cast %i : i32 to index
        %key = arith.index_cast %j : i32 to index
        %yi = tensor.extract %ys[%row] : tensor<?xi32>
        %ti = tensor.extract %t[%row] : tensor<?xi32>
        %yj = tensor.extract %ys[%key] : tensor<?xi32>
        %tj = tensor.extract %t[%key] : tensor<?xi32>
        %dy = arith.subi %yi, %yj : i32
        %ay = math.absi %dy : i32
        %ny = arith.cmpi sle, %ay, %reach : i32
        %same = arith.cmpi eq, %ti, %tj : i32
        %live = arith.andi %ny, %same : i1
        attn.yield %live : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// Heads of 64 columns. Tiles of 128 tokens, eight across, each with those around
// it: three warpgroups have rows of two of them. Of a few global tokens and those
// near, as many pairs are tested with 128 keys as with fewer.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: @tiles
// CHECK: block_q = 128, rows = 64, block_k = 128,
func.func @tiles(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                 %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %c1 = arith.constant 1 : i32
        %c6 = arith.constant 6 : i32
        %c8 = arith.constant 8 : i32
        %c128 = arith.constant 128 : i32
        %ti = arith.divui %i, %c128 : i32
        %tj = arith.divui %j, %c128 : i32
        %yi = arith.divui %ti, %c8 : i32
        %xi = arith.remui %ti, %c8 : i32
        %yj = arith.divui %tj, %c8 : i32
        %xj = arith.remui %tj, %c8 : i32
        %x0 = arith.maxsi %xi, %c1 : i32
        %xc = arith.minsi %x0, %c6 : i32
        %dy = arith.subi %yi, %yj : i32
        %dx = arith.subi %xc, %xj : i32
        %ay = math.absi %dy : i32
        %ax = math.absi %dx : i32
        %m = arith.maxsi %ay, %ax : i32
        %live = arith.cmpi sle, %m, %c1 : i32
        attn.yield %live : i1
      } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}

// -----

// Keys of a picture of 512 tokens, which tiles of 112 would not end with.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: @media
// CHECK: block_q = 192, rows = 64, block_k = 128,
func.func @media(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                 %v: tensor<?x?x?x64xbf16>, %media: tensor<?xi32>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>) captures(%media : tensor<?xi32>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %m: tensor<?xi32>):
        %tokens = arith.constant 512 : i32
        %row = arith.index_cast %i : i32 to index
        %mi = tensor.extract %m[%row] : tensor<?xi32>
        %mj = arith.divui %j, %tokens : i32
        %live = arith.cmpi eq, %mi, %mj : i32
        attn.yield %live : i1
      } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}

// -----

// A table of blocks of 128 x 128: tiles are whole ones.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: @blocks
// CHECK: block_q = 128, rows = 64, block_k = 128,
func.func @blocks(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                  %v: tensor<?x?x?x64xbf16>, %m: tensor<?x?xi1>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>) captures(%m : tensor<?x?xi1>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xi1>):
        %c7 = arith.constant 7 : i32
        %i2 = arith.shrui %i, %c7 : i32
        %j2 = arith.shrui %j, %c7 : i32
        %ii = arith.index_cast %i2 : i32 to index
        %jj = arith.index_cast %j2 : i32 to index
        %x = tensor.extract %t[%ii, %jj] : tensor<?x?xi1>
        attn.yield %x : i1
      } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}
