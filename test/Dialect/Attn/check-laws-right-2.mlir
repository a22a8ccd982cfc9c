// RUN: attn-opt %s --attn-check-laws -o /dev/null

// Monoids that no law may refuse.

// Squares of rectified scores, normalised.
attn.monoid @relu2_norm cocycle stats() components(value, unit)
    outputs("o") {
  lift {
  ^bb0(%s: f32):
    %z = arith.constant 0.0 : f32
    %r = arith.maximumf %s, %z : f32
    %w = arith.mulf %r, %r : f32
    attn.yield %w, %w : f32, f32
  }
  finalize {
  ^bb0(%acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %q = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %q : f32
    attn.yield %o : f32
  }
}

// How many keys.
attn.monoid @count general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %n = arith.addf %a0, %b0 : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// The first key and its value.
attn.monoid @first_key general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0x7F800000 : f32
    attn.yield %n, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %f = arith.cmpf ole, %a0, %b0 : f32
    %n = arith.select %f, %a0, %b0 : f32
    %v = arith.select %f, %a1, %b1 : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %p = arith.sitofp %j : i32 to f32
    attn.yield %p, %v : f32, f32
  }
}

// A maximum and the sum relative to it.
attn.monoid @logsumexp_pair general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %m = arith.maximumf %a0, %b0 : f32
    %n = arith.constant 0xFF800000 : f32
    %z = arith.constant 0.0 : f32
    %da = arith.subf %a0, %m : f32
    %db = arith.subf %b0, %m : f32
    %ea = math.exp %da : f32
    %eb = math.exp %db : f32
    %na = arith.cmpf oeq, %a0, %n : f32
    %nb = arith.cmpf oeq, %b0, %n : f32
    %fa = arith.select %na, %z, %ea : f32
    %fb = arith.select %nb, %z, %eb : f32
    %x = arith.mulf %fa, %a1 : f32
    %y = arith.mulf %fb, %b1 : f32
    %s = arith.addf %x, %y : f32
    attn.yield %m, %s : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %v : f32, f32
  }
}

// The value of the largest score, of the first of equal ones.
attn.monoid @argmax general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %f = arith.cmpf oge, %a0, %b0 : f32
    %n = arith.select %f, %a0, %b0 : f32
    %v = arith.select %f, %a1, %b1 : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %s, %v : f32, f32
  }
}

// A product of turns of the plane, as complex numbers.
attn.monoid @turns general stats(f32, f32) components(unit)
    outputs("re", "im") {
  identity {
    %z = arith.constant 0.0 : f32
    %o = arith.constant 1.0 : f32
    attn.yield %o, %z, %z : f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %b0: f32, %b1: f32, %b2: f32):
    %x = arith.mulf %a0, %b0 : f32
    %y = arith.mulf %a1, %b1 : f32
    %re = arith.subf %x, %y : f32
    %u = arith.mulf %a0, %b1 : f32
    %w = arith.mulf %a1, %b0 : f32
    %im = arith.addf %u, %w : f32
    %z = arith.addf %a2, %b2 : f32
    attn.yield %re, %im, %z : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    %co = math.cos %s : f32
    %si = math.sin %s : f32
    attn.yield %co, %si, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m0: f32, %m1: f32, %sum: f32):
    attn.yield %m0, %m1 : f32, f32
  }
}

// The range of the scores.
attn.monoid @range general stats(f32, f32) components(unit)
    outputs("range") {
  identity {
    %n = arith.constant 0xFF800000 : f32
    %i = arith.constant 0x7F800000 : f32
    %z = arith.constant 0.0 : f32
    attn.yield %i, %n, %z : f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %b0: f32, %b1: f32, %b2: f32):
    %l = arith.minimumf %a0, %b0 : f32
    %h = arith.maximumf %a1, %b1 : f32
    %z = arith.addf %a2, %b2 : f32
    attn.yield %l, %h, %z : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %s, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m0: f32, %m1: f32, %sum: f32):
    %z = arith.constant 0.0 : f32
    %e = arith.cmpf oeq, %sum, %z : f32
    %d = arith.subf %m1, %m0 : f32
    %o = arith.select %e, %z, %d : f32
    attn.yield %o : f32
  }
}

// Weights of bf16: each key rounds for itself.
attn.monoid @bf16_weights cocycle stats(f32) components(value, unit)
    outputs("o") {
  identity {
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%f: f32, %t: f32):
    %d = arith.subf %f, %t : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %k = arith.constant 0.3 : f32
    %t = math.tanh %s : f32
    %x = arith.mulf %t, %k : f32
    %y = arith.addf %x, %one : f32
    %wn = arith.truncf %y : f32 to bf16
    %w = arith.extf %wn : bf16 to f32
    attn.yield %s, %w, %w : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %q = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %q : f32
    attn.yield %o : f32
  }
}

// Sums in f64, kept in f32.
attn.monoid @wide_sum general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %x = arith.extf %a0 : f32 to f64
    %y = arith.extf %b0 : f32 to f64
    %s = arith.addf %x, %y : f64
    %n = arith.truncf %s : f64 to f32
    %v = arith.addf %a1, %b1 : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %s, %v : f32, f32
  }
}

// Values fade with the distance of positions.
attn.monoid @fading general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %z = arith.constant 0.0 : f32
    %k = arith.constant -0.01 : f32
    %h = arith.maximumf %a0, %b0 : f32
    %d = arith.subf %h, %a0 : f32
    %x = arith.mulf %d, %k : f32
    %e = math.exp %x : f32
    %d2 = arith.subf %h, %b0 : f32
    %x2 = arith.mulf %d2, %k : f32
    %e2 = math.exp %x2 : f32
    %n = arith.constant 0xFF800000 : f32
    %na = arith.cmpf oeq, %a0, %n : f32
    %nb = arith.cmpf oeq, %b0, %n : f32
    %fa = arith.select %na, %z, %e : f32
    %fb = arith.select %nb, %z, %e2 : f32
    %y = arith.mulf %fa, %a1 : f32
    %y2 = arith.mulf %fb, %b1 : f32
    %v = arith.addf %y, %y2 : f32
    attn.yield %h, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %p = arith.sitofp %j : i32 to f32
    attn.yield %p, %v : f32, f32
  }
}

// A set of eight classes as bits.
attn.monoid @classes general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %i = arith.fptosi %a0 : f32 to i32
    %ib = arith.fptosi %b0 : f32 to i32
    %io = arith.ori %i, %ib : i32
    %n = arith.sitofp %io : i32 to f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %k = arith.constant 7 : i32
    %i = arith.andi %j, %k : i32
    %one = arith.constant 1 : i32
    %is = arith.shli %one, %i : i32
    %n = arith.sitofp %is : i32 to f32
    attn.yield %n, %v : f32, f32
  }
}

// A count modulo 1000.
attn.monoid @modulo general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %k = arith.constant 1000.0 : f32
    %s = arith.addf %a0, %b0 : f32
    %n = arith.remf %s, %k : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// A count that stops at 100.
attn.monoid @stops general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %k = arith.constant 100.0 : f32
    %s = arith.addf %a0, %b0 : f32
    %n = arith.minimumf %s, %k : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// Mean and variance by sums.
attn.monoid @moments general stats(f32) components(value, value)
    outputs("mean", "var") {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z, %z : f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %b0: f32, %b1: f32, %b2: f32):
    %n = arith.addf %a0, %b0 : f32
    %v = arith.addf %a1, %b1 : f32
    %q = arith.addf %a2, %b2 : f32
    attn.yield %n, %v, %q : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %v1: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    %q = arith.mulf %v, %v : f32
    attn.yield %one, %v, %q : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %x1: f32):
    %one = arith.constant 1.0 : f32
    %z = arith.constant 0.0 : f32
    %d = arith.maximumf %m, %one : f32
    %mean = arith.divf %acc, %d : f32
    %sq = arith.divf %x1, %d : f32
    %x = arith.mulf %mean, %mean : f32
    %var = arith.subf %sq, %x : f32
    %o = arith.maximumf %var, %z : f32
    attn.yield %mean, %o : f32, f32
  }
}

// Weighted means merged by shares, the weight relu(s)^p.
attn.monoid @power cocycle stats() components(value, unit) params(f32)
    outputs("o") {
  lift {
  ^bb0(%s: f32, %p0: f32):
    %z = arith.constant 0.0 : f32
    %r = arith.maximumf %s, %z : f32
    %w = math.powf %r, %p0 : f32
    attn.yield %w, %w : f32, f32
  }
  finalize {
  ^bb0(%acc: f32, %sum: f32, %p0: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %q = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %q : f32
    attn.yield %o : f32
  }
}

// Harmonic sums, as of resistors.
attn.monoid @harmonic general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %z = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %ea = arith.cmpf oeq, %a0, %z : f32
    %eb = arith.cmpf oeq, %b0, %z : f32
    %x = arith.divf %one, %a0 : f32
    %y = arith.divf %one, %b0 : f32
    %s = arith.addf %x, %y : f32
    %q = arith.divf %one, %s : f32
    %q1 = arith.select %ea, %b0, %q : f32
    %n = arith.select %eb, %a0, %q1 : f32
    %v = arith.addf %a1, %b1 : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    %x = math.absf %s : f32
    %y = arith.addf %x, %one : f32
    attn.yield %y, %v : f32, f32
  }
}
