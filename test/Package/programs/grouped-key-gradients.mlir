// The gradients of causal attention by its keys and values, where three query
// heads read a key head: rows are the keys, and what is reduced over are the
// queries of these heads, which the score function sees.
attn.monoid @gradients cocycle stats() components(value, value)
    outputs("dv", "dk") {
  lift {
  ^bb0(%p: f32, %e: f32):
    %ds = arith.mulf %p, %e : f32
    attn.yield %p, %ds : f32, f32
  }
  finalize {
  ^bb0(%a: f32, %b: f32):
    attn.yield %a, %b : f32, f32
  }
}

func.func @grouped_key_gradients(
    %q: tensor<1x6x?x64xbf16>, %k: tensor<1x2x?x64xbf16>,
    %v: tensor<1x2x?x64xbf16>, %g: tensor<1x6x?x64xbf16>,
    %lse: tensor<1x6x?xf32>, %delta: tensor<1x6x?xf32>)
    -> (tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>) {
  %o:2 = attn.aggregate @gradients
      scores(%k, %q, %v, %g : tensor<1x2x?x64xbf16>, tensor<1x6x?x64xbf16>,
             tensor<1x2x?x64xbf16>, tensor<1x6x?x64xbf16>)
      values(%g, %q : tensor<1x6x?x64xbf16>, tensor<1x6x?x64xbf16>)
      captures(%lse, %delta : tensor<1x6x?xf32>, tensor<1x6x?xf32>)
      {side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %j: i32, %i: i32,
         %L: tensor<1x6x?xf32>, %D: tensor<1x6x?xf32>):
      %bi = arith.index_cast %b : i32 to index
      %hi = arith.index_cast %h : i32 to index
      %ii = arith.index_cast %i : i32 to index
      %l = tensor.extract %L[%bi, %hi, %ii] : tensor<1x6x?xf32>
      %d = tensor.extract %D[%bi, %hi, %ii] : tensor<1x6x?xf32>
      %scale = arith.constant 0.125 : f32
      %x = arith.mulf %s, %scale : f32
      %y = arith.subf %x, %l : f32
      %p = math.exp %y : f32
      %e = arith.subf %dp, %d : f32
      attn.yield %p, %e : f32, f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %j: i32, %i: i32,
         %L: tensor<1x6x?xf32>, %D: tensor<1x6x?xf32>):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>
  return %o#0, %o#1 : tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>
}
