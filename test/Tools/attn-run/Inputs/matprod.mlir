// The product, in key order, of a 2x2 matrix for each key, which turns by the
// score and shrinks a little. The component is there because a monoid has one.
attn.monoid @matprod general stats(f32, f32, f32, f32) components(unit)
    outputs("m00", "m01", "m10", "m11") {
  identity {
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %one, %zero, %zero, %one, %zero : f32, f32, f32, f32, f32
  }
  combine {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32, %n: f32,
       %e: f32, %f: f32, %g: f32, %h: f32, %m: f32):
    %ae = arith.mulf %a, %e : f32
    %bg = arith.mulf %b, %g : f32
    %af = arith.mulf %a, %f : f32
    %bh = arith.mulf %b, %h : f32
    %ce = arith.mulf %c, %e : f32
    %dg = arith.mulf %d, %g : f32
    %cf = arith.mulf %c, %f : f32
    %dh = arith.mulf %d, %h : f32
    %p = arith.addf %ae, %bg : f32
    %q = arith.addf %af, %bh : f32
    %r = arith.addf %ce, %dg : f32
    %s = arith.addf %cf, %dh : f32
    %sum = arith.addf %n, %m : f32
    attn.yield %p, %q, %r, %s, %sum : f32, f32, f32, f32, f32
  }
  lift {
  ^bb0(%x: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    %size = arith.constant 0.995 : f32
    %sin0 = math.sin %x : f32
    %cos0 = math.cos %x : f32
    %sin = arith.mulf %sin0, %size : f32
    %cos = arith.mulf %cos0, %size : f32
    %minus = arith.negf %sin : f32
    attn.yield %cos, %minus, %sin, %cos, %one : f32, f32, f32, f32, f32
  }
  finalize {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32, %n: f32):
    attn.yield %a, %b, %c, %d : f32, f32, f32, f32
  }
}
func.func @f(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>)
    -> (tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  %m:4 = attn.aggregate @matprod scores(%q, %k : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>)
      {schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 16, splits = 4>}
      -> tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %m#0, %m#1, %m#2, %m#3 : tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
}
