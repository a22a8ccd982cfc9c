//===- Prelude.mlir - The monoids that ship --------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// Imported by name by attn-import-prelude. Each starts with `attn.monoid` at
// the beginning of a line: that is how one of them is found in this text.
//===----------------------------------------------------------------------===//

// Softmax: the statistic is the running maximum, weights are relative to it.
attn.monoid @softmax cocycle stats(f32) components(value, unit)
    outputs("o", "lse") {
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
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %log = math.log %sum : f32
    %lse = arith.addf %m, %log : f32
    attn.yield %o, %lse : f32, f32
  }
}

// The logarithm of the sum of exponentials alone; takes no values.
attn.monoid @logsumexp cocycle stats(f32) components(unit) outputs("lse") {
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
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
  finalize {
  ^bb0(%m: f32, %sum: f32):
    %log = math.log %sum : f32
    %lse = arith.addf %m, %log : f32
    attn.yield %lse : f32
  }
}

// Softmax and the entropy of its weights, log(sum w) - sum w (s - m) / sum w:
// distances from the largest score m are summed, and not scores, so that none of
// their size is lost, or infinite where masks add the least finite number.
attn.monoid @softmax_entropy cocycle stats(f32) components(value, unit, unit)
    outputs("o", "lse", "entropy") {
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
    %more = arith.mulf %d, %sum : f32
    %moved = arith.addf %distances, %more : f32
    attn.yield %sum, %moved : f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %s, %one, %one, %zero : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %distances: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %log = math.log %sum : f32
    %lse = arith.addf %m, %log : f32
    %mean = arith.divf %distances, %sum : f32
    %spread = arith.subf %log, %mean : f32
    %entropy = arith.select %empty, %zero, %spread : f32
    attn.yield %o, %lse, %entropy : f32, f32, f32
  }
}

// Softmax and the row's largest score. The maximum is the one output here
// that changes with the reference point, so nothing may move that point.
attn.monoid @softmax_max cocycle stats(f32) components(value, unit)
    outputs("o", "lse", "max") {
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
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %log = math.log %sum : f32
    %lse = arith.addf %m, %log : f32
    attn.yield %o, %lse, %m : f32, f32, f32
  }
}

// Plain sums: no statistic, so every factor is 1.
attn.monoid @sigmoid_sum cocycle stats() components(value) outputs("o") {
  identity {
    attn.yield
  }
  combine {
    attn.yield
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %neg = arith.negf %s : f32
    %e = math.exp %neg : f32
    %d = arith.addf %one, %e : f32
    %w = arith.divf %one, %d : f32
    attn.yield %w : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

attn.monoid @relu_sum cocycle stats() components(value) outputs("o") {
  identity {
    attn.yield
  }
  combine {
    attn.yield
  }
  lift {
  ^bb0(%s: f32):
    %zero = arith.constant 0.0 : f32
    %w = arith.maximumf %s, %zero : f32
    attn.yield %w : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

attn.monoid @relu2_sum cocycle stats() components(value) outputs("o") {
  identity {
    attn.yield
  }
  combine {
    attn.yield
  }
  lift {
  ^bb0(%s: f32):
    %zero = arith.constant 0.0 : f32
    %r = arith.maximumf %s, %zero : f32
    %w = arith.mulf %r, %r : f32
    attn.yield %w : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

// From the latest key back, each key takes the share sigmoid(s) of what the
// later keys left; `remainder` is what all of them left. The statistic is
// log(1 - sigmoid(s)) = -softplus(s), which does not cancel for large s.
attn.monoid @stick_breaking suffix stats(f32) components(value)
    outputs("o", "remainder") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
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
    %softplus = arith.addf %pos, %log : f32
    %c = arith.negf %softplus : f32
    %neg = arith.negf %s : f32
    %e = math.exp %neg : f32
    %d = arith.addf %one, %e : f32
    %w = arith.divf %one, %d : f32
    attn.yield %c, %w : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    %left = math.exp %c : f32
    attn.yield %acc, %left : f32, f32
  }
}

// Front to back: each key shows through what the earlier keys let pass.
attn.monoid @alpha_compositing prefix stats(f32) components(value)
    outputs("o", "remainder") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
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
    %softplus = arith.addf %pos, %log : f32
    %c = arith.negf %softplus : f32
    %neg = arith.negf %s : f32
    %e = math.exp %neg : f32
    %d = arith.addf %one, %e : f32
    %w = arith.divf %one, %d : f32
    attn.yield %c, %w : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    %left = math.exp %c : f32
    attn.yield %acc, %left : f32, f32
  }
}

// Each key fades by the gates of the keys after it. Two scores: the weight
// and the logarithm of the key's gate.
attn.monoid @gated_decay suffix stats(f32) components(value)
    outputs("o", "remainder") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
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
  ^bb0(%s: f32, %log_gate: f32):
    attn.yield %log_gate, %s : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    %left = math.exp %c : f32
    attn.yield %acc, %left : f32, f32
  }
}

// The numerator of mLSTM and its normaliser, relative to the largest weight so
// far: gates of keys as @gated_decay has them, and weights whose logarithms are
// given. Three scores: the dot, the logarithm of the key's gate and that of its
// weight. An output is num / max(|den|, 1) of the sums as they are.
attn.monoid @mlstm affine stats(f32, f32) components(value, unit)
    outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    %none = arith.constant -3.40282347e+38 : f32
    attn.yield %zero, %none : f32, f32
  }
  combine {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %f = arith.addf %fa, %fb : f32
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    attn.yield %f, %m : f32, f32
  }
  factors {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    %da = arith.subf %decayed, %m : f32
    %alpha = math.exp %da : f32
    %db = arith.subf %mb, %m : f32
    %beta = math.exp %db : f32
    attn.yield %alpha, %beta : f32, f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32, %log_weight: f32):
    %none = arith.constant -3.40282347e+38 : f32
    %m = arith.maximumf %log_weight, %none : f32
    attn.yield %log_gate, %m, %s, %s : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%f: f32, %m: f32, %num: f32, %den: f32):
    %zero = arith.constant 0.0 : f32
    %size = math.absf %den : f32
    %minus = arith.negf %m : f32
    %one = math.exp %minus : f32
    %total = arith.maximumf %size, %one : f32
    %empty = arith.cmpf oeq, %total, %zero : f32
    %quot = arith.divf %num, %total : f32
    %o = arith.select %empty, %zero, %quot : f32
    attn.yield %o : f32
  }
}

// max_j (s_j + v_j) in each channel; -inf where no key is live.
attn.monoid @maxplus general stats() components(value) outputs("o") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    %x = arith.addf %s, %v : f32
    attn.yield %x : f32
  }
  finalize {
  ^bb0(%x: f32):
    attn.yield %x : f32
  }
}

// Mean and variance of the values under the weights max(s, 0), by the update
// of Welford: the squares of large values never cancel.
attn.monoid @welford general stats(f32) components(value, value)
    outputs("mean", "var") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero, %zero, %zero : f32, f32, f32
  }
  combine {
  ^bb0(%wa: f32, %ma: f32, %qa: f32, %wb: f32, %mb: f32, %qb: f32):
    %zero = arith.constant 0.0 : f32
    %w = arith.addf %wa, %wb : f32
    %none = arith.cmpf oeq, %w, %zero : f32
    %share = arith.divf %wb, %w : f32
    %r = arith.select %none, %zero, %share : f32
    %d = arith.subf %mb, %ma : f32
    %step = arith.mulf %d, %r : f32
    %m = arith.addf %ma, %step : f32
    %q = arith.addf %qa, %qb : f32
    %spread = arith.mulf %step, %wa : f32
    %between = arith.mulf %spread, %d : f32
    %qs = arith.addf %q, %between : f32
    attn.yield %w, %m, %qs : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %v1: f32, %j: i32):
    %zero = arith.constant 0.0 : f32
    %w = arith.maximumf %s, %zero : f32
    %none = arith.cmpf oeq, %w, %zero : f32
    %m = arith.select %none, %zero, %v : f32
    attn.yield %w, %m, %zero : f32, f32, f32
  }
  finalize {
  ^bb0(%w: f32, %m: f32, %q: f32):
    %zero = arith.constant 0.0 : f32
    %none = arith.cmpf oeq, %w, %zero : f32
    %quot = arith.divf %q, %w : f32
    %var = arith.select %none, %zero, %quot : f32
    attn.yield %m, %var : f32, f32
  }
}
