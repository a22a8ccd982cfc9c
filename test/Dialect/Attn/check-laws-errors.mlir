// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-check-laws

// The maximum has -inf for its identity, not 0.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)": a = -1 gives combine(e, a) = 0}}
attn.monoid @identity cocycle stats(f32) components(unit) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
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
}

// -----

// A difference is not associative.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)"}}
attn.monoid @difference cocycle stats(f32) components(unit) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.subf %a, %b : f32
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
}

// -----

// Nor is a mean, even where it keeps the identity.
// expected-error@+1 {{breaks the law "combine is associative: combine(combine(a, b), c) = combine(a, combine(b, c))": a = }}
attn.monoid @mean general stats() components(unit) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %z = arith.constant 0.0 : f32
    %h = arith.constant 0.5 : f32
    %s = arith.addf %a, %b : f32
    %m = arith.mulf %s, %h : f32
    %p = arith.mulf %a, %b : f32
    %one = arith.cmpf oeq, %p, %z : f32
    %c = arith.select %one, %s, %m : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32, %j: i32):
    attn.yield %s : f32
  }
}

// -----

// Half of the exponential: a rescale to itself loses weight.
// expected-error@+1 {{breaks the law "rescale to itself: r(a, a) = 1": a = 0 gives 0.5}}
attn.monoid @half cocycle stats(f32) components(unit) {
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
    %h = arith.constant 0.5 : f32
    %d = arith.subf %from, %to : f32
    %e = math.exp %d : f32
    %r = arith.mulf %h, %e : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
}

// -----

// 1 / (1 + distance) does not compose.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)": a = -1, b = 0, c = 1 gives 0.25 and 0.333333333}}
attn.monoid @distance cocycle stats(f32) components(unit) {
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
    %one = arith.constant 1.0 : f32
    %d = arith.subf %to, %from : f32
    %e = arith.addf %one, %d : f32
    %r = arith.divf %one, %e : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
}

// -----

// The exponential the wrong way round obeys every equation and overflows.
// expected-error@+1 {{breaks the law "rescale is finite in float32: r(a, combine(a, b)) and r(a, combine(b, a))"}}
attn.monoid @reversed cocycle stats(f32) components(unit) {
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
    %d = arith.subf %to, %from : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
}

// -----

// So does a sum of exponentials that keeps no maximum.
// expected-error@+1 {{breaks the law "lift is finite in float32 for scores of magnitude up to 1e4": s = 100 gives inf}}
attn.monoid @no_maximum cocycle stats() components(unit) {
  identity {
    attn.yield
  }
  combine {
    attn.yield
  }
  lift {
  ^bb0(%s: f32):
    %w = math.exp %s : f32
    attn.yield %w : f32
  }
}

// -----

// A sum with weight for the score 0, whose state is the identity.
// expected-error@+1 {{breaks the law "only the identity is the identity: combine(a, b) = e implies a = b = e": a = -1, b = 1 gives 0}}
attn.monoid @cancelling cocycle stats(f32) components(unit) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
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
}

// -----

// expected-error@+1 {{breaks the law "the identity weighs nothing: lift(s) = (e, w) implies w = 0": s = 0 gives (0, 1)}}
attn.monoid @weighty cocycle stats(f32) components(unit) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %x = math.absf %a : f32
    %y = math.absf %b : f32
    %c = arith.maximumf %x, %y : f32
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
    %c = math.absf %s : f32
    attn.yield %c, %one : f32, f32
  }
}

// -----

// A gate of 1 + c turns sums into something else than products.
// expected-error@+1 {{breaks the law "gate is a homomorphism: g(combine(a, b)) = g(a) * g(b)": a = 1, b = 1 gives 3 and 4}}
attn.monoid @linear_gate suffix stats(f32) components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %one = arith.constant 1.0 : f32
    %g = arith.addf %one, %c : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
}

// -----

// expected-error@+1 {{breaks the law "gate of the identity: g(e) = 1": e = 0 gives 0}}
attn.monoid @closed_gate suffix stats(f32) components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
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

// -----

// log(1 - sigmoid(s)) cancels: for a score of 20 it is -inf in float32.
// expected-error@+1 {{breaks the law "lift is finite in float32 for scores of magnitude up to 1e4": s = 20 gives (-inf, 1)}}
attn.monoid @naive_stick suffix stats(f32) components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
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
    %one = arith.constant 1.0 : f32
    %n = arith.negf %s : f32
    %e = math.exp %n : f32
    %d = arith.addf %one, %e : f32
    %w = arith.divf %one, %d : f32
    %r = arith.subf %one, %w : f32
    %c = math.log %r : f32
    attn.yield %c, %w : f32, f32
  }
}

// -----

// Nothing divided by nothing.
// expected-error@+1 {{breaks the law "finalize gives no NaN for a row without live keys": finalize(e, 0) gives nan for output o}}
attn.monoid @unguarded cocycle stats(f32) components(value, unit) outputs("o") {
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
    %d = arith.subf %from, %to : f32
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
    %o = arith.divf %acc, %sum : f32
    attn.yield %o : f32
  }
}

// -----

// A running mean without its count.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)": a = }}
attn.monoid @running_mean general stats() components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %h = arith.constant 0.5 : f32
    %s = arith.addf %a, %b : f32
    %c = arith.mulf %s, %h : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %v : f32
  }
}

// -----

// The second factor alone loses weight.
// expected-error@+1 {{breaks the law "rescale to itself: r(a, a) = 1": a = 0 gives (1, 0.5)}}
attn.monoid @second_half cocycle stats(f32) components(unit, unit) {
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
    %h = arith.constant 0.5 : f32
    %d = arith.subf %from, %to : f32
    %e = math.exp %d : f32
    %r = arith.mulf %h, %e : f32
    attn.yield %e, %r : f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
}

// -----

// The second factor alone does not compose.
// expected-error@+1 {{breaks the law "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)": a = -1, b = 0, c = 1 gives 0.25 and 0.333333333}}
attn.monoid @second_distance cocycle stats(f32) components(unit, unit) {
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
    %one = arith.constant 1.0 : f32
    %d = arith.subf %to, %from : f32
    %n = arith.negf %d : f32
    %x = math.exp %n : f32
    %e = arith.addf %one, %d : f32
    %r = arith.divf %one, %e : f32
    attn.yield %x, %r : f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
}
