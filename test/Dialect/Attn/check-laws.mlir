// RUN: attn-opt %s --attn-check-laws=properties=true --verify-diagnostics -o /dev/null

// Softmax in base 2 with a temperature: a monoid with a parameter.
// expected-remark@+1 {{properties: commutative, rescale absorbs, dead is natural, relaxed maximum, gauge invariant "o", gauge invariant "lse2"}}
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

// The largest score and how many keys have it. A score that is smaller adds
// nothing; the count does not survive a change of the reference point.
// expected-remark@+1 {{properties: commutative, rescale absorbs, dead is natural}}
attn.monoid @max_count cocycle stats(f32) components(unit)
    outputs("max", "count") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %same = arith.cmpf oeq, %from, %to : f32
    %r = arith.select %same, %one, %zero : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
  finalize {
  ^bb0(%m: f32, %n: f32):
    attn.yield %m, %n : f32, f32
  }
}

// The logarithm of the sum itself as the statistic. Without the guard two
// identities would combine to NaN.
// expected-remark@+1 {{properties: commutative, rescale absorbs, dead is natural, relaxed maximum}}
attn.monoid @softmax_normalised cocycle stats(f32) components(value)
    outputs("o") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %ninf = arith.constant 0xFF800000 : f32
    %hi = arith.maximumf %a, %b : f32
    %lo = arith.minimumf %a, %b : f32
    %d = arith.subf %lo, %hi : f32
    %e = math.exp %d : f32
    %l = math.log1p %e : f32
    %sum = arith.addf %hi, %l : f32
    %empty = arith.cmpf oeq, %hi, %ninf : f32
    %c = arith.select %empty, %ninf, %sum : f32
    attn.yield %c : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}

// A factor for each component. The ratio moves with no reference point, each
// sum scaled by its own factor; the sum of squares alone does.
// expected-remark@+1 {{properties: commutative, rescale absorbs, dead is natural, relaxed maximum, gauge invariant "ratio"}}
attn.monoid @participation cocycle stats(f32) components(unit, unit)
    outputs("ratio", "squares") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    %r2 = arith.mulf %r, %r : f32
    attn.yield %r, %r2 : f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %sum: f32, %squares: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %square = arith.mulf %sum, %sum : f32
    %p = arith.divf %square, %squares : f32
    %ratio = arith.select %empty, %zero, %p : f32
    attn.yield %ratio, %squares : f32, f32
  }
}

// The two largest scores: a key that is not larger than the second changes nothing.
// expected-remark@+1 {{threshold in state 2}}
attn.monoid @top general stats(f32, f32, f32) components(unit) outputs("where", "second") {
  identity { %e = arith.constant 0xFF800000 : f32 %no = arith.constant -1.0 : f32
             %z = arith.constant 0.0 : f32 attn.yield %e, %no, %e, %z : f32, f32, f32, f32 }
  combine { ^bb0(%a: f32, %i: f32, %a2: f32, %x: f32, %b: f32, %j: f32, %b2: f32, %y: f32):
    %wins = arith.cmpf ogt, %b, %a : f32
    %c = arith.select %wins, %b, %a : f32
    %k = arith.select %wins, %j, %i : f32
    %worse = arith.select %wins, %a, %b : f32
    %seconds = arith.maximumf %a2, %b2 : f32
    %second = arith.maximumf %worse, %seconds : f32
    attn.yield %c, %k, %second, %x : f32, f32, f32, f32 }
  lift { ^bb0(%s: f32, %j: i32): %none = arith.constant -3.40282347e+38 : f32
         %z = arith.constant 0.0 : f32 %at = arith.sitofp %j : i32 to f32
         attn.yield %s, %at, %none, %z : f32, f32, f32, f32 }
  finalize { ^bb0(%c: f32, %k: f32, %second: f32, %x: f32): attn.yield %k, %second : f32, f32 }
}

// The same with their number: every key counts.
// expected-remark-re@+1 {{path: element by element{{.*}}}}
attn.monoid @best_of general stats(f32, f32) components(unit) outputs("where", "count") {
  identity { %e = arith.constant 0xFF800000 : f32 %no = arith.constant -1.0 : f32
             %z = arith.constant 0.0 : f32 attn.yield %e, %no, %z : f32, f32, f32 }
  combine { ^bb0(%a: f32, %i: f32, %n: f32, %b: f32, %j: f32, %m: f32):
    %wins = arith.cmpf ogt, %b, %a : f32
    %c = arith.select %wins, %b, %a : f32
    %k = arith.select %wins, %j, %i : f32
    %count = arith.addf %n, %m : f32
    attn.yield %c, %k, %count : f32, f32, f32 }
  lift { ^bb0(%s: f32, %j: i32): %one = arith.constant 1.0 : f32
         %at = arith.sitofp %j : i32 to f32 attn.yield %s, %at, %one : f32, f32, f32 }
  finalize { ^bb0(%c: f32, %k: f32, %n: f32): attn.yield %k, %n : f32, f32 }
}
