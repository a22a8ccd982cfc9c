//===- Monoids.cpp - The monoids that are fuzzed --------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The shipped ones by name, and six whose text is nowhere else in the
// project: the compiler must take them as it takes its own.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"

using namespace ::attn::fuzz;

/// Softmax to the base 2 with a temperature, a run-time parameter.
static const char *const softmax2Text = R"mlir(
attn.monoid @softmax2 cocycle stats(f32) components(value, unit) params(f32)
    outputs("o", "log2sum") {
  identity {
  ^bb0(%tau: f32):
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32, %tau: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32, %tau: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp2 %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32, %tau: f32):
    %one = arith.constant 1.0 : f32
    %t = arith.divf %s, %tau : f32
    attn.yield %t, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %tau: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %log = math.log2 %sum : f32
    %total = arith.addf %m, %log : f32
    attn.yield %o, %total : f32, f32
  }
}
)mlir";

/// The mean of the values whose score is the largest, that score, and how many
/// they are.
static const char *const maxCountText = R"mlir(
attn.monoid @max_count cocycle stats(f32) components(value, unit)
    outputs("o", "max", "count") {
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
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %same = arith.cmpf oeq, %from, %to : f32
    %r = arith.select %same, %one, %zero : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %count: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %count, %zero : f32
    %quot = arith.divf %acc, %count : f32
    %o = arith.select %empty, %zero, %quot : f32
    attn.yield %o, %m, %count : f32, f32, f32
  }
}
)mlir";

/// Softmax with the mean of the scores and of their squares under its weights.
static const char *const momentsText = R"mlir(
attn.monoid @moments cocycle stats(f32) components(value, unit, unit, unit)
    outputs("o", "mean", "power") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %above = arith.cmpf ugt, %a, %b : f32
    %m = arith.select %above, %a, %b : f32
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
    %square = arith.mulf %s, %s : f32
    attn.yield %s, %one, %one, %s, %square : f32, f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %first: f32, %second: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %e1 = arith.divf %first, %sum : f32
    %e2 = arith.divf %second, %sum : f32
    %mean = arith.select %empty, %zero, %e1 : f32
    %power = arith.select %empty, %zero, %e2 : f32
    attn.yield %o, %mean, %power : f32, f32, f32
  }
}
)mlir";

/// Sigmoid attention, divided by the total weight: two plain sums.
static const char *const shareText = R"mlir(
attn.monoid @share cocycle stats() components(value, unit)
    outputs("o", "total") {
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %neg = arith.negf %s : f32
    %e = math.exp %neg : f32
    %d = arith.addf %one, %e : f32
    %w = arith.divf %one, %d : f32
    attn.yield %w, %w : f32, f32
  }
  finalize {
  ^bb0(%acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    attn.yield %o, %sum : f32, f32
  }
}
)mlir";

/// Softmax with (sum w)^2 / sum w^2, how many keys share the weight: a factor
/// for each component.
static const char *const participationText = R"mlir(
attn.monoid @participation cocycle stats(f32) components(unit, value, unit)
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
    %two = arith.addf %d, %d : f32
    %r = math.exp %d : f32
    %r2 = math.exp %two : f32
    attn.yield %r2, %r, %r : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one, %one : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %squares: f32, %acc: f32, %sum: f32):
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
)mlir";

/// Softmax with how far the mean of the scores is below the largest one, and
/// their variance: sums of distances, which a shift moves with the statistic.
static const char *const spreadText = R"mlir(
attn.monoid @spread cocycle stats(f32) components(value, unit, unit, unit)
    outputs("o", "gap", "variance") {
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
  ^bb0(%from: f32, %to: f32, %sum: f32, %first: f32, %second: f32):
    %d = arith.subf %from, %to : f32
    %more = arith.mulf %d, %sum : f32
    %moved = arith.addf %first, %more : f32
    %both = arith.addf %first, %moved : f32
    %squares = arith.mulf %d, %both : f32
    %moved2 = arith.addf %second, %squares : f32
    attn.yield %sum, %moved, %moved2 : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %s, %one, %one, %zero, %zero : f32, f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %first: f32, %second: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %e1 = arith.divf %first, %sum : f32
    %e2 = arith.divf %second, %sum : f32
    %below = arith.negf %e1 : f32
    %square = arith.mulf %e1, %e1 : f32
    %rest = arith.subf %e2, %square : f32
    %gap = arith.select %empty, %zero, %below : f32
    %variance = arith.select %empty, %zero, %rest : f32
    attn.yield %o, %gap, %variance : f32, f32, f32
  }
}
)mlir";

const std::vector<MonoidInfo> &attn::fuzz::allMonoids() {
  static const std::vector<MonoidInfo> monoids = [] {
    std::vector<MonoidInfo> all;
    auto add = [&](const char *name, Monoid oracle,
                   std::vector<const char *> outputs,
                   const char *text = nullptr) -> MonoidInfo & {
      MonoidInfo info;
      info.name = name;
      info.oracle = oracle;
      info.outputs = std::move(outputs);
      info.text = text;
      all.push_back(info);
      return all.back();
    };
    add("softmax", Monoid::softmax, {"o", "lse"}).takesSinks = true;
    add("softmax_max", Monoid::softmax, {"o", "lse", "max"}).takesSinks = true;
    add("softmax_entropy", Monoid::softmaxEntropy, {"o", "lse", "entropy"})
        .takesSinks = true;
    MonoidInfo &lse = add("logsumexp", Monoid::logsumexp, {"lse"});
    lse.takesSinks = true;
    lse.numValues = 0;
    add("sigmoid_sum", Monoid::sigmoid, {"o"});
    add("relu_sum", Monoid::relu, {"o"}).unbounded = true;
    add("relu2_sum", Monoid::squaredRelu, {"o"}).unbounded = true;
    size_t firstOfWarps = all.size();
    add("stick_breaking", Monoid::stickBreaking, {"o", "remainder"});
    add("alpha_compositing", Monoid::alphaCompositing, {"o", "remainder"});
    add("gated_decay", Monoid::gatedDecay, {"o", "remainder"}).unbounded = true;
    add("maxplus", Monoid::maxPlus, {"o"}).unbounded = true;
    MonoidInfo &welford = add("welford", Monoid::welford, {"mean", "var"});
    welford.numValues = 2;
    for (size_t i = firstOfWarps; i < all.size(); ++i)
      all[i].ofWarps = true;
    add("softmax2", Monoid::softmax, {"o", "log2sum"}, softmax2Text);
    add("max_count", Monoid::softmax, {"o", "max", "count"}, maxCountText)
        .exactScores = true;
    add("moments", Monoid::softmax, {"o", "mean", "power"}, momentsText);
    add("share", Monoid::sigmoid, {"o", "total"}, shareText);
    add("participation", Monoid::softmax, {"o", "ratio"}, participationText)
        .drawnApart = true;
    add("spread", Monoid::softmax, {"o", "gap", "variance"}, spreadText)
        .drawnApart = true;
    return all;
  }();
  return monoids;
}
