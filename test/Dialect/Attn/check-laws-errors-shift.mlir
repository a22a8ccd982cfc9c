// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-check-laws

// Shifts that are none. The right one is that of @softmax_entropy.

// A square of the distance: those of two moves are no square of their sum.
// expected-error@+1 {{breaks the law "shift follows its factors: of shift(a, c, u) and shift(b, c, r(a, b) shift(a, b, u)), each rescaled to c"}}
attn.monoid @half_way cocycle stats(f32) components(value, unit, unit) {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  shift {
  ^bb0(%from: f32, %to: f32, %sum: f32, %distances: f32):
    %half = arith.constant 0.5 : f32
    %d = arith.subf %from, %to : f32
    %square = arith.mulf %d, %d : f32
    %part = arith.mulf %square, %half : f32
    %more = arith.mulf %part, %sum : f32
    %moved = arith.addf %distances, %more : f32
    attn.yield %sum, %moved : f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %s, %one, %one, %zero : f32, f32, f32, f32
  }
}

// -----

// Sums that grow though nothing moves.
// expected-error@+1 {{breaks the law "shift to itself: shift(a, a, u) = u"}}
attn.monoid @restless cocycle stats(f32) components(value, unit, unit) {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  shift {
  ^bb0(%from: f32, %to: f32, %sum: f32, %distances: f32):
    %moved = arith.addf %distances, %sum : f32
    attn.yield %sum, %moved : f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %s, %one, %one, %zero : f32, f32, f32, f32
  }
}

// -----

// What a sum becomes is not linear in it: parts of the keys would be moved by
// other numbers than all of them.
// expected-error@+1 {{breaks the law "shift is linear: shift(a, b, u + 2 v) = shift(a, b, u) + 2 shift(a, b, v)"}}
attn.monoid @crooked cocycle stats(f32) components(value, unit, unit) {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  shift {
  ^bb0(%from: f32, %to: f32, %sum: f32, %distances: f32):
    %d = arith.subf %from, %to : f32
    %square = arith.mulf %sum, %sum : f32
    %more = arith.mulf %d, %square : f32
    %moved = arith.addf %distances, %more : f32
    attn.yield %sum, %moved : f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %s, %one, %one, %zero : f32, f32, f32, f32
  }
}

// -----

// Infinite where the statistic moves far.
// expected-error@+1 {{breaks the law "shift is finite: shift(a, combine(a, b), u)"}}
attn.monoid @steep cocycle stats(f32) components(value, unit, unit) {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  shift {
  ^bb0(%from: f32, %to: f32, %sum: f32, %distances: f32):
    %small = arith.constant 0.001 : f32
    %square = arith.mulf %from, %from : f32
    %square_to = arith.mulf %to, %to : f32
    %x = arith.mulf %square, %small : f32
    %y = arith.mulf %square_to, %small : f32
    %e = math.exp %x : f32
    %e_to = math.exp %y : f32
    %far = arith.subf %e, %e_to : f32
    %more = arith.mulf %far, %sum : f32
    %moved = arith.addf %distances, %more : f32
    attn.yield %sum, %moved : f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %s, %one, %one, %zero : f32, f32, f32, f32
  }
}
