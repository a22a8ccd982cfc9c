// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Each monoid is named after the constraint of docs/Semantics.md that it
// breaks.

// expected-error@+1 {{expected statistics of type f32, but got 'i32'}}
attn.monoid @monoid_c1 cocycle stats(i32) components(value) {
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
  ^bb0(%a: f32, %b: f32):
    %c = arith.divf %a, %b : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
}

// -----

// expected-error@+1 {{expected params of type f32, but got 'i32'}}
attn.monoid @monoid_c2 cocycle stats() components(value) params(i32) {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
}

// -----

// expected-error@+1 {{expected one or more components, but got none}}
attn.monoid @monoid_c3 cocycle stats(f32) components() {
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
  ^bb0(%a: f32, %b: f32):
    %c = arith.divf %a, %b : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
}

// -----

// expected-error@+1 {{expected one or more statistics for kind suffix, but got none}}
attn.monoid @monoid_c3 suffix stats() components(value) {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
}

// -----

// expected-error@+1 {{expected a region 'rescale' for kind cocycle}}
attn.monoid @monoid_c4 cocycle stats(f32) components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
}

// -----

// expected-error@+1 {{expected a region 'lift' for kind cocycle}}
attn.monoid @monoid_c4 cocycle stats(f32) components(value) {
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
  ^bb0(%a: f32, %b: f32):
    %c = arith.divf %a, %b : f32
    attn.yield %c : f32
  }
}

// -----

// expected-error@+1 {{expected no region 'gate' for kind cocycle}}
attn.monoid @monoid_c4 cocycle stats(f32) components(value) {
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
  ^bb0(%a: f32, %b: f32):
    %c = arith.divf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%a: f32):
    attn.yield %a : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
}

// -----

// expected-error@+1 {{expected no region 'rescale' for kind cocycle without statistics}}
attn.monoid @monoid_c4 cocycle stats() components(value) {
  rescale {
    %c = arith.constant 1.0 : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
}

// -----

// expected-error@+1 {{expected a region 'gate' for kind prefix}}
attn.monoid @monoid_c4 prefix stats(f32) components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
}

// -----

// expected-error@+1 {{expected region 'combine' to take (f32, f32), but it takes (f32)}}
attn.monoid @monoid_c5 cocycle stats(f32) components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32):
    attn.yield %a : f32
  }
  rescale {
  ^bb0(%a: f32, %b: f32):
    %c = arith.divf %a, %b : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
}

// -----

// expected-error@+1 {{expected region 'rescale' to take (f32, f32, f32), but it takes (f32, f32)}}
attn.monoid @monoid_c5 cocycle stats(f32) components(value) params(f32) {
  identity {
  ^bb0(%p: f32):
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32, %p: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  rescale {
  ^bb0(%a: f32, %b: f32):
    %c = arith.divf %a, %b : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
}

// -----

// expected-error@+1 {{expected region 'lift' to take one or more scores before the params, but it takes 0 arguments in all}}
attn.monoid @monoid_c5 cocycle stats(f32) components(value) {
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
  ^bb0(%a: f32, %b: f32):
    %c = arith.divf %a, %b : f32
    attn.yield %c : f32
  }
  lift {
    %c = arith.constant 1.0 : f32
    attn.yield %c, %c : f32, f32
  }
}

// -----

// expected-error@+1 {{expected region 'lift' to take one or more scores before the values, the key's position and the params, but it takes 2 arguments in all}}
attn.monoid @monoid_c5 general stats() components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32, %j: i32):
    attn.yield %s : f32
  }
}

// -----

// expected-error@+1 {{expected region 'identity' to yield 1 f32, but it yields (f32, f32)}}
attn.monoid @monoid_c6 cocycle stats(f32) components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e, %e : f32, f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  rescale {
  ^bb0(%a: f32, %b: f32):
    %c = arith.divf %a, %b : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
}

// -----

// expected-error@+1 {{expected region 'lift' to yield 2 f32, but it yields (f32)}}
attn.monoid @monoid_c6 cocycle stats(f32) components(value) {
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
  ^bb0(%a: f32, %b: f32):
    %c = arith.divf %a, %b : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
}

// -----

attn.monoid @monoid_c7 cocycle stats(f32) components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    // expected-error@+1 {{in region 'combine': expected no fast-math flags (-inf and NaN are values here), but got fast}}
    %c = arith.maximumf %a, %b fastmath<fast> : f32
    attn.yield %c : f32
  }
  rescale {
  ^bb0(%a: f32, %b: f32):
    %c = arith.divf %a, %b : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
}

// -----

// expected-error@+1 {{expected a region 'finalize' that yields the 1 outputs}}
attn.monoid @monoid_c8 cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
}

// -----

// expected-error@+1 {{expected region 'finalize' to yield 1 f32, but it yields (f32, f32)}}
attn.monoid @monoid_c8 cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%v: f32):
    attn.yield %v, %v : f32, f32
  }
}

// -----

// expected-error@+1 {{expected outputs(...) to name what region 'finalize' yields}}
attn.monoid @monoid_c8 cocycle stats() components(value) {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%v: f32):
    attn.yield %v, %v : f32, f32
  }
}

// -----

// expected-error@+1 {{expected outputs to have distinct names, but got "o" twice}}
attn.monoid @monoid_c8 cocycle stats() components(value) outputs("o", "o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%v: f32):
    attn.yield %v, %v : f32, f32
  }
}

// -----

// The largest value as a statistic would be another for each channel.
// expected-error@+1 {{expected statistics and unit components not to depend on the values: there is one for all channels}}
attn.monoid @monoid_c9 general stats(f32) components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e, %e : f32, f32
  }
  combine {
  ^bb0(%c: f32, %v: f32, %d: f32, %w: f32):
    attn.yield %c, %w : f32, f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %v, %v : f32, f32
  }
}

// -----

// expected-error@+1 {{expected kind to be one of cocycle, suffix, prefix, general, affine, but got 'group'}}
attn.monoid @kind group stats(f32) components(value) {
}

// -----

// expected-error@+1 {{expected component to be one of value, unit, but got 'values'}}
attn.monoid @component cocycle stats(f32) components(values) {
}

// -----

// expected-error@+1 {{expected region 'rescale' to yield one f32, or one for each of the 3 components, but it yields 2}}
attn.monoid @monoid_c6_factors cocycle stats(f32) components(value, unit, unit) {
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
    attn.yield %r, %r : f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one, %one : f32, f32, f32, f32
  }
}

// -----

// expected-error@+1 {{expected a region 'factors' for kind affine}}
attn.monoid @monoid_c4 affine stats(f32) components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
}

// -----

// expected-error@+1 {{expected region 'factors' to yield 2 f32, but it yields (f32)}}
attn.monoid @monoid_c6 affine stats(f32) components(value) {
  identity {
    %e = arith.constant 0.0 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  factors {
  ^bb0(%a: f32, %b: f32):
    attn.yield %b : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
}

// -----

// expected-error@+1 {{expected one or more statistics for kind affine, but got none}}
attn.monoid @monoid_c3 affine stats() components(value) {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
}

// -----

// expected-error@+1 {{expected no region 'shift' for kind cocycle without unit components}}
attn.monoid @monoid_c4_shift cocycle stats(f32) components(value) {
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
  shift {
  ^bb0(%from: f32, %to: f32):
    attn.yield
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
}

// -----

// expected-error@+1 {{expected no region 'shift' for kind cocycle without statistics}}
attn.monoid @monoid_c4_no_statistics cocycle stats() components(unit) {
  shift {
  ^bb0(%u: f32):
    attn.yield %u : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
}

// -----

// expected-error@+1 {{expected region 'shift' to yield 2 f32, but it yields (f32)}}
attn.monoid @monoid_c6_shift cocycle stats(f32) components(unit, value, unit) {
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
  shift {
  ^bb0(%from: f32, %to: f32, %u: f32, %w: f32):
    attn.yield %u : f32
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s, %s, %s : f32, f32, f32, f32
  }
}
