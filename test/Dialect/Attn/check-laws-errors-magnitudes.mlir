// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-check-laws

// Regions that are wrong where scores are large or small, and ones whose numbers
// are so large that they seem to excuse an error.

// The first of two scores beyond 5000.
// expected-error@+1 {{breaks the law "rescale is finite in float32: r(a, combine(a, b)) and r(a, combine(b, a))"}}
attn.monoid @beyond_5000 cocycle stats(f32) components(value, unit)
    outputs("o") {
  identity {
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %k = arith.constant 5000.0 : f32
    %m = arith.maximumf %a, %b : f32
    %far = arith.cmpf ogt, %a, %k : f32
    %nb = arith.cmpf ogt, %b, %k : f32
    %both = arith.andi %far, %nb : i1
    %o = arith.select %both, %a, %m : f32
    attn.yield %o : f32
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
    attn.yield %s, %one, %one : f32, f32, f32
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

// -----

// Scores that differ by less than 0.001 tie.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @tie cocycle stats(f32) components(value, unit)
    outputs("o") {
  identity {
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %k = arith.constant 0.001 : f32
    %b2 = arith.subf %b, %k : f32
    %f = arith.cmpf oge, %a, %b2 : f32
    %o = arith.select %f, %a, %b : f32
    attn.yield %o : f32
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
    attn.yield %s, %one, %one : f32, f32, f32
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

// -----

// The exponent stops at -104.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @clamped cocycle stats(f32) components(value, unit)
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
    %k = arith.constant -104.0 : f32
    %e = arith.maximumf %d, %k : f32
    %r = math.exp %e : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
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

// -----

// A factor of at least 1e-30.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @floor cocycle stats(f32) components(value, unit)
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
    %k = arith.constant 1.0e-30 : f32
    %e = math.exp %d : f32
    %r = arith.maximumf %e, %k : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
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

// -----

// One part in a million is missing.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @millionth cocycle stats(f32) components(value, unit)
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
    %k = arith.constant 0.999999 : f32
    %one = arith.constant 1.0 : f32
    %z = arith.constant 0.0 : f32
    %e = math.exp %d : f32
    %x = arith.mulf %e, %k : f32
    %s = arith.cmpf oeq, %d, %z : f32
    %r = arith.select %s, %one, %x : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
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

// -----

// The exponential of a spreadsheet.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @series cocycle stats(f32) components(value, unit)
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
    %one = arith.constant 1.0 : f32
    %h = arith.constant 256.0 : f32
    %q = arith.divf %d, %h : f32
    %x = arith.addf %one, %q : f32
    %z = arith.constant 0.0 : f32
    %y = arith.maximumf %x, %z : f32
    %r = math.powf %y, %h : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
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

// -----

// Two weights of 1.6e38 are infinite.
// expected-error-re@+1 {{breaks the law "the weights of 1024 keys have a finite sum in float32 for scores of magnitude up to 1e4": {{.*}}a weight may be 1.65163627e+38}}
attn.monoid @weight_overflow cocycle stats() components(value, unit) {
  lift {
  ^bb0(%s: f32):
    %k = arith.constant 88.0 : f32
    %x = arith.minimumf %s, %k : f32
    %w = math.exp %x : f32
    attn.yield %w, %w : f32, f32
  }
}

// -----

// A mean, behind an exponential that is never used.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @mean_behind_exp cocycle stats(f32) components(unit) {
  identity {
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %k = arith.constant 69.0 : f32
    %half = arith.constant 0.5 : f32
    %n = arith.constant 0xFF800000 : f32
    %s = arith.addf %a, %b : f32
    %m0 = arith.mulf %s, %half : f32
    %t = math.tanh %a : f32
    %t1 = arith.addf %t, %k : f32
    %j = math.exp %t1 : f32
    %ok = arith.cmpf ogt, %j, %n : f32
    %m1 = arith.select %ok, %m0, %n : f32
    %ea = arith.cmpf oeq, %a, %n : f32
    %eb = arith.cmpf oeq, %b, %n : f32
    %m2 = arith.select %ea, %b, %m1 : f32
    %m = arith.select %eb, %a, %m2 : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%f: f32, %t: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %one : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
}

// -----

// A mean, beside a statistic of 1e20.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @mean_beside_huge general stats(f32, f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z, %z : f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %b0: f32, %b1: f32, %b2: f32):
    %z = arith.constant 0.0 : f32
    %half = arith.constant 0.5 : f32
    %m = arith.maximumf %a0, %b0 : f32
    %v = arith.addf %a2, %b2 : f32
    %ea = arith.cmpf oeq, %a0, %z : f32
    %eb = arith.cmpf oeq, %b0, %z : f32
    %s = arith.addf %a1, %b1 : f32
    %h = arith.mulf %s, %half : f32
    %x = arith.select %ea, %b1, %h : f32
    %y = arith.select %eb, %a1, %x : f32
    attn.yield %m, %y, %v : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %k = arith.constant 1.0e20 : f32
    attn.yield %k, %s, %v : f32, f32, f32
  }
}

// -----

// Rounded by a multiply-add with 1e9 and back.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)"}}
attn.monoid @multiply_add general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %k = arith.constant 1.0e9 : f32
    %one = arith.constant 1.0 : f32
    %nk = arith.negf %k : f32
    %x = math.fma %k, %one, %a0 : f32
    %y = math.fma %k, %one, %b0 : f32
    %s = arith.addf %x, %y : f32
    %t = arith.addf %s, %nk : f32
    %n = arith.addf %t, %nk : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %s, %v : f32, f32
  }
}

// -----

// The example names what makes the factor infinite: exp(300 (2 - -1)).
// expected-error@+1 {{breaks the law "rescale is finite in float32: r(a, combine(a, b)) and r(a, combine(b, a))": a = -1, b = 2 gives inf}}
attn.monoid @steep cocycle stats(f32) components(unit) {
  identity {
    %e = arith.constant 0xFF800000 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    attn.yield %c : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %steep = arith.constant 300.0 : f32
    %d = arith.subf %to, %from : f32
    %s = arith.mulf %d, %steep : f32
    %r = math.exp %s : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
}
