// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-check-laws

// Regions that are wrong for some params only, or in a narrow window whose bounds
// may be hidden.

// Wrong for params above 4.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @large_param cocycle stats(f32) components(value, unit) params(f32)
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
    %q = arith.divf %d, %p0 : f32
    %r = math.exp %q : f32
    %one = arith.constant 1.0 : f32
    %k = arith.constant 0.5 : f32
    %z = arith.constant 0.0 : f32
    %l = arith.cmpf olt, %d, %z : f32
    %h = arith.constant 4.0 : f32
    %g = arith.cmpf ogt, %p0, %h : f32
    %bad = arith.andi %l, %g : i1
    %x = arith.select %bad, %k, %one : f32
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

// Wrong for params above 100.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @larger_param cocycle stats(f32) components(value, unit) params(f32)
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
    %q = arith.divf %d, %p0 : f32
    %r = math.exp %q : f32
    %one = arith.constant 1.0 : f32
    %k = arith.constant 0.5 : f32
    %z = arith.constant 0.0 : f32
    %l = arith.cmpf olt, %d, %z : f32
    %h = arith.constant 100.0 : f32
    %g = arith.cmpf ogt, %p0, %h : f32
    %bad = arith.andi %l, %g : i1
    %x = arith.select %bad, %k, %one : f32
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

// Wrong for params below 0.02.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @small_param cocycle stats(f32) components(value, unit) params(f32)
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
    %q = arith.divf %d, %p0 : f32
    %r = math.exp %q : f32
    %one = arith.constant 1.0 : f32
    %k = arith.constant 0.5 : f32
    %z = arith.constant 0.0 : f32
    %l = arith.cmpf olt, %d, %z : f32
    %h = arith.constant 0.02 : f32
    %g = arith.cmpf olt, %p0, %h : f32
    %bad = arith.andi %l, %g : i1
    %x = arith.select %bad, %k, %one : f32
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

// Wrong for params between 7.25 and 7.26.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @narrow_param cocycle stats(f32) components(value, unit) params(f32)
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
    %q = arith.divf %d, %p0 : f32
    %r = math.exp %q : f32
    %one = arith.constant 1.0 : f32
    %k = arith.constant 0.5 : f32
    %z = arith.constant 0.0 : f32
    %l = arith.cmpf olt, %d, %z : f32
    %h = arith.constant 7.25 : f32
    %h2 = arith.constant 7.26 : f32
    %g1 = arith.cmpf ogt, %p0, %h : f32
    %g2 = arith.cmpf olt, %p0, %h2 : f32
    %g = arith.andi %g1, %g2 : i1
    %bad = arith.andi %l, %g : i1
    %x = arith.select %bad, %k, %one : f32
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

// The gate forgets its param for long products.
// expected-error@+1 {{breaks the law "gate is a homomorphism: g(combine(a, b)) = g(a) * g(b)"}}
attn.monoid @gate_param suffix stats(f32) components(value) params(f32) {
  identity {
  ^bb0(%p0: f32):
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32, %p0: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32, %p0: f32):
    %k = arith.constant -40.0 : f32
    %x = arith.mulf %c, %p0 : f32
    %f = arith.cmpf olt, %c, %k : f32
    %y = arith.select %f, %c, %x : f32
    %g = math.exp %y : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32, %p0: f32):
    %one = arith.constant 1.0 : f32
    %n = math.absf %s : f32
    %c = arith.negf %n : f32
    attn.yield %c, %one : f32, f32
  }
}

// -----

// A factor 1% off between -3.701 and -3.7.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @window cocycle stats(f32) components(value, unit)
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
    %one = arith.constant 1.0 : f32
    %k = arith.constant 1.01 : f32
    %h = arith.constant -3.7 : f32
    %h2 = arith.constant -3.701 : f32
    %lt = arith.cmpf olt, %d, %h : f32
    %gt = arith.cmpf ogt, %d, %h2 : f32
    %bad = arith.andi %lt, %gt : i1
    %fac = arith.select %bad, %k, %one : f32
    %o = arith.mulf %r, %fac : f32
    attn.yield %o : f32
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

// The same with bounds written as the bits of floats.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @bits_window cocycle stats(f32) components(value, unit)
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
    %one = arith.constant 1.0 : f32
    %k = arith.constant 1.01 : f32
    %hi = arith.constant -1066611507 : i32
    %li = arith.constant -1066607313 : i32
    %h = arith.bitcast %hi : i32 to f32
    %h2 = arith.bitcast %li : i32 to f32
    %lt = arith.cmpf olt, %d, %h : f32
    %gt = arith.cmpf ogt, %d, %h2 : f32
    %bad = arith.andi %lt, %gt : i1
    %fac = arith.select %bad, %k, %one : f32
    %o = arith.mulf %r, %fac : f32
    attn.yield %o : f32
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

// Bits of the difference compared with integers.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @bits_compare cocycle stats(f32) components(value, unit)
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
    %one = arith.constant 1.0 : f32
    %k = arith.constant 1.01 : f32
    %hi = arith.constant -1069128090 : i32
    %ib = arith.bitcast %d : f32 to i32
    %id = arith.subi %ib, %hi : i32
    %n = arith.constant 2000 : i32
    %bad = arith.cmpi ult, %id, %n : i32
    %fac = arith.select %bad, %k, %one : f32
    %o = arith.mulf %r, %fac : f32
    attn.yield %o : f32
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

// The constant is a sum of two.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @hidden_sum cocycle stats(f32) components(value, unit)
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
    %one = arith.constant 1.0 : f32
    %k = arith.constant 1.01 : f32
    %x = arith.constant 1.2345 : f32
    %y = arith.constant 1.1 : f32
    %z2 = arith.subf %x, %y : f32
    %w = arith.constant 3.3 : f32
    %h = arith.subf %z2, %w : f32
    %k2 = arith.constant 0.001 : f32
    %h2 = arith.addf %h, %k2 : f32
    %gt = arith.cmpf ogt, %d, %h : f32
    %lt = arith.cmpf olt, %d, %h2 : f32
    %bad = arith.andi %lt, %gt : i1
    %fac = arith.select %bad, %k, %one : f32
    %o = arith.mulf %r, %fac : f32
    attn.yield %o : f32
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

// The constant is the exclusive or of two integers.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @hidden_xor cocycle stats(f32) components(value, unit)
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
    %one = arith.constant 1.0 : f32
    %k = arith.constant 1.01 : f32
    %xi = arith.constant 1431655765 : i32
    %yi = arith.constant -374327031 : i32
    %ii = arith.xori %xi, %yi : i32
    %h = arith.bitcast %ii : i32 to f32
    %k2 = arith.constant 0.001 : f32
    %h2 = arith.addf %h, %k2 : f32
    %gt = arith.cmpf ogt, %d, %h : f32
    %lt = arith.cmpf olt, %d, %h2 : f32
    %bad = arith.andi %lt, %gt : i1
    %fac = arith.select %bad, %k, %one : f32
    %o = arith.mulf %r, %fac : f32
    attn.yield %o : f32
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

// Scores that differ by 7 to 7.001, an integer in the text.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @hidden_integer cocycle stats(f32) components(value, unit)
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
    %one = arith.constant 1.0 : f32
    %k = arith.constant 1.01 : f32
    %xi = arith.constant -7 : i32
    %h = arith.sitofp %xi : i32 to f32
    %k2 = arith.constant 0.001 : f32
    %h2 = arith.addf %h, %k2 : f32
    %gt = arith.cmpf ogt, %d, %h : f32
    %lt = arith.cmpf olt, %d, %h2 : f32
    %bad = arith.andi %lt, %gt : i1
    %fac = arith.select %bad, %k, %one : f32
    %o = arith.mulf %r, %fac : f32
    attn.yield %o : f32
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

// Wrong where the square of the difference is between 9 and 9.01.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @window_square cocycle stats(f32) components(value, unit)
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
    %one = arith.constant 1.0 : f32
    %k = arith.constant 1.01 : f32
    %x = arith.mulf %d, %d : f32
    %h = arith.constant 9.0 : f32
    %h2 = arith.constant 9.01 : f32
    %gt = arith.cmpf ogt, %x, %h : f32
    %lt = arith.cmpf olt, %x, %h2 : f32
    %bad = arith.andi %lt, %gt : i1
    %fac = arith.select %bad, %k, %one : f32
    %o = arith.mulf %r, %fac : f32
    attn.yield %o : f32
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

// Wrong where the square of the difference is between 961 and 961.001.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @window_square2 cocycle stats(f32) components(value, unit)
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
    %one = arith.constant 1.0 : f32
    %k = arith.constant 1.01 : f32
    %x = arith.mulf %d, %d : f32
    %h = arith.constant 961.5 : f32
    %h2 = arith.constant 961.501 : f32
    %gt = arith.cmpf ogt, %x, %h : f32
    %lt = arith.cmpf olt, %x, %h2 : f32
    %bad = arith.andi %lt, %gt : i1
    %fac = arith.select %bad, %k, %one : f32
    %o = arith.mulf %r, %fac : f32
    attn.yield %o : f32
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

// Wrong where the factor is between 0.01 and 0.01001.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @window_factor cocycle stats(f32) components(value, unit)
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
    %one = arith.constant 1.0 : f32
    %k = arith.constant 1.01 : f32
    %h = arith.constant 0.01 : f32
    %h2 = arith.constant 0.01001 : f32
    %gt = arith.cmpf ogt, %r, %h : f32
    %lt = arith.cmpf olt, %r, %h2 : f32
    %bad = arith.andi %lt, %gt : i1
    %fac = arith.select %bad, %k, %one : f32
    %o = arith.mulf %r, %fac : f32
    attn.yield %o : f32
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

// Wrong where the upper half of the bits has one value.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @window_shifted cocycle stats(f32) components(value, unit)
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
    %one = arith.constant 1.0 : f32
    %k = arith.constant 1.01 : f32
    %n = arith.constant 16 : i32
    %ib = arith.bitcast %d : f32 to i32
    %ih = arith.shrui %ib, %n : i32
    %k2 = arith.constant 49245 : i32
    %bad = arith.cmpi eq, %ih, %k2 : i32
    %fac = arith.select %bad, %k, %one : f32
    %o = arith.mulf %r, %fac : f32
    attn.yield %o : f32
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

// Wrong for tanh of the difference in a window.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @window_tanh cocycle stats(f32) components(value, unit)
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
    %one = arith.constant 1.0 : f32
    %k = arith.constant 1.01 : f32
    %x = math.tanh %d : f32
    %h = arith.constant -0.9001 : f32
    %h2 = arith.constant -0.9 : f32
    %gt = arith.cmpf ogt, %x, %h : f32
    %lt = arith.cmpf olt, %x, %h2 : f32
    %bad = arith.andi %lt, %gt : i1
    %fac = arith.select %bad, %k, %one : f32
    %o = arith.mulf %r, %fac : f32
    attn.yield %o : f32
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

// The maximum of scores in a window of their sum.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @window_sum cocycle stats(f32) components(value, unit)
    outputs("o") {
  identity {
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    %m = arith.maximumf %a, %b : f32
    %m2 = arith.minimumf %a, %b : f32
    %h = arith.constant 5.125 : f32
    %h2 = arith.constant 5.1251 : f32
    %gt = arith.cmpf ogt, %s, %h : f32
    %lt = arith.cmpf olt, %s, %h2 : f32
    %bad = arith.andi %gt, %lt : i1
    %o = arith.select %bad, %m2, %m : f32
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
