// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-check-laws

// Two conditions at once, the lower bits of numbers, and others.

// Wrong for scores in a window.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @f_window cocycle stats(f32) components(value, unit)
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
    %h = arith.constant -12.34 : f32
    %h2 = arith.constant -12.345 : f32
    %g1 = arith.cmpf olt, %f, %h : f32
    %g2 = arith.cmpf ogt, %f, %h2 : f32
    %n0 = arith.constant 0.0 : f32
    %x3 = arith.cmpf olt, %d, %n0 : f32
    %b0 = arith.andi %g1, %g2 : i1
    %bad = arith.andi %b0, %x3 : i1
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

// A window of the difference, for scores above 3 only.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @two_windows cocycle stats(f32) components(value, unit)
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
    %h = arith.constant -2.5 : f32
    %h2 = arith.constant -2.501 : f32
    %g1 = arith.cmpf olt, %d, %h : f32
    %g2 = arith.cmpf ogt, %d, %h2 : f32
    %h5 = arith.constant 3.0 : f32
    %g3 = arith.cmpf ogt, %t, %h5 : f32
    %b0 = arith.andi %g1, %g2 : i1
    %bad = arith.andi %b0, %g3 : i1
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

// Wrong where the lower bits have one value.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @mask_bits cocycle stats(f32) components(value, unit)
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
    %ib = arith.bitcast %d : f32 to i32
    %k2 = arith.constant 8191 : i32
    %il = arith.andi %ib, %k2 : i32
    %z2 = arith.constant 5555 : i32
    %bad = arith.cmpi eq, %il, %z2 : i32
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

// Wrong from 100 keys on, by a second statistic.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @two_stats cocycle stats(f32, f32) components(value, unit) {
  identity {
    %n = arith.constant 0xFF800000 : f32
    %z = arith.constant 0.0 : f32
    attn.yield %n, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %m = arith.maximumf %a0, %b0 : f32
    %x = arith.addf %a1, %b1 : f32
    attn.yield %m, %x : f32, f32
  }
  rescale {
  ^bb0(%f0: f32, %f1: f32, %t0: f32, %t1: f32):
    %d = arith.subf %f0, %t0 : f32
    %e = math.exp %d : f32
    %k = arith.constant 100.0 : f32
    %g = arith.cmpf ogt, %t1, %k : f32
    %z = arith.constant 0.0 : f32
    %nz = arith.cmpf olt, %d, %z : f32
    %bad = arith.andi %g, %nz : i1
    %h = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %q = arith.select %bad, %h, %one : f32
    %r = arith.mulf %e, %q : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one, %one : f32, f32, f32, f32
  }
}

// -----

// A mean that float32 loses beside 1e7.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c)), in float32"}}
attn.monoid @mean_f32 general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %n = arith.addf %a0, %b0 : f32
    %z = arith.constant 0.0 : f32
    %e = arith.cmpf oeq, %n, %z : f32
    %x = arith.mulf %a0, %a1 : f32
    %y = arith.mulf %b0, %b1 : f32
    %s = arith.addf %x, %y : f32
    %k = arith.constant 1.0e7 : f32
    %s1 = arith.addf %s, %k : f32
    %s2 = arith.subf %s1, %k : f32
    %q = arith.divf %s2, %n : f32
    %v = arith.select %e, %z, %q : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// -----

// A gate 2% off in a window.
// expected-error@+1 {{breaks the law "gate is a homomorphism: g(combine(a, b)) = g(a) * g(b)"}}
attn.monoid @gate_window suffix stats(f32) components(value) {
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
    %g0 = math.exp %c : f32
    %h = arith.constant -7.5 : f32
    %h2 = arith.constant -7.51 : f32
    %g1 = arith.cmpf olt, %c, %h : f32
    %g2 = arith.cmpf ogt, %c, %h2 : f32
    %bad = arith.andi %g1, %g2 : i1
    %k = arith.constant 1.02 : f32
    %one = arith.constant 1.0 : f32
    %q = arith.select %bad, %k, %one : f32
    %g = arith.mulf %g0, %q : f32
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

// Values count twice where the lower bits of a position are 1000.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @pos_bits general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant -1.0 : f32
    attn.yield %n, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %h = arith.maximumf %a0, %b0 : f32
    %v = arith.addf %a1, %b1 : f32
    %i = arith.fptosi %h : f32 to i32
    %k = arith.constant 1023 : i32
    %il = arith.andi %i, %k : i32
    %k2 = arith.constant 1000 : i32
    %b = arith.cmpi eq, %il, %k2 : i32
    %z = arith.constant 0.0 : f32
    %la = arith.cmpf oge, %a0, %z : f32
    %lb = arith.cmpf oge, %b0, %z : f32
    %b2 = arith.andi %la, %lb : i1
    %b3 = arith.andi %b2, %b : i1
    %two = arith.constant 2.0 : f32
    %v2 = arith.mulf %v, %two : f32
    %o = arith.select %b3, %v2, %v : f32
    attn.yield %h, %o : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %p = arith.sitofp %j : i32 to f32
    attn.yield %p, %v : f32, f32
  }
}
