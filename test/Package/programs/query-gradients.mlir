// The gradient of causal attention by its queries: the keys are read twice, as
// they are and transposed.
attn.monoid @gradient cocycle stats() components(value) outputs("dq") {
  lift {
  ^bb0(%p: f32, %e: f32):
    %ds = arith.mulf %p, %e : f32
    attn.yield %ds : f32
  }
  finalize {
  ^bb0(%a: f32):
    attn.yield %a : f32
  }
}

func.func @query_gradients(
    %q: tensor<1x4x?x128xbf16>, %k: tensor<1x4x?x128xbf16>,
    %v: tensor<1x4x?x128xbf16>, %g: tensor<1x4x?x128xbf16>,
    %lse: tensor<1x4x?xf32>, %delta: tensor<1x4x?xf32>)
    -> tensor<1x4x?x128xbf16> {
  %o = attn.aggregate @gradient
      scores(%q, %k, %g, %v : tensor<1x4x?x128xbf16>, tensor<1x4x?x128xbf16>,
             tensor<1x4x?x128xbf16>, tensor<1x4x?x128xbf16>)
      values(%k : tensor<1x4x?x128xbf16>)
      captures(%lse, %delta : tensor<1x4x?xf32>, tensor<1x4x?xf32>)
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %i: i32, %j: i32,
         %L: tensor<1x4x?xf32>, %D: tensor<1x4x?xf32>):
      %bi = arith.index_cast %b : i32 to index
      %hi = arith.index_cast %h : i32 to index
      %ii = arith.index_cast %i : i32 to index
      %l = tensor.extract %L[%bi, %hi, %ii] : tensor<1x4x?xf32>
      %d = tensor.extract %D[%bi, %hi, %ii] : tensor<1x4x?xf32>
      %scale = arith.constant 0.0884 : f32
      %x = arith.mulf %s, %scale : f32
      %y = arith.subf %x, %l : f32
      %p = math.exp %y : f32
      %e = arith.subf %dp, %d : f32
      attn.yield %p, %e : f32, f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32,
         %L: tensor<1x4x?xf32>, %D: tensor<1x4x?xf32>):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> tensor<1x4x?x128xbf16>
  return %o : tensor<1x4x?x128xbf16>
}
