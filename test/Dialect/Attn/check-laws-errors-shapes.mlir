// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-check-laws

// Wrong for a number of keys, by saturation, by a bump without comparisons, and
// other shapes of error.

// A bump made of maxima, without a comparison.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @bump cocycle stats(f32) components(value, unit)
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
    %e = math.exp %d : f32
    %k = arith.constant 3.7 : f32
    %one = arith.constant 1.0 : f32
    %s = arith.addf %d, %k : f32
    %a = math.absf %s : f32
    %big = arith.constant 1.0e4 : f32
    %x = arith.mulf %a, %big : f32
    %y = arith.subf %one, %x : f32
    %z = arith.constant 0.0 : f32
    %b = arith.maximumf %y, %z : f32
    %h = arith.constant 0.01 : f32
    %q = arith.mulf %b, %h : f32
    %q1 = arith.addf %q, %one : f32
    %r = arith.mulf %e, %q1 : f32
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

// A sum through exp and log overflows in float32 from 88 on.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)"}}
attn.monoid @log_exp general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %x = math.exp %a0 : f32
    %y = math.exp %b0 : f32
    %z = arith.mulf %x, %y : f32
    %n = math.log %z : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %s, %v : f32, f32
  }
}

// -----

// A lift that is the identity where a tanh lies in a window.
// expected-error@+1 {{breaks the law "lift is finite in float32 for scores of magnitude up to 1e4"}}
attn.monoid @lift_window cocycle stats(f32) components(value, unit)
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
    %x = math.tanh %s : f32
    %h = arith.constant 0.7 : f32
    %h2 = arith.constant 0.70001 : f32
    %g1 = arith.cmpf ogt, %x, %h : f32
    %g2 = arith.cmpf olt, %x, %h2 : f32
    %bad = arith.andi %g1, %g2 : i1
    %n = arith.constant 0xFF800000 : f32
    %s2 = arith.select %bad, %n, %s : f32
    attn.yield %s2, %one, %one : f32, f32, f32
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

// A third moment over n - 2: NaN for rows of two keys.
// expected-error@+1 {{breaks the law "finalize gives no NaN for a row of 2 live keys"}}
attn.monoid @skew general stats(f32) components(value, value)
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
    %two = arith.constant 2.0 : f32
    %z = arith.constant 0.0 : f32
    %n2 = arith.subf %m, %two : f32
    %dead = arith.cmpf oeq, %m, %z : f32
    %y = arith.divf %z, %n2 : f32
    %o = arith.select %dead, %z, %y : f32
    attn.yield %o : f32
  }
}

// -----

// Three keys weigh nothing.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @third_key general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %n = arith.addf %a0, %b0 : f32
    %k = arith.constant 3.0 : f32
    %x = arith.cmpf oeq, %n, %k : f32
    %z = arith.constant 0.0 : f32
    %v2 = arith.select %x, %z, %v : f32
    attn.yield %n, %v2 : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// -----

// 777 keys weigh nothing.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @key777 general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %n = arith.addf %a0, %b0 : f32
    %k = arith.constant 777.0 : f32
    %x = arith.cmpf oeq, %n, %k : f32
    %z = arith.constant 0.0 : f32
    %v2 = arith.select %x, %z, %v : f32
    attn.yield %n, %v2 : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// -----

// Nor do 777 here, where no constant says so.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @key777hidden general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %n = arith.addf %a0, %b0 : f32
    %k = arith.constant 0.7770 : f32
    %h = arith.constant 0.001 : f32
    %ns = arith.mulf %n, %h : f32
    %d = arith.subf %ns, %k : f32
    %a = math.absf %d : f32
    %e = arith.constant 0.0004 : f32
    %x = arith.cmpf olt, %a, %e : f32
    %z = arith.constant 0.0 : f32
    %v2 = arith.select %x, %z, %v : f32
    attn.yield %n, %v2 : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// -----

// A count by additions in f16.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @f16_arith general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %x = arith.truncf %a0 : f32 to f16
    %y = arith.truncf %b0 : f32 to f16
    %s = arith.addf %x, %y : f16
    %n = arith.extf %s : f16 to f32
    %v = arith.addf %a1, %b1 : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// -----

// A count in i8 that saturates one way and wraps the other.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @ui8 general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %x = arith.fptoui %a0 : f32 to i8
    %y = arith.fptoui %b0 : f32 to i8
    %s = arith.addi %x, %y : i8
    %m = arith.maxui %s, %x : i8
    %n = arith.uitofp %m : i8 to f32
    %v = arith.addf %a1, %b1 : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// -----

// Fixed point of 16 bits behind the point: what is smaller is lost.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)"}}
attn.monoid @fixedpoint general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %k = arith.constant 65536.0 : f32
    %x = arith.mulf %a0, %k : f32
    %y = arith.mulf %b0, %k : f32
    %i = arith.fptosi %x : f32 to i32
    %ib = arith.fptosi %y : f32 to i32
    %is = arith.addi %i, %ib : i32
    %t = arith.sitofp %is : i32 to f32
    %n = arith.divf %t, %k : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %s, %v : f32, f32
  }
}

// -----

// The sign of the last key decides.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)"}}
attn.monoid @first_sign general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %x = math.copysign %a0, %b0 : f32
    %y = math.absf %b0 : f32
    %n = arith.addf %x, %y : f32
    %v = arith.addf %a1, %b1 : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %s, %v : f32, f32
  }
}

// -----

// Values count twice after an odd gap.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @gap_parity general stats(f32, f32) components(value) {
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
    %ia = arith.fptosi %a1 : f32 to i32
    %ib = arith.fptosi %b0 : f32 to i32
    %id = arith.subi %ib, %ia : i32
    %one = arith.constant 1 : i32
    %z = arith.constant 0 : i32
    %ip = arith.andi %id, %one : i32
    %odd = arith.cmpi ne, %ip, %z : i32
    %i0 = arith.constant 0x7F800000 : f32
    %l1 = arith.cmpf olt, %a0, %i0 : f32
    %l2 = arith.cmpf olt, %b0, %i0 : f32
    %l3 = arith.andi %l1, %l2 : i1
    %b4 = arith.andi %l3, %odd : i1
    %o = arith.select %b4, %v2, %v : f32
    attn.yield %l, %h, %o : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %p = arith.sitofp %j : i32 to f32
    attn.yield %p, %p, %v : f32, f32, f32
  }
}

// -----

// Values count twice beyond position 70000.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @pos70000 general stats(f32, f32) components(value) {
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
    %k = arith.constant 70000.0 : f32
    %g1 = arith.cmpf ogt, %h, %k : f32
    %z = arith.constant 0.0 : f32
    %i0 = arith.constant 0x7F800000 : f32
    %l1 = arith.cmpf olt, %a0, %i0 : f32
    %l2 = arith.cmpf olt, %b0, %i0 : f32
    %l3 = arith.andi %l1, %l2 : i1
    %b4 = arith.andi %l3, %g1 : i1
    %o = arith.select %b4, %v2, %v : f32
    attn.yield %l, %h, %o : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %p = arith.sitofp %j : i32 to f32
    attn.yield %p, %p, %v : f32, f32, f32
  }
}

// -----

// The value of the left key where the sum of scores is large.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @left_unless general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %n = arith.maximumf %a0, %b0 : f32
    %g = arith.cmpf ogt, %a0, %b0 : f32
    %v = arith.select %g, %a1, %b1 : f32
    %h = arith.constant 2.5 : f32
    %s = arith.addf %a0, %b0 : f32
    %big = arith.cmpf ogt, %s, %h : f32
    %v2 = arith.select %big, %a1, %v : f32
    attn.yield %n, %v2 : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %s, %v : f32, f32
  }
}

// -----

// Factors below exp(-20) are 0, but products of them are not.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @loses cocycle stats(f32) components(value, unit)
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
    %k = arith.constant -20.0 : f32
    %z = arith.constant 0.0 : f32
    %x = math.exp %d : f32
    %g = arith.cmpf olt, %d, %k : f32
    %r = arith.select %g, %z, %x : f32
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

// An anchor that adds.
// expected-error@+1 {{breaks the law "only the identity is the identity: combine(a, b) = e implies a = b = e"}}
attn.monoid @sum_anchor cocycle stats(f32) components(value, unit)
    outputs("o") {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
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

// A rational function for the exponential.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @rational cocycle stats(f32) components(value, unit)
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
    %d = arith.subf %t, %f : f32
    %one = arith.constant 1.0 : f32
    %x = arith.addf %d, %one : f32
    %y = arith.divf %one, %x : f32
    %r = arith.mulf %y, %y : f32
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

// Gates of a minimum.
// expected-error@+1 {{breaks the law "gate is a homomorphism: g(combine(a, b)) = g(a) * g(b)"}}
attn.monoid @gate_max suffix stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.minimumf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %g = math.exp %c : f32
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

// Wrong for params above 50.
// expected-error@+1 {{breaks the law "rescale to itself: r(a, a) = 1"}}
attn.monoid @param_power cocycle stats(f32) components(value, unit) params(f32)
    outputs("o") {
  identity {
  ^bb0(%p0: f32):
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32, %p0: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%f: f32, %t: f32, %p0: f32):
    %d = arith.subf %f, %t : f32
    %e = math.exp %d : f32
    %r = math.powf %e, %p0 : f32
    %k = arith.constant 50.0 : f32
    %g = arith.cmpf ogt, %p0, %k : f32
    %h = arith.constant 0.9 : f32
    %one = arith.constant 1.0 : f32
    %x = arith.select %g, %h, %one : f32
    %o = arith.mulf %r, %x : f32
    attn.yield %o : f32
  }
  lift {
  ^bb0(%s: f32, %p0: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %p0: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %q = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %q : f32
    attn.yield %o : f32
  }
}

// -----

// Wrong where the product of two params is above 30.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @param_two cocycle stats(f32) components(value, unit) params(f32, f32)
    outputs("o") {
  identity {
  ^bb0(%p0: f32, %p1: f32):
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32, %p0: f32, %p1: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%f: f32, %t: f32, %p0: f32, %p1: f32):
    %d = arith.subf %f, %t : f32
    %x = arith.mulf %d, %p0 : f32
    %e = math.exp %x : f32
    %y = arith.mulf %p0, %p1 : f32
    %k = arith.constant 30.0 : f32
    %g = arith.cmpf ogt, %y, %k : f32
    %z = arith.constant 0.0 : f32
    %n = arith.cmpf olt, %d, %z : f32
    %gg = arith.andi %g, %n : i1
    %h = arith.constant 0.9 : f32
    %one = arith.constant 1.0 : f32
    %q = arith.select %gg, %h, %one : f32
    %o = arith.mulf %e, %q : f32
    attn.yield %o : f32
  }
  lift {
  ^bb0(%s: f32, %p0: f32, %p1: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %p0: f32, %p1: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %q = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %q : f32
    attn.yield %o : f32
  }
}

// -----

// Logarithms of gates added in bf16.
// expected-error@+1 {{breaks the law "gate is a homomorphism: g(combine(a, b)) = g(a) * g(b)"}}
attn.monoid @bf16_gate_sum suffix stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %x = arith.addf %a, %b : f32
    %cn = arith.truncf %x : f32 to bf16
    %c = arith.extf %cn : bf16 to f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %g = math.exp %c : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %xn = arith.truncf %s : f32 to bf16
    %x = arith.extf %xn : bf16 to f32
    %n = math.absf %x : f32
    %c = arith.negf %n : f32
    attn.yield %c, %one : f32, f32
  }
}

// -----

// Gates of f16.
// expected-error@+1 {{breaks the law "gate is a homomorphism: g(combine(a, b)) = g(a) * g(b)"}}
attn.monoid @f16_gate suffix stats(f32) components(value) {
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
    %x = math.exp %c : f32
    %gn = arith.truncf %x : f32 to f16
    %g = arith.extf %gn : f16 to f32
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

// A sum that is kept between -5 and 5.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @clamp general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %x = arith.addf %a0, %b0 : f32
    %k = arith.constant 5.0 : f32
    %nk = arith.negf %k : f32
    %y = arith.minimumf %x, %k : f32
    %n = arith.maximumf %y, %nk : f32
    %v = arith.addf %a1, %b1 : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %s, %v : f32, f32
  }
}

// -----

// A hash that depends on where parts end.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)"}}
attn.monoid @hash general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %i = arith.fptosi %a0 : f32 to i32
    %ib = arith.fptosi %b0 : f32 to i32
    %m = arith.constant 31 : i32
    %ix = arith.muli %i, %m : i32
    %is = arith.addi %ix, %ib : i32
    %k = arith.constant 65535 : i32
    %iy = arith.andi %is, %k : i32
    %n = arith.sitofp %iy : i32 to f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %k = arith.constant 255 : i32
    %i = arith.andi %j, %k : i32
    %n = arith.sitofp %i : i32 to f32
    attn.yield %n, %v : f32, f32
  }
}
