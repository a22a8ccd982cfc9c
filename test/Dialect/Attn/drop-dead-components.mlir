// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize --attn-drop-dead-components --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-drop-dead-components --attn-check-laws --split-input-file -o /dev/null
// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize --attn-drop-dead-components=explain --split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN

// Only the entropy reads the sum of distances: without it, what is left
// is the softmax, and the output that needs the sum is gone by name, too. The
// whole monoid goes with its last user.
// CHECK-NOT:   @softmax_entropy cocycle
// CHECK:       attn.monoid private @softmax_entropy_0 cocycle stats(f32) components(value, unit) outputs("o", "lse")
// CHECK-NOT:     shift {
// CHECK:         lift {
// CHECK-NEXT:    ^bb0(%[[S:.*]]: f32):
// CHECK-NEXT:      %[[ONE:.*]] = arith.constant 1.0
// CHECK-NEXT:      attn.yield %[[S]], %[[ONE]], %[[ONE]] : f32, f32, f32
// CHECK:         finalize {
// CHECK-NEXT:    ^bb0(%{{.*}}: f32, %{{.*}}: f32, %{{.*}}: f32):
// CHECK:           attn.yield %{{.*}}, %{{.*}} : f32, f32
// CHECK-LABEL: func.func @no_entropy(
// CHECK:         attn.aggregate @softmax_entropy_0
// CHECK:         init {
// CHECK:           attn.yield %{{.*}}, %{{.*}}, %{{.*}} : f32, f32, f32
// CHECK:         finalize {
// CHECK-NEXT:    ^bb0(%{{.*}}: f32, %{{.*}}: f32, %{{.*}}: f32, %{{.*}}: i32
// EXPLAIN:     remark: results need 2 of the 3 components of @softmax_entropy, the others are gone
func.func @no_entropy(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                      %v: tensor<?x?x?x64xf32>, %sinks: tensor<?xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o, %lse, %entropy = attn.attention monoid(@softmax_entropy)
      queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) sinks(%sinks : tensor<?xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}

// -----

// With every component in use nothing changes.
// CHECK:       attn.monoid private @softmax_entropy cocycle stats(f32) components(value, unit, unit) outputs("o", "lse", "entropy")
// CHECK-NOT:   attn.monoid
// CHECK-LABEL: func.func @all(
// CHECK:         attn.aggregate @softmax_entropy scores
// EXPLAIN-NOT: remark: results need {{.*}} of @softmax_entropy,
func.func @all(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
               %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o, %lse, %entropy = attn.attention monoid(@softmax_entropy)
      queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o, %entropy : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}

// -----

// Who asks for the logarithm of the sum alone multiplies no values: two such
// reductions share the monoid, and a third keeps the whole one.
// CHECK:       attn.monoid private @softmax cocycle stats(f32) components(value, unit)
// CHECK:       attn.monoid private @softmax_0 cocycle stats(f32) components(unit) outputs("lse")
// CHECK-NOT:   attn.monoid
// CHECK-LABEL: func.func @shared(
// CHECK:         attn.aggregate @softmax_0 scores(
// CHECK-NOT:     values
// CHECK:         attn.aggregate @softmax_0 scores(
// CHECK-NOT:     values
// CHECK:         attn.aggregate @softmax scores({{.*}}) values(
// EXPLAIN:     remark: results need 1 of the 2 components of @softmax,
// EXPLAIN:     remark: results need 1 of the 2 components of @softmax,
// EXPLAIN-NOT: remark: results need {{.*}} of @softmax,
func.func @shared(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?x64xf32>) {
  %0, %lse0 = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  %1, %lse1 = attn.attention queries(%k : tensor<?x?x?x64xf32>)
      keys(%q : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  %2 = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return %lse0, %lse1, %2
      : tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?x64xf32>
}

// -----

// States of general monoids are combined as wholes. The variance reads the
// means: all of it stays. The mean reads no squares: they go, with their
// values and their entries of identity, combine and lift.
// CHECK:       attn.monoid private @welford general stats(f32) components(value, value)
// CHECK:       attn.monoid private @welford_0 general stats(f32) components(value) outputs("mean")
// CHECK:         identity {
// CHECK:           attn.yield %{{.*}}, %{{.*}} : f32, f32
// CHECK:         combine {
// CHECK-NEXT:    ^bb0(%[[WA:.*]]: f32, %[[MA:.*]]: f32, %[[WB:.*]]: f32, %[[MB:.*]]: f32):
// CHECK:           arith.subf %[[MB]], %[[MA]]
// CHECK:           attn.yield %{{.*}}, %{{.*}} : f32, f32
// CHECK:         lift {
// CHECK-NEXT:    ^bb0(%{{.*}}: f32, %{{.*}}: f32, %{{.*}}: i32):
// CHECK-LABEL: func.func @general(
// CHECK:         attn.aggregate @welford scores({{.*}}) values(%{{.*}}, %{{.*}} :
// CHECK:         attn.aggregate @welford_0 scores({{.*}}) values(%[[V:[^,]*]] :
func.func @general(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) {
  %0, %var = attn.attention monoid(@welford) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>)
      values(%v, %v : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
  %mean, %1 = attn.attention monoid(@welford)
      queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v, %v : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
  return %var, %mean : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
}

// -----

// No component is read, but a monoid has one: the unit stays, or the weights of
// the value, which is then a unit. Statistics stay as they are.
// CHECK:       attn.monoid private @softmax_max_0 cocycle stats(f32) components(unit) outputs("lse", "max")
// CHECK:       attn.monoid private @stick_breaking_1 suffix stats(f32) components(unit) outputs("remainder")
// CHECK-LABEL: func.func @statistics(
// CHECK:         attn.aggregate @softmax_max_0 scores
// CHECK-NOT:     values
// CHECK:         attn.aggregate @stick_breaking_1 scores
// CHECK-NOT:     values
func.func @statistics(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                      %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  %0, %1, %max = attn.attention monoid(@softmax_max)
      queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  %2, %remainder = attn.attention monoid(@stick_breaking)
      queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %max, %remainder : tensor<?x?x?xf32>, tensor<?x?x?xf32>
}

// -----

// A reduction without a finalize region of its own reads what the first
// outputs of the monoid read. The public monoid stays for others.
// CHECK:       attn.monoid @sums suffix stats(f32) components(value, unit, value)
// CHECK:       attn.monoid private @sums_0 suffix stats(f32) components(value, unit) outputs("o", "total")
// CHECK:         lift {
// CHECK-NEXT:    ^bb0(%[[S:.*]]: f32):
// CHECK:           %[[C:.*]] = arith.negf
// CHECK-NEXT:      attn.yield %[[C]], %[[S]], %[[S]] : f32, f32, f32
// CHECK-LABEL: func.func @default(
// CHECK-SAME:    %[[Q:.*]]: tensor<?x?x?x64xf32>, %[[K:.*]]: tensor<?x?x?x64xf32>, %[[V:.*]]: tensor<?x?x?x64xf32>, %[[W:.*]]: tensor
// CHECK:         attn.aggregate @sums_0 scores(%[[Q]], %[[K]] : {{.*}}) values(%[[V]] :
attn.monoid @sums suffix stats(f32) components(value, unit, value)
    outputs("o", "total", "squares") {
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
    %size = math.absf %s : f32
    %c = arith.negf %size : f32
    %square = arith.mulf %s, %s : f32
    attn.yield %c, %s, %s, %square : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32, %total: f32, %squares: f32):
    attn.yield %acc, %total, %squares : f32, f32, f32
  }
}
func.func @default(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>, %w: tensor<?x?x?x64xf32>)
    -> tensor<?x?x?xf32> {
  %o, %total, %squares = attn.aggregate @sums
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v, %w : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?x64xf32>
  return %total : tensor<?x?x?xf32>
}

// -----

// Factors leave with their components: what is left of the participation
// ratio has one factor, as a softmax has, or two.
// CHECK:       attn.monoid private @participation_1 cocycle stats(f32) components(value, unit) outputs("o")
// CHECK:         rescale {
// CHECK-NEXT:    ^bb0(%[[FROM:.*]]: f32, %[[TO:.*]]: f32):
// CHECK-NEXT:      %[[D:.*]] = arith.subf %[[FROM]], %[[TO]]
// CHECK-NEXT:      %[[R:.*]] = math.exp %[[D]]
// CHECK-NEXT:      attn.yield %[[R]] : f32
// CHECK:       attn.monoid private @participation_0 cocycle stats(f32) components(unit, unit) outputs("ratio")
// CHECK:         rescale {
// CHECK:           %[[R:.*]] = math.exp
// CHECK-NEXT:      %[[R2:.*]] = arith.mulf %[[R]], %[[R]]
// CHECK-NEXT:      attn.yield %[[R]], %[[R2]] : f32, f32
attn.monoid private @participation cocycle stats(f32) components(value, unit, unit)
    outputs("o", "ratio") {
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
    %r2 = arith.mulf %r, %r : f32
    attn.yield %r, %r, %r2 : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one, %one : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %squares: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %square = arith.mulf %sum, %sum : f32
    %p = arith.divf %square, %squares : f32
    %ratio = arith.select %empty, %zero, %p : f32
    attn.yield %o, %ratio : f32, f32
  }
}
func.func @factors(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?xf32>, tensor<?x?x?x64xf32>) {
  %0:2 = attn.attention monoid(@participation)
      queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  %1:2 = attn.attention monoid(@participation)
      queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %0#1, %1#0 : tensor<?x?x?xf32>, tensor<?x?x?x64xf32>
}
