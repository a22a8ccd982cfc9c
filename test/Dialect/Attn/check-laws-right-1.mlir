// RUN: attn-opt %s --attn-check-laws -o /dev/null

// Monoids that no law may refuse.

// A count modulo 256, in i8.
attn.monoid @i8_count general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %i = arith.fptosi %a0 : f32 to i8
    %j = arith.fptosi %b0 : f32 to i8
    %s = arith.addi %i, %j : i8
    %n = arith.sitofp %s : i8 to f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// A count modulo 65536, in i16.
attn.monoid @i16_count general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %i = arith.fptosi %a0 : f32 to i16
    %j = arith.fptosi %b0 : f32 to i16
    %s = arith.addi %i, %j : i16
    %n = arith.sitofp %s : i16 to f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// A temperature at run time.
attn.monoid @temperature cocycle stats(f32) components(value, unit) params(f32)
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
    attn.yield %r : f32
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

// The largest score and its distance to the second.
attn.monoid @top1_margin cocycle stats(f32, f32) components(value, unit)
    outputs("o", "margin") {
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
    %n = arith.constant -3.40282347e+38 : f32
    attn.yield %s, %n, %one, %one : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m0: f32, %m1: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %q = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %q : f32
    %d = arith.subf %m0, %m1 : f32
    %g = arith.select %empty, %zero, %d : f32
    attn.yield %o, %g : f32, f32
  }
}

// Sigmoids with a bias.
attn.monoid @sigmoid_bias cocycle stats() components(value) params(f32)
    outputs("o") {
  lift {
  ^bb0(%s: f32, %p0: f32):
    %one = arith.constant 1.0 : f32
    %x = arith.addf %s, %p0 : f32
    %n = arith.negf %x : f32
    %e = math.exp %n : f32
    %d = arith.addf %one, %e : f32
    %w = arith.divf %one, %d : f32
    attn.yield %w : f32
  }
  finalize {
  ^bb0(%acc: f32, %p0: f32):
    attn.yield %acc : f32
  }
}

// o <- (1 - sigma(s)) o + sigma(s) v.
attn.monoid @last_write suffix stats(f32) components(value) {
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
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %pos = arith.maximumf %s, %zero : f32
    %abs = math.absf %s : f32
    %nabs = arith.negf %abs : f32
    %tail = math.exp %nabs : f32
    %log = math.log1p %tail : f32
    %sp = arith.addf %pos, %log : f32
    %c = arith.negf %sp : f32
    %neg = arith.negf %s : f32
    %e = math.exp %neg : f32
    %d = arith.addf %one, %e : f32
    %w = arith.divf %one, %d : f32
    attn.yield %c, %w : f32, f32
  }
}

// Gates are numbers and their product is a product.
attn.monoid @product_gate suffix stats(f32) components(value) {
  identity {
    %o = arith.constant 1.0 : f32
    attn.yield %o : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %n = arith.negf %s : f32
    %e = math.exp %n : f32
    %d = arith.addf %one, %e : f32
    %g = arith.divf %one, %d : f32
    attn.yield %g, %one : f32, f32
  }
}

// Scores as gates, whatever their sign.
attn.monoid @raw_gate prefix stats(f32) components(value) {
  identity {
    %o = arith.constant 1.0 : f32
    attn.yield %o : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
}

// The effective number of keys, (sum w)^2 / sum w^2.
attn.monoid @participation general stats(f32, f32, f32) components(value)
    outputs("o", "n") {
  identity {
    %n = arith.constant 0xFF800000 : f32
    %z = arith.constant 0.0 : f32
    attn.yield %n, %z, %z, %z : f32, f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %a3: f32, %b0: f32, %b1: f32, %b2: f32, %b3: f32):
    %m = arith.maximumf %a0, %b0 : f32
    %n = arith.constant 0xFF800000 : f32
    %z = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
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
    %fa2 = arith.mulf %fa, %fa : f32
    %fb2 = arith.mulf %fb, %fb : f32
    %x2 = arith.mulf %fa2, %a2 : f32
    %y2 = arith.mulf %fb2, %b2 : f32
    %s2 = arith.addf %x2, %y2 : f32
    %xv = arith.mulf %fa, %a3 : f32
    %yv = arith.mulf %fb, %b3 : f32
    %v = arith.addf %xv, %yv : f32
    attn.yield %m, %s, %s2, %v : f32, f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one, %v : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m0: f32, %m1: f32, %m2: f32, %acc: f32):
    %z = arith.constant 0.0 : f32
    %e = arith.cmpf oeq, %m1, %z : f32
    %q = arith.divf %acc, %m1 : f32
    %o = arith.select %e, %z, %q : f32
    %x = arith.mulf %m1, %m1 : f32
    %y = arith.divf %x, %m2 : f32
    %p = arith.select %e, %z, %y : f32
    attn.yield %o, %p : f32, f32
  }
}

// A product of matrices in the semiring of logarithms.
attn.monoid @logmatmul general stats() components(value)
    outputs("o") {
  identity {
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %hi = arith.maximumf %a, %b : f32
    %lo = arith.minimumf %a, %b : f32
    %n = arith.constant 0xFF800000 : f32
    %e = arith.cmpf oeq, %hi, %n : f32
    %d = arith.subf %lo, %hi : f32
    %x = math.exp %d : f32
    %l = math.log1p %x : f32
    %y = arith.addf %hi, %l : f32
    %o = arith.select %e, %n, %y : f32
    attn.yield %o : f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %x = arith.addf %s, %v : f32
    attn.yield %x : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

// max (s + v) and where it is.
attn.monoid @viterbi general stats() components(value, value)
    outputs("o", "arg") {
  identity {
    %n = arith.constant 0xFF800000 : f32
    %m = arith.constant -1.0 : f32
    attn.yield %n, %m : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %g = arith.cmpf oge, %a0, %b0 : f32
    %v = arith.select %g, %a0, %b0 : f32
    %p = arith.select %g, %a1, %b1 : f32
    attn.yield %v, %p : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %v1: f32, %j: i32):
    %x = arith.addf %s, %v : f32
    %p = arith.sitofp %j : i32 to f32
    attn.yield %x, %p : f32, f32
  }
  finalize {
  ^bb0(%acc: f32, %x1: f32):
    attn.yield %acc, %x1 : f32, f32
  }
}

// A damped oscillator: states of two numbers, moved by 2x2 matrices.
attn.monoid @oscillator general stats(f32, f32, f32, f32) components(value, value)
    outputs("o") {
  identity {
    %z = arith.constant 0.0 : f32
    %o = arith.constant 1.0 : f32
    attn.yield %o, %z, %z, %o, %z, %z : f32, f32, f32, f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %a3: f32, %a4: f32, %a5: f32, %b0: f32, %b1: f32, %b2: f32, %b3: f32, %b4: f32, %b5: f32):
    %m00 = arith.mulf %b0, %a0 : f32
    %m01 = arith.mulf %b1, %a2 : f32
    %x0 = arith.addf %m00, %m01 : f32
    %m10 = arith.mulf %b0, %a1 : f32
    %m11 = arith.mulf %b1, %a3 : f32
    %x1 = arith.addf %m10, %m11 : f32
    %m20 = arith.mulf %b2, %a0 : f32
    %m21 = arith.mulf %b3, %a2 : f32
    %x2 = arith.addf %m20, %m21 : f32
    %m30 = arith.mulf %b2, %a1 : f32
    %m31 = arith.mulf %b3, %a3 : f32
    %x3 = arith.addf %m30, %m31 : f32
    %u = arith.mulf %b0, %a4 : f32
    %w = arith.mulf %b1, %a5 : f32
    %uw = arith.addf %u, %w : f32
    %y0 = arith.addf %uw, %b4 : f32
    %u2 = arith.mulf %b2, %a4 : f32
    %w2 = arith.mulf %b3, %a5 : f32
    %uw2 = arith.addf %u2, %w2 : f32
    %y1 = arith.addf %uw2, %b5 : f32
    attn.yield %x0, %x1, %x2, %x3, %y0, %y1 : f32, f32, f32, f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %v1: f32, %j: i32):
    %k = arith.constant 0.95 : f32
    %z = arith.constant 0.0 : f32
    %co = math.cos %s : f32
    %si = math.sin %s : f32
    %ns = arith.negf %si : f32
    %x = arith.mulf %co, %k : f32
    %y = arith.mulf %si, %k : f32
    %ny = arith.mulf %ns, %k : f32
    attn.yield %x, %ny, %y, %x, %v, %z : f32, f32, f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m0: f32, %m1: f32, %m2: f32, %m3: f32, %acc: f32, %x1: f32):
    attn.yield %acc : f32
  }
}

// A product of 2x2 matrices.
attn.monoid @matprod general stats(f32, f32, f32, f32) components(unit)
    outputs("m00", "m11") {
  identity {
    %z = arith.constant 0.0 : f32
    %o = arith.constant 1.0 : f32
    attn.yield %o, %z, %z, %o, %z : f32, f32, f32, f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %a3: f32, %a4: f32, %b0: f32, %b1: f32, %b2: f32, %b3: f32, %b4: f32):
    %m00 = arith.mulf %b0, %a0 : f32
    %m01 = arith.mulf %b1, %a2 : f32
    %x0 = arith.addf %m00, %m01 : f32
    %m10 = arith.mulf %b0, %a1 : f32
    %m11 = arith.mulf %b1, %a3 : f32
    %x1 = arith.addf %m10, %m11 : f32
    %m20 = arith.mulf %b2, %a0 : f32
    %m21 = arith.mulf %b3, %a2 : f32
    %x2 = arith.addf %m20, %m21 : f32
    %m30 = arith.mulf %b2, %a1 : f32
    %m31 = arith.mulf %b3, %a3 : f32
    %x3 = arith.addf %m30, %m31 : f32
    %y = arith.addf %a4, %b4 : f32
    attn.yield %x0, %x1, %x2, %x3, %y : f32, f32, f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %j: i32):
    %o = arith.constant 1.0 : f32
    %h = arith.constant 0.5 : f32
    %t = math.tanh %s : f32
    %u = arith.mulf %t, %h : f32
    attn.yield %o, %t, %u, %h, %o : f32, f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m0: f32, %m1: f32, %m2: f32, %m3: f32, %sum: f32):
    attn.yield %m0, %m3 : f32, f32
  }
}

// Softmax with one more key of score 0 and no value.
attn.monoid @softmax1 cocycle stats(f32) components(value, unit)
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
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %n = arith.negf %m : f32
    %e = math.exp %n : f32
    %d = arith.addf %sum, %e : f32
    %o = arith.divf %acc, %d : f32
    attn.yield %o : f32
  }
}

// In base 2.
attn.monoid @base2 cocycle stats(f32) components(value, unit)
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
    %r = math.exp2 %d : f32
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

// Softmax of the negative scores.
attn.monoid @softmin cocycle stats(f32) components(value, unit)
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
  rescale {
  ^bb0(%f: f32, %t: f32):
    %d = arith.subf %t, %f : f32
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

// Weights with the sign of the score.
attn.monoid @signed cocycle stats(f32) components(value, unit)
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
    attn.yield %s, %w, %one : f32, f32, f32
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
