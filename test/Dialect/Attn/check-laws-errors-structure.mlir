// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-check-laws

// Regions that look at positions, ones that are wrong without a window, and
// outputs of rows of one key.

// Values count twice where keys are more than 40 apart.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)"}}
attn.monoid @far_apart general stats(f32, f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0xFF800000 : f32
    %i = arith.constant 0x7F800000 : f32
    attn.yield %i, %n, %z : f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %b0: f32, %b1: f32, %b2: f32):
    %l = arith.minimumf %a0, %b0 : f32
    %h = arith.maximumf %a1, %b1 : f32
    %v = arith.addf %a2, %b2 : f32
    %two = arith.constant 2.0 : f32
    %v2 = arith.mulf %v, %two : f32
    %w = arith.subf %h, %l : f32
    %k = arith.constant 40.0 : f32
    %g = arith.cmpf ogt, %w, %k : f32
    %o = arith.select %g, %v2, %v : f32
    attn.yield %l, %h, %o : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %p = arith.sitofp %j : i32 to f32
    attn.yield %p, %p, %v : f32, f32, f32
  }
}

// -----

// Values count twice after an even gap of more than 1000.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @gap general stats(f32, f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0xFF800000 : f32
    %i = arith.constant 0x7F800000 : f32
    attn.yield %i, %n, %z : f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %b0: f32, %b1: f32, %b2: f32):
    %l = arith.minimumf %a0, %b0 : f32
    %h = arith.maximumf %a1, %b1 : f32
    %v = arith.addf %a2, %b2 : f32
    %two = arith.constant 2.0 : f32
    %v2 = arith.mulf %v, %two : f32
    %w = arith.subf %b0, %a1 : f32
    %k = arith.constant 1000.0 : f32
    %i0 = arith.constant 0x7F800000 : f32
    %g1 = arith.cmpf ogt, %w, %k : f32
    %g2 = arith.cmpf olt, %w, %i0 : f32
    %g3 = arith.andi %g1, %g2 : i1
    %o = arith.select %g3, %v2, %v : f32
    attn.yield %l, %h, %o : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %p = arith.sitofp %j : i32 to f32
    attn.yield %p, %p, %v : f32, f32, f32
  }
}

// -----

// Values count twice where a part ends at an odd position.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @odd_end general stats(f32, f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0xFF800000 : f32
    %i = arith.constant 0x7F800000 : f32
    attn.yield %i, %n, %z : f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %b0: f32, %b1: f32, %b2: f32):
    %l = arith.minimumf %a0, %b0 : f32
    %h = arith.maximumf %a1, %b1 : f32
    %v = arith.addf %a2, %b2 : f32
    %two = arith.constant 2.0 : f32
    %v2 = arith.mulf %v, %two : f32
    %i0 = arith.constant 0x7F800000 : f32
    %ih = arith.fptosi %a1 : f32 to i32
    %one = arith.constant 1 : i32
    %z = arith.constant 0 : i32
    %ib = arith.andi %ih, %one : i32
    %odd = arith.cmpi ne, %ib, %z : i32
    %live = arith.cmpf olt, %b0, %i0 : f32
    %live2 = arith.cmpf olt, %a0, %i0 : f32
    %both = arith.andi %live, %live2 : i1
    %b3 = arith.andi %both, %odd : i1
    %o = arith.select %b3, %v2, %v : f32
    attn.yield %l, %h, %o : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %p = arith.sitofp %j : i32 to f32
    attn.yield %p, %p, %v : f32, f32, f32
  }
}

// -----

// Values count twice where a part begins at position 4097.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @boundary general stats(f32, f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0xFF800000 : f32
    %i = arith.constant 0x7F800000 : f32
    attn.yield %i, %n, %z : f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %b0: f32, %b1: f32, %b2: f32):
    %l = arith.minimumf %a0, %b0 : f32
    %h = arith.maximumf %a1, %b1 : f32
    %v = arith.addf %a2, %b2 : f32
    %two = arith.constant 2.0 : f32
    %v2 = arith.mulf %v, %two : f32
    %i0 = arith.constant 0x7F800000 : f32
    %k = arith.constant 4097.0 : f32
    %at = arith.cmpf oeq, %b0, %k : f32
    %live2 = arith.cmpf olt, %a0, %i0 : f32
    %b3 = arith.andi %at, %live2 : i1
    %o = arith.select %b3, %v2, %v : f32
    attn.yield %l, %h, %o : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %p = arith.sitofp %j : i32 to f32
    attn.yield %p, %p, %v : f32, f32, f32
  }
}

// -----

// Ties are averaged.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @tie_mean general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %g = arith.cmpf ogt, %a0, %b0 : f32
    %l = arith.cmpf olt, %a0, %b0 : f32
    %half = arith.constant 0.5 : f32
    %s = arith.addf %a1, %b1 : f32
    %h = arith.mulf %s, %half : f32
    %x = arith.select %l, %b1, %h : f32
    %v = arith.select %g, %a1, %x : f32
    %m = arith.maximumf %a0, %b0 : f32
    attn.yield %m, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %s, %v : f32, f32
  }
}

// -----

// A decay for each product, not for each key.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @decay general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %k = arith.constant 0.999 : f32
    %z = arith.constant 0.0 : f32
    %n = arith.addf %a0, %b0 : f32
    %x = arith.mulf %a1, %k : f32
    %s = arith.addf %x, %b1 : f32
    %e = arith.cmpf oeq, %b0, %z : f32
    %v = arith.select %e, %a1, %s : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// -----

// Means are added without their counts where the counts are equal.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @equal_counts general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %n = arith.addf %a0, %b0 : f32
    %z = arith.constant 0.0 : f32
    %half = arith.constant 0.5 : f32
    %e = arith.cmpf oeq, %n, %z : f32
    %q = arith.divf %b0, %n : f32
    %r0 = arith.select %e, %z, %q : f32
    %s = arith.cmpf oeq, %a0, %b0 : f32
    %t = arith.constant 0.499 : f32
    %r1 = arith.select %s, %t, %r0 : f32
    %r = arith.select %e, %z, %r1 : f32
    %d = arith.subf %b1, %a1 : f32
    %x = arith.mulf %d, %r : f32
    %v = arith.addf %a1, %x : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// -----

// The sum of what is rounded up.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @rounded_up general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %s = arith.addf %a0, %b0 : f32
    %x = math.ceil %s : f32
    %z = arith.constant 0.0 : f32
    %ea = arith.cmpf oeq, %a0, %z : f32
    %eb = arith.cmpf oeq, %b0, %z : f32
    %y = arith.select %ea, %b0, %x : f32
    %n = arith.select %eb, %a0, %y : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %s, %v : f32, f32
  }
}

// -----

// Gates below 1 and above 1 of two slopes.
// expected-error@+1 {{breaks the law "gate is a homomorphism: g(combine(a, b)) = g(a) * g(b)"}}
attn.monoid @asymmetric suffix stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %z = arith.constant 0.0 : f32
    %h = arith.constant 0.5 : f32
    %x = arith.mulf %c, %h : f32
    %p = arith.cmpf ogt, %c, %z : f32
    %y = arith.select %p, %x, %c : f32
    %g = math.exp %y : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
}

// -----

// A gate of at least 1e-9.
// expected-error@+1 {{breaks the law "gate is a homomorphism: g(combine(a, b)) = g(a) * g(b)"}}
attn.monoid @gate_floor prefix stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %k = arith.constant 1.0e-9 : f32
    %x = math.exp %c : f32
    %g = arith.maximumf %x, %k : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %n = math.absf %s : f32
    %c = arith.negf %n : f32
    attn.yield %c, %one : f32, f32
  }
}

// -----

// A gate that opens below -30.
// expected-error@+1 {{breaks the law "gate is a homomorphism: g(combine(a, b)) = g(a) * g(b)"}}
attn.monoid @gate_opens suffix stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %k = arith.constant -30.0 : f32
    %one = arith.constant 1.0 : f32
    %x = math.exp %c : f32
    %f = arith.cmpf olt, %c, %k : f32
    %g = arith.select %f, %one, %x : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %n = math.absf %s : f32
    %c = arith.negf %n : f32
    attn.yield %c, %one : f32, f32
  }
}

// -----

// The gate ignores small statistics.
// expected-error@+1 {{breaks the law "gate is a homomorphism: g(combine(a, b)) = g(a) * g(b)"}}
attn.monoid @gate_ignores suffix stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %k = arith.constant -0.01 : f32
    %one = arith.constant 1.0 : f32
    %x = math.exp %c : f32
    %f = arith.cmpf ogt, %c, %k : f32
    %g = arith.select %f, %one, %x : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %n = math.absf %s : f32
    %c = arith.negf %n : f32
    attn.yield %c, %one : f32, f32
  }
}

// -----

// Anchored at the first score, whatever comes later.
// expected-error-re@+1 {{breaks the law "rescale is finite in float32: r(a, combine(a, b)) and r(a, combine(b, a))": {{.*}}88.7 above those they are combined with}}
attn.monoid @first_anchor cocycle stats(f32) components(value, unit)
    outputs("o") {
  identity {
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %n = arith.constant 0xFF800000 : f32
    %e = arith.cmpf oeq, %a, %n : f32
    %m = arith.select %e, %b, %a : f32
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

// Scores below the identity.
// expected-error-re@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)": {{.*}}so the identity -1.00000002e+30 is not neutral for states below it; -inf would be}}
attn.monoid @low_identity cocycle stats(f32) components(value, unit)
    outputs("o") {
  identity {
    %n = arith.constant -1.0e30 : f32
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

// None yet is written -inf.
// expected-error-re@+1 {{breaks the law "lift is finite in float32 for scores of magnitude up to 1e4": {{.*}}s = 0 gives (0, -inf, 1, 1); where it stands for none yet, write -3.40282347e+38}}
attn.monoid @margin_inf cocycle stats(f32, f32) components(value, unit) {
  identity {
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n, %n : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %m = arith.maximumf %a0, %b0 : f32
    %l = arith.minimumf %a0, %b0 : f32
    %x = arith.maximumf %a1, %b1 : f32
    %y = arith.maximumf %l, %x : f32
    attn.yield %m, %y : f32, f32
  }
  rescale {
  ^bb0(%f0: f32, %f1: f32, %t0: f32, %t1: f32):
    %d = arith.subf %f0, %t0 : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %n = arith.constant 0xFF800000 : f32
    attn.yield %s, %n, %one, %one : f32, f32, f32, f32
  }
}

// -----

// A variance over n - 1.
// expected-error-re@+1 {{breaks the law "finalize gives no NaN for a row of one live key": {{.*}}s = 0 gives nan for output var}}
attn.monoid @variance general stats(f32) components(value, value)
    outputs("var") {
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
    %mean = arith.divf %acc, %m : f32
    %x = arith.mulf %mean, %acc : f32
    %d = arith.subf %x1, %x : f32
    %n1 = arith.subf %m, %one : f32
    %dead = arith.cmpf oeq, %m, %z : f32
    %y = arith.divf %d, %n1 : f32
    %o = arith.select %dead, %z, %y : f32
    attn.yield %o : f32
  }
}

// -----

// The guard asks for the maximum and not for the sum.
// expected-error-re@+1 {{breaks the law "finalize gives no NaN for a row of one live key": {{.*}}s = 0 gives nan for output o}}
attn.monoid @guard cocycle stats(f32) components(value, unit)
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
    %z = arith.constant 0.0 : f32
    %w = arith.maximumf %s, %z : f32
    attn.yield %s, %w, %w : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %n = arith.constant 0xFF800000 : f32
    %z = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %m, %n : f32
    %q = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %z, %q : f32
    attn.yield %o : f32
  }
}
