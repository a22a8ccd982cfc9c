// Softmax in base 2 with a temperature, keys fading with their distance.
attn.monoid @softmax2 cocycle stats(f32) components(value, unit) params(f32)
    outputs("o", "lse2") {
  identity {
  ^bb0(%tau: f32):
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32, %tau: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32, %tau: f32):
    %d = arith.subf %from, %to : f32
    %q = arith.divf %d, %tau : f32
    %r = math.exp2 %q : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32, %tau: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %tau: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %log = math.log2 %sum : f32
    %scaled = arith.mulf %log, %tau : f32
    %lse = arith.addf %m, %scaled : f32
    attn.yield %o, %lse : f32, f32
  }
}

func.func @fading(%q: tensor<?x?x?x32xf32>, %k: tensor<?x?x?x32xf32>,
                  %v: tensor<?x?x?x32xf32>, %tau: f32, %fade: f32)
    -> (tensor<?x?x?x32xf32>, tensor<?x?x?xf32>) {
  %o, %lse = attn.aggregate @softmax2 params(%tau : f32)
      scores(%q, %k : tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>)
      values(%v : tensor<?x?x?x32xf32>) captures(%fade : f32)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %f: f32):
      %apart = arith.subi %i, %j : i32
      %distance = math.absi %apart : i32
      %x = arith.sitofp %distance : i32 to f32
      %y = arith.mulf %x, %f : f32
      %z = arith.subf %s, %y : f32
      attn.yield %z : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %f: f32):
      %three = arith.constant 3 : i32
      %sum = arith.addi %i, %j : i32
      %rest = arith.remsi %sum, %three : i32
      %zero = arith.constant 0 : i32
      %live = arith.cmpi ne, %rest, %zero : i32
      attn.yield %live : i1
    } -> tensor<?x?x?x32xf32>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x32xf32>, tensor<?x?x?xf32>
}
