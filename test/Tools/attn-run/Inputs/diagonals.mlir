// Scores that are added up along diagonals, beside an index by distance; rows then add
// up what they find there.
attn.monoid @two cocycle stats() components(unit, unit) outputs("sums", "index") {
  lift {
  ^bb0(%a: f32, %b: f32):
    attn.yield %a, %b : f32, f32
  }
  finalize {
  ^bb0(%a: f32, %b: f32):
    attn.yield %a, %b : f32, f32
  }
}
func.func @diagonals(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>)
    -> (tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  %found:2 = attn.scores @two
      scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      {diagonals = 128 : i64}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %c = arith.constant 0.125 : f32
      %t = arith.mulf %s, %c : f32
      %e = math.exp %t : f32
      %d = arith.subi %i, %j : i32
      %a = math.absi %d : i32
      %f = arith.sitofp %a : i32 to f32
      attn.yield %e, %f : f32, f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> tensor<?x?x?x128xf32>, tensor<?x?x?xf32>
  %o:2 = attn.aggregate @two scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      captures(%found#0, %found#1 : tensor<?x?x?x128xf32>, tensor<?x?x?xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %sums: tensor<?x?x?x128xf32>, %index: tensor<?x?x?xf32>):
      %c127 = arith.constant 127 : i32
      %c = arith.andi %j, %c127 : i32
      %bi = arith.index_cast %b : i32 to index
      %hi = arith.index_cast %h : i32 to index
      %ii = arith.index_cast %i : i32 to index
      %ji = arith.index_cast %c : i32 to index
      %x = tensor.extract %sums[%bi, %hi, %ii, %ji] : tensor<?x?x?x128xf32>
      %y = tensor.extract %index[%bi, %hi, %ii] : tensor<?x?x?xf32>
      attn.yield %x, %y : f32, f32
    } -> tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1 : tensor<?x?x?xf32>, tensor<?x?x?xf32>
}
