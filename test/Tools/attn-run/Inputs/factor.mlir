// Dropout by its option, and a factor of one's own: a decay with the distance
// that the sum of the weights does not see; also over queries.
func.func @both(%q: tensor<?x?x?x32xf32>, %k: tensor<?x?x?x32xf32>,
                %v: tensor<?x?x?x24xf32>, %p: f32, %s0: i32, %s1: i32)
    -> (tensor<?x?x?x24xf32>, tensor<?x?x?x24xf32>, tensor<?x?x?x32xf32>) {
  %dropped = attn.attention queries(%q : tensor<?x?x?x32xf32>)
      keys(%k : tensor<?x?x?x32xf32>) values(%v : tensor<?x?x?x24xf32>)
      dropout(%p, %s0, %s1, %s1, %s0) -> tensor<?x?x?x24xf32>
  %faded = attn.aggregate @softmax scores(%q, %k : tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>)
      values(%v : tensor<?x?x?x24xf32>) captures(%p : f32)
    factor {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %rate: f32):
      %d = arith.subi %i, %j : i32
      %x = arith.sitofp %d : i32 to f32
      %y = math.absf %x : f32
      %m = arith.mulf %y, %rate : f32
      %n = arith.negf %m : f32
      %f = math.exp %n : f32
      attn.yield %f : f32
    } -> tensor<?x?x?x24xf32>
  %sums = attn.aggregate @relu_sum scores(%k, %q : tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>)
      values(%q : tensor<?x?x?x32xf32>) captures(%p : f32) {side = #attn.side<queries>}
    factor {
    ^bb0(%b: i32, %h: i32, %j: i32, %i: i32, %rate: f32):
      %x = arith.sitofp %h : i32 to f32
      %y = arith.sitofp %i : i32 to f32
      %m = arith.mulf %x, %rate : f32
      %f = arith.addf %m, %y : f32
      attn.yield %f : f32
    } -> tensor<?x?x?x32xf32>
  return %dropped, %faded, %sums
      : tensor<?x?x?x24xf32>, tensor<?x?x?x24xf32>, tensor<?x?x?x32xf32>
}
