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
