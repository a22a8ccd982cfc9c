// RUN: attn-opt %s --attn-check-laws=properties=true --verify-diagnostics -o /dev/null

// Kind affine: the normaliser of mLSTM, and what the other kinds are of it.

// expected-remark@+1 {{path: row scans + matrix products (affine: a key's weight takes a factor of the keys before it and one of those behind it)}}
attn.monoid @mlstm affine stats(f32, f32) components(value, unit)
    outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    %none = arith.constant -3.40282347e+38 : f32
    attn.yield %zero, %none : f32, f32
  }
  combine {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %f = arith.addf %fa, %fb : f32
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    attn.yield %f, %m : f32, f32
  }
  factors {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    %da = arith.subf %decayed, %m : f32
    %alpha = math.exp %da : f32
    %db = arith.subf %mb, %m : f32
    %beta = math.exp %db : f32
    attn.yield %alpha, %beta : f32, f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32, %log_weight: f32):
    %none = arith.constant -3.40282347e+38 : f32
    %m = arith.maximumf %log_weight, %none : f32
    attn.yield %log_gate, %m, %s, %s : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%f: f32, %m: f32, %num: f32, %den: f32):
    %zero = arith.constant 0.0 : f32
    %size = math.absf %den : f32
    %minus = arith.negf %m : f32
    %one = math.exp %minus : f32
    %total = arith.maximumf %size, %one : f32
    %empty = arith.cmpf oeq, %total, %zero : f32
    %quot = arith.divf %num, %total : f32
    %o = arith.select %empty, %zero, %quot : f32
    attn.yield %o : f32
  }
}

// A suffix whose gates are numbers, and whose keys are counted: a key without a
// gate would be the identity else, which weighs nothing.
// expected-remark@+1 {{path: row scans + matrix products}}
attn.monoid @suffix affine stats(f32, f32) components(value, unit) {
  identity {
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %one, %zero : f32, f32
  }
  combine {
  ^bb0(%a: f32, %m: f32, %b: f32, %n: f32):
    %c = arith.mulf %a, %b : f32
    %count = arith.addf %m, %n : f32
    attn.yield %c, %count : f32, f32
  }
  factors {
  ^bb0(%a: f32, %m: f32, %b: f32, %n: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %b, %one : f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %size = math.absf %s : f32
    %log = arith.negf %size : f32
    %g = math.exp %log : f32
    attn.yield %g, %one, %s, %s : f32, f32, f32, f32
  }
}

// Softmax: a cocycle whose factors lead to the product.
// expected-remark@+1 {{path: row scans + matrix products}}
attn.monoid @softmax affine stats(f32) components(value, unit) params(f32)
    outputs("o") {
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
  factors {
  ^bb0(%a: f32, %b: f32, %tau: f32):
    %m = arith.maximumf %a, %b : f32
    %da = arith.subf %a, %m : f32
    %qa = arith.divf %da, %tau : f32
    %alpha = math.exp %qa : f32
    %db = arith.subf %b, %m : f32
    %qb = arith.divf %db, %tau : f32
    %beta = math.exp %qb : f32
    attn.yield %alpha, %beta : f32, f32
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
    attn.yield %o : f32
  }
}
