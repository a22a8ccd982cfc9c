// RUN: attn-opt %s --attn-check-laws -o /dev/null

// Monoids that no law may refuse.

// A polynomial hash of positions, modulo 1024.
attn.monoid @polyhash general stats(f32, f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    attn.yield %z, %one, %z : f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %b0: f32, %b1: f32, %b2: f32):
    %i = arith.fptosi %a0 : f32 to i32
    %ib = arith.fptosi %b0 : f32 to i32
    %ip = arith.fptosi %a1 : f32 to i32
    %iq = arith.fptosi %b1 : f32 to i32
    %ix = arith.muli %i, %iq : i32
    %is = arith.addi %ix, %ib : i32
    %iw = arith.muli %ip, %iq : i32
    %k = arith.constant 1023 : i32
    %iy = arith.andi %is, %k : i32
    %iz = arith.andi %iw, %k : i32
    %n = arith.sitofp %iy : i32 to f32
    %m = arith.sitofp %iz : i32 to f32
    %v = arith.addf %a2, %b2 : f32
    attn.yield %n, %m, %v : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %k = arith.constant 255 : i32
    %i = arith.andi %j, %k : i32
    %n = arith.sitofp %i : i32 to f32
    %m = arith.constant 31.0 : f32
    attn.yield %n, %m, %v : f32, f32, f32
  }
}

// Softmax with a sink as a param.
attn.monoid @sink cocycle stats(f32) components(value, unit) params(f32)
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
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32, %p0: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %p0: f32):
    %d = arith.subf %p0, %m : f32
    %e = math.exp %d : f32
    %s = arith.addf %sum, %e : f32
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0xFF800000 : f32
    %em = arith.cmpf oeq, %m, %n : f32
    %q = arith.divf %acc, %s : f32
    %o = arith.select %em, %z, %q : f32
    attn.yield %o : f32
  }
}

// Signed weights, whose sum may be negative and have no logarithm.
attn.monoid @signed_lse cocycle stats(f32) components(value, unit)
    outputs("o", "lse") {
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
    %w = math.copysign %one, %s : f32
    attn.yield %s, %w, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %z = arith.constant 0.0 : f32
    %e = arith.cmpf oeq, %sum, %z : f32
    %q = arith.divf %acc, %sum : f32
    %o = arith.select %e, %z, %q : f32
    %l = math.log %sum : f32
    %lse = arith.addf %m, %l : f32
    attn.yield %o, %lse : f32, f32
  }
}

// Signed weights, normalised.
attn.monoid @signed_norm cocycle stats(f32) components(value, unit)
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
    %w = math.copysign %one, %s : f32
    attn.yield %s, %w, %w : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %z = arith.constant 0.0 : f32
    %e = arith.cmpf oeq, %sum, %z : f32
    %q = arith.divf %acc, %sum : f32
    %o = arith.select %e, %z, %q : f32
    attn.yield %o : f32
  }
}

// The two largest of s + v.
attn.monoid @top2 general stats() components(value, value)
    outputs("a", "b") {
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
  lift {
  ^bb0(%s: f32, %v: f32, %v1: f32, %j: i32):
    %n = arith.constant -3.40282347e+38 : f32
    %x = arith.addf %s, %v : f32
    attn.yield %x, %n : f32, f32
  }
  finalize {
  ^bb0(%acc: f32, %x1: f32):
    attn.yield %acc, %x1 : f32, f32
  }
}

// The standard deviation.
attn.monoid @std general stats(f32) components(value, value)
    outputs("std") {
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
    %d = arith.maximumf %m, %one : f32
    %mean = arith.divf %acc, %d : f32
    %sq = arith.divf %x1, %d : f32
    %x = arith.mulf %mean, %mean : f32
    %var = arith.subf %sq, %x : f32
    %z = arith.constant 0.0 : f32
    %vv = arith.maximumf %var, %z : f32
    %o = math.sqrt %vv : f32
    attn.yield %o : f32
  }
}

// The logarithm of a sum over values, and the largest score.
attn.monoid @lse_norm general stats(f32) components(value)
    outputs("o") {
  identity {
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n, %n : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %m = arith.maximumf %a0, %b0 : f32
    %hv = arith.maximumf %a1, %b1 : f32
    %lo = arith.minimumf %a1, %b1 : f32
    %n = arith.constant 0xFF800000 : f32
    %e = arith.cmpf oeq, %hv, %n : f32
    %d = arith.subf %lo, %hv : f32
    %x = math.exp %d : f32
    %l = math.log1p %x : f32
    %y = arith.addf %hv, %l : f32
    %o = arith.select %e, %n, %y : f32
    attn.yield %m, %o : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %x = arith.addf %s, %v : f32
    attn.yield %s, %x : f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32):
    %d = arith.subf %acc, %m : f32
    %n = arith.constant 0xFF800000 : f32
    %z = arith.constant 0.0 : f32
    %e = arith.cmpf oeq, %m, %n : f32
    %o = arith.select %e, %z, %d : f32
    attn.yield %o : f32
  }
}

// A product of unit quaternions.
attn.monoid @quat general stats(f32, f32, f32, f32) components(unit)
    outputs("w") {
  identity {
    %z = arith.constant 0.0 : f32
    %o = arith.constant 1.0 : f32
    attn.yield %o, %z, %z, %z, %z : f32, f32, f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %a3: f32, %a4: f32, %b0: f32, %b1: f32, %b2: f32, %b3: f32, %b4: f32):
    %t00 = arith.mulf %a0, %b0 : f32
    %t01 = arith.mulf %a1, %b1 : f32
    %t02 = arith.mulf %a2, %b2 : f32
    %t03 = arith.mulf %a3, %b3 : f32
    %t10 = arith.mulf %a0, %b1 : f32
    %t11 = arith.mulf %a1, %b0 : f32
    %t12 = arith.mulf %a2, %b3 : f32
    %t13 = arith.mulf %a3, %b2 : f32
    %t20 = arith.mulf %a0, %b2 : f32
    %t21 = arith.mulf %a1, %b3 : f32
    %t22 = arith.mulf %a2, %b0 : f32
    %t23 = arith.mulf %a3, %b1 : f32
    %t30 = arith.mulf %a0, %b3 : f32
    %t31 = arith.mulf %a1, %b2 : f32
    %t32 = arith.mulf %a2, %b1 : f32
    %t33 = arith.mulf %a3, %b0 : f32
    %u0 = arith.subf %t00, %t01 : f32
    %u1 = arith.subf %u0, %t02 : f32
    %w0 = arith.subf %u1, %t03 : f32
    %u2 = arith.addf %t10, %t11 : f32
    %u3 = arith.addf %u2, %t12 : f32
    %w1 = arith.subf %u3, %t13 : f32
    %u4 = arith.subf %t20, %t21 : f32
    %u5 = arith.addf %u4, %t22 : f32
    %w2 = arith.addf %u5, %t23 : f32
    %u6 = arith.addf %t30, %t31 : f32
    %u7 = arith.subf %u6, %t32 : f32
    %w3 = arith.addf %u7, %t33 : f32
    %z = arith.addf %a4, %b4 : f32
    attn.yield %w0, %w1, %w2, %w3, %z : f32, f32, f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %j: i32):
    %h = arith.constant 0.5 : f32
    %x = arith.mulf %s, %h : f32
    %co = math.cos %x : f32
    %si = math.sin %x : f32
    %z = arith.constant 0.6 : f32
    %y = arith.constant 0.8 : f32
    %sx = arith.mulf %si, %z : f32
    %sy = arith.mulf %si, %y : f32
    %one = arith.constant 1.0 : f32
    %zz = arith.constant 0.0 : f32
    attn.yield %co, %sx, %sy, %zz, %one : f32, f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m0: f32, %m1: f32, %m2: f32, %m3: f32, %sum: f32):
    attn.yield %m0 : f32
  }
}

// A linear recurrence, h <- a h + v.
attn.monoid @ssm general stats(f32) components(value)
    outputs("h") {
  identity {
    %z = arith.constant 0.0 : f32
    %o = arith.constant 1.0 : f32
    attn.yield %o, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %p = arith.mulf %a0, %b0 : f32
    %x = arith.mulf %b0, %a1 : f32
    %v = arith.addf %x, %b1 : f32
    attn.yield %p, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %g = math.tanh %s : f32
    attn.yield %g, %v : f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32):
    attn.yield %acc : f32
  }
}

// A mean.
attn.monoid @mean cocycle stats() components(value, unit)
    outputs("o") {
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %one : f32, f32
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

// A decay for each key.
attn.monoid @retention suffix stats(f32) components(value) {
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
    %g = math.exp %c : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32):
    %k = arith.constant -0.03125 : f32
    %one = arith.constant 1.0 : f32
    attn.yield %k, %s : f32, f32
  }
}

// min (v - s).
attn.monoid @minplus general stats() components(value)
    outputs("o") {
  identity {
    %n = arith.constant 0x7F800000 : f32
    attn.yield %n : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.minimumf %a, %b : f32
    attn.yield %m : f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %x = arith.subf %v, %s : f32
    attn.yield %x : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

// The largest score, broken by a hash of the position.
attn.monoid @reservoir general stats(f32) components(value) {
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
    %k = arith.constant 1103515245 : i32
    %ih = arith.muli %j, %k : i32
    %m = arith.constant 65535 : i32
    %iu = arith.andi %ih, %m : i32
    %u = arith.sitofp %iu : i32 to f32
    %x = arith.addf %s, %u : f32
    attn.yield %x, %v : f32, f32
  }
}

// The number of runs of neighbouring keys.
attn.monoid @runs general stats(f32, f32, f32) components(value)
    outputs("r") {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0xFF800000 : f32
    %i = arith.constant 0x7F800000 : f32
    attn.yield %i, %n, %z, %z : f32, f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %a3: f32, %b0: f32, %b1: f32, %b2: f32, %b3: f32):
    %l = arith.minimumf %a0, %b0 : f32
    %h = arith.maximumf %a1, %b1 : f32
    %n = arith.addf %a2, %b2 : f32
    %i0 = arith.constant 0x7F800000 : f32
    %la = arith.cmpf olt, %a0, %i0 : f32
    %lb = arith.cmpf olt, %b0, %i0 : f32
    %both = arith.andi %la, %lb : i1
    %g = arith.subf %b0, %a1 : f32
    %one = arith.constant 1.0 : f32
    %j1 = arith.cmpf ogt, %g, %one : f32
    %br = arith.andi %both, %j1 : i1
    %n1 = arith.addf %n, %one : f32
    %nn = arith.select %br, %n1, %n : f32
    %v = arith.addf %a3, %b3 : f32
    attn.yield %l, %h, %nn, %v : f32, f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %p = arith.sitofp %j : i32 to f32
    %z = arith.constant 0.0 : f32
    attn.yield %p, %p, %z, %v : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m0: f32, %m1: f32, %m2: f32, %acc: f32):
    attn.yield %acc : f32
  }
}

// A geometric mean.
attn.monoid @geo general stats(f32) components(value)
    outputs("o") {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %n = arith.addf %a0, %b0 : f32
    %v = arith.addf %a1, %b1 : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    %x = math.absf %v : f32
    %k = arith.constant 1.0e-6 : f32
    %y = arith.addf %x, %k : f32
    %l = math.log %y : f32
    attn.yield %one, %l : f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32):
    %one = arith.constant 1.0 : f32
    %d = arith.maximumf %m, %one : f32
    %q = arith.divf %acc, %d : f32
    %o = math.exp %q : f32
    attn.yield %o : f32
  }
}

// A compensated sum: what one component loses is in the other.
attn.monoid @kahan_free general stats(f32, f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z, %z : f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %b0: f32, %b1: f32, %b2: f32):
    %s = arith.addf %a0, %b0 : f32
    %bb = arith.subf %s, %a0 : f32
    %x = arith.subf %s, %bb : f32
    %e1 = arith.subf %a0, %x : f32
    %e2 = arith.subf %b0, %bb : f32
    %e = arith.addf %e1, %e2 : f32
    %c1 = arith.addf %a1, %b1 : f32
    %c2 = arith.addf %c1, %e : f32
    %v = arith.addf %a2, %b2 : f32
    attn.yield %s, %c2, %v : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %z = arith.constant 0.0 : f32
    attn.yield %s, %z, %v : f32, f32, f32
  }
}

// A histogram.
attn.monoid @hist3 general stats(f32, f32, f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z, %z, %z : f32, f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %a3: f32, %b0: f32, %b1: f32, %b2: f32, %b3: f32):
    %x = arith.addf %a0, %b0 : f32
    %y = arith.addf %a1, %b1 : f32
    %w = arith.addf %a2, %b2 : f32
    %v = arith.addf %a3, %b3 : f32
    attn.yield %x, %y, %w, %v : f32, f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %z = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %k = arith.constant 1.5 : f32
    %lo = arith.cmpf olt, %s, %z : f32
    %hi = arith.cmpf ogt, %s, %k : f32
    %x = arith.select %lo, %one, %z : f32
    %y = arith.select %hi, %one, %z : f32
    %xy = arith.addf %x, %y : f32
    %w = arith.subf %one, %xy : f32
    attn.yield %x, %y, %w, %v : f32, f32, f32, f32
  }
}

// A recurrence whose factors depend on the position.
attn.monoid @expdecay_pos general stats(f32, f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    attn.yield %one, %z, %z : f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %b0: f32, %b1: f32, %b2: f32):
    %p = arith.mulf %a0, %b0 : f32
    %x = arith.mulf %b0, %a1 : f32
    %q = arith.addf %x, %b1 : f32
    %y = arith.mulf %b0, %a2 : f32
    %v = arith.addf %y, %b2 : f32
    attn.yield %p, %q, %v : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %k = arith.constant 3 : i32
    %il = arith.andi %j, %k : i32
    %f = arith.sitofp %il : i32 to f32
    %h = arith.constant 0.25 : f32
    %x = arith.mulf %f, %h : f32
    %one = arith.constant 1.0 : f32
    %g = arith.subf %one, %x : f32
    attn.yield %g, %one, %v : f32, f32, f32
  }
}

// A rate of decay at run time.
attn.monoid @param_decay suffix stats(f32) components(value) params(f32) {
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
    %x = arith.mulf %c, %p0 : f32
    %g = math.exp %x : f32
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

// Clamps, composed.
attn.monoid @affine_clip general stats(f32, f32) components(unit) {
  identity {
    %n = arith.constant 0xFF800000 : f32
    %i = arith.constant 0x7F800000 : f32
    %z = arith.constant 0.0 : f32
    attn.yield %n, %i, %z : f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %b0: f32, %b1: f32, %b2: f32):
    %x = arith.maximumf %a0, %b0 : f32
    %lo = arith.minimumf %x, %b1 : f32
    %y = arith.maximumf %a1, %b0 : f32
    %hi = arith.minimumf %y, %b1 : f32
    %z = arith.addf %a2, %b2 : f32
    attn.yield %lo, %hi, %z : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    %h = arith.addf %s, %one : f32
    attn.yield %s, %h, %one : f32, f32, f32
  }
}

// A decay for each channel: its logarithms are values, whose sum overflows the
// exponential of many keys.
attn.monoid @channel_decay general stats() components(value, value) outputs("o") {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%x: f32, %a: f32, %y: f32, %b: f32):
    %r = math.exp %b : f32
    %p = arith.mulf %r, %x : f32
    %o = arith.addf %p, %y : f32
    %c = arith.addf %a, %b : f32
    attn.yield %o, %c : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %g: f32, %j: i32):
    %x = arith.mulf %s, %v : f32
    attn.yield %x, %g : f32, f32
  }
  finalize {
  ^bb0(%x: f32, %a: f32):
    attn.yield %x : f32
  }
}
