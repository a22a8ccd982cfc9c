// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-check-laws

// Regions that round: to 16 bits, to integers, in float32.

// The factor is rounded to bf16.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @bf16_factor cocycle stats(f32) components(value, unit)
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
    %rn = arith.truncf %e : f32 to bf16
    %r = arith.extf %rn : bf16 to f32
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

// The difference of the scores is rounded to f16.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"}}
attn.monoid @f16_difference cocycle stats(f32) components(value, unit)
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
    %hn = arith.truncf %d : f32 to f16
    %h = arith.extf %hn : f16 to f32
    %r = math.exp %h : f32
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

// The maximum is kept in bf16.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)"}}
attn.monoid @bf16_maximum cocycle stats(f32) components(value, unit)
    outputs("o") {
  identity {
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %x = arith.maximumf %a, %b : f32
    %mn = arith.truncf %x : f32 to bf16
    %m = arith.extf %mn : bf16 to f32
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

// A count in bf16 ends at 256.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @bf16_count general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %s = arith.addf %a0, %b0 : f32
    %nn = arith.truncf %s : f32 to bf16
    %n = arith.extf %nn : bf16 to f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// -----

// A count in f16 ends at 2048.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @f16_count general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %s = arith.addf %a0, %b0 : f32
    %nn = arith.truncf %s : f32 to f16
    %n = arith.extf %nn : f16 to f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// -----

// A sum of values in f16 is only as good as its largest term.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)"}}
attn.monoid @f16_values general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %n = arith.addf %a0, %b0 : f32
    %s = arith.addf %a1, %b1 : f32
    %vn = arith.truncf %s : f32 to f16
    %v = arith.extf %vn : f16 to f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// -----

// In float32 the large constant swallows both.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)"}}
attn.monoid @absorbed general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %k = arith.constant 1.0e8 : f32
    %x = arith.addf %a0, %k : f32
    %y = arith.addf %x, %b0 : f32
    %n = arith.subf %y, %k : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %s, %v : f32, f32
  }
}

// -----

// exp(a) is infinite in float32 from a = 89 on; in float64 from 710.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)"}}
attn.monoid @naive_logsumexp general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    %n = arith.constant 0xFF800000 : f32
    attn.yield %n, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %n = arith.constant 0xFF800000 : f32
    %x = math.exp %a0 : f32
    %y = math.exp %b0 : f32
    %s = arith.addf %x, %y : f32
    %l = math.log %s : f32
    attn.yield %l, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %s, %v : f32, f32
  }
}

// -----

// A sum of scores in i8 saturates on the way in and wraps on the way out.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)"}}
attn.monoid @i8_sum general stats(f32) components(value) {
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
    %k = arith.constant 16.0 : f32
    %r = math.round %s : f32
    %x = arith.mulf %r, %k : f32
    attn.yield %x, %v : f32, f32
  }
}

// -----

// Sums of positions in i8, made positive where they wrap.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @i8_absolute general stats(f32) components(value) {
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
    %p = math.absi %s : i8
    %n = arith.sitofp %p : i8 to f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %m = arith.constant 15 : i32
    %i = arith.andi %j, %m : i32
    %x = arith.sitofp %i : i32 to f32
    attn.yield %x, %v : f32, f32
  }
}

// -----

// More than 1000 keys start again at 0, wherever that is.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @reset general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %k = arith.constant 1000.0 : f32
    %z = arith.constant 0.0 : f32
    %s = arith.addf %a0, %b0 : f32
    %big = arith.cmpf ogt, %s, %k : f32
    %n = arith.select %big, %z, %s : f32
    attn.yield %n, %v : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}

// -----

// More than 5000 keys count twice.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))"}}
attn.monoid @double_large general stats(f32) components(value) {
  identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z, %z : f32, f32
  }
  combine {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %v = arith.addf %a1, %b1 : f32
    %k = arith.constant 5000.0 : f32
    %two = arith.constant 2.0 : f32
    %s = arith.addf %a0, %b0 : f32
    %big = arith.cmpf ogt, %a0, %k : f32
    %w = arith.mulf %v, %two : f32
    %o = arith.select %big, %w, %v : f32
    attn.yield %s, %o : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %one = arith.constant 1.0 : f32
    attn.yield %one, %v : f32, f32
  }
}
