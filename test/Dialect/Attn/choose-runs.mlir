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
