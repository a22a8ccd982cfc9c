// Two scores for each pair: the weight, and the gate of the key from a table.
func.func @gated(%q: tensor<?x?x?x16xbf16>, %k: tensor<?x?x?x16xbf16>,
                 %v: tensor<?x?x?x16xbf16>, %rates: tensor<?xf32>)
    -> (tensor<?x?x?x16xbf16>, tensor<?x?x?xf32>) {
  %o, %left = attn.aggregate @gated_decay
      scores(%q, %k : tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>)
      values(%v : tensor<?x?x?x16xbf16>) captures(%rates : tensor<?xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %r: tensor<?xf32>):
      %at = arith.index_cast %h : i32 to index
      %rate = tensor.extract %r[%at] : tensor<?xf32>
      %size = math.absf %rate : f32
      %gate = arith.negf %size : f32
      attn.yield %s, %gate : f32, f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %r: tensor<?xf32>):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> tensor<?x?x?x16xbf16>, tensor<?x?x?xf32>
  return %o, %left : tensor<?x?x?x16xbf16>, tensor<?x?x?xf32>
}
