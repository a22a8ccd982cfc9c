//===- RewritePasses.td - Named rewrites of reductions -----*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decisions about what kernels make of scores and states. Each is an attribute
// of the reduction that attn-tile carries out; without it the kernel is right,
// and slower. Above them are schedules, below them tiles.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_REWRITEPASSES_TD
#define ATTN_DIALECT_ATTN_TRANSFORMS_REWRITEPASSES_TD

include "mlir/Pass/PassBase.td"

def AttnRelaxMaximumPass : Pass<"attn-relax-maximum", "::mlir::ModuleOp"> {
  let summary = "Let maxima pass NaN by where outputs show it all the same";
  let description = [{
    Expects: `attn.aggregate` and `attn.partial`, whose monoids obey their laws.

    Produces: `relaxed_maximum` on those whose combine is a maximum of one f32 statistic
    of a cocycle, if their outputs are NaN for a NaN score even where the maximum ignores
    it: through its weight, which is NaN. Kernels then compare and select instead of
    `arith.maximumf`. Law tests decide, on the monoid's regions and on a finalize region of
    the op's own. For `attn.partial` the outputs are those of the `attn.finalize` behind
    it; if its states are returned, or read in another way, they keep their maximum.

    Example:

    ```mlir
    attn.monoid @softmax cocycle stats(f32) components(value, unit)
        outputs("o") {
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
      ^bb0(%m: f32, %acc: f32, %l: f32):
        %zero = arith.constant 0.0 : f32
        %dead = arith.cmpf oeq, %l, %zero : f32
        %q = arith.divf %acc, %l : f32
        %o = arith.select %dead, %zero, %q : f32
        attn.yield %o : f32
      }
    }
    func.func @attention(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                         %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @softmax
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    Numerics: none but where a score is NaN, which outputs are then as well.

    Fails when: the module's `attn.target` is unknown.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report as a remark what keeps its maximum, and why">
  ];
  let statistics = [
    Statistic<"numRelaxed", "num-relaxed",
              "Reductions whose maximum passes NaN by">,
    Statistic<"numKept", "num-kept", "Reductions that keep what they reduce">
  ];
}

def AttnFixAnchorPass : Pass<"attn-fix-anchor", "::mlir::ModuleOp"> {
  let summary = "Let weights be measured from 0 where scores are bounded";
  let description = [{
    Expects: `attn.aggregate` whose monoids obey their laws, and a target.

    Produces: `fixable_anchor` on those whose weights may be measured from 0 instead of
    the row's maximum:

    - on a GPU with tensor copies;
    - the score is a factor times a `math.tanh`, the factor of constants and captured
      scalars, so that it bounds the score;
    - weights are exp (or exp2) of the score, and are rounded to bf16; and
    - no output depends on the reference maximum (the anchor) that weights are measured
      from, as the laws tell.

    `attn-tile` makes two kernels of them, and the plan gives one of them blocks: up to a
    factor of 73 / log2(e) = 50.6 every row has the fixed maximum 0, and none is computed.

    Example:

    ```mlir
    module attributes {attn.target = "sm_90a"} {
    attn.monoid @softmax cocycle stats(f32) components(value, unit)
        outputs("o") {
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
      ^bb0(%m: f32, %acc: f32, %l: f32):
        %zero = arith.constant 0.0 : f32
        %dead = arith.cmpf oeq, %l, %zero : f32
        %q = arith.divf %acc, %l : f32
        %o = arith.select %dead, %zero, %q : f32
        attn.yield %o : f32
      }
    }
    func.func @capped(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                      %v: tensor<?x?x?x64xbf16>, %cap: f32)
        -> tensor<?x?x?x64xbf16> {
      %o = attn.aggregate @softmax
          scores(%q, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
          values(%v : tensor<?x?x?x64xbf16>) captures(%cap : f32) score {
          ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
            %x = arith.divf %s, %c : f32
            %t = math.tanh %x : f32
            %y = arith.mulf %t, %c : f32
            attn.yield %y : f32
          } -> tensor<?x?x?x64xbf16>
      return %o : tensor<?x?x?x64xbf16>
    }
    }
    ```

    Numerics: sums are infinite where the number of keys times the largest value
    passes 2^54, and lose bits of values below 2^-53.

    Fails when: the module's `attn.target` is unknown.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report as a remark whose anchor runs with the maximum, and why">
  ];
  let statistics = [
    Statistic<"numFixable", "num-fixable",
              "Reductions with a kernel of a fixed anchor">,
    Statistic<"numKept", "num-kept", "Reductions whose anchor is the maximum">
  ];
}

def AttnGuardDeadScoresPass
    : Pass<"attn-guard-dead-scores", "::mlir::ModuleOp"> {
  let summary = "Keep a NaN out of scores that a bias of -inf kills";
  let description = [{
    Expects: reductions (`attn.aggregate`, `attn.partial`, `attn.scores`), whose
    monoids obey their laws.

    Produces: score regions that keep a NaN out of dead scores. A key is dead where a
    bias is -inf (docs/Semantics.md), and a NaN of its dot must not reach the row then. So
    a sum with a term that may be -inf (an element of a captured tensor, or a constant) is
    replaced by that term where it is -inf.

    Some kernels mark rows that a NaN has come to, and a second kernel computes these
    again with dead keys under the mask. There the pass does the opposite: it removes
    such tests. A second run changes nothing. `attn-tile` does the same for reductions that
    have not been through this pass, which runs earlier so that the passes between see
    scores as kernels will.

    Example, before:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # attn.monoid @softmax cocycle stats(f32) components(value, unit)
    #     outputs("o") {
    #   identity {
    #     %ninf = arith.constant 0xFF800000 : f32
    #     attn.yield %ninf : f32
    #   }
    #   combine {
    #   ^bb0(%a: f32, %b: f32):
    #     %m = arith.maximumf %a, %b : f32
    #     attn.yield %m : f32
    #   }
    #   rescale {
    #   ^bb0(%from: f32, %to: f32):
    #     %d = arith.subf %from, %to : f32
    #     %r = math.exp %d : f32
    #     attn.yield %r : f32
    #   }
    #   lift {
    #   ^bb0(%s: f32):
    #     %one = arith.constant 1.0 : f32
    #     attn.yield %s, %one, %one : f32, f32, f32
    #   }
    #   finalize {
    #   ^bb0(%m: f32, %acc: f32, %l: f32):
    #     %zero = arith.constant 0.0 : f32
    #     %dead = arith.cmpf oeq, %l, %zero : f32
    #     %q = arith.divf %acc, %l : f32
    #     %o = arith.select %dead, %zero, %q : f32
    #     attn.yield %o : f32
    #   }
    # }
    func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %bias: tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32> {
      %o = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          captures(%bias : tensor<?x?x?x?xf32>) score {
          ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32,
               %t: tensor<?x?x?x?xf32>):
            %b0 = arith.index_cast %b : i32 to index
            %h0 = arith.index_cast %h : i32 to index
            %i0 = arith.index_cast %i : i32 to index
            %j0 = arith.index_cast %j : i32 to index
            %x = tensor.extract %t[%b0, %h0, %i0, %j0] : tensor<?x?x?x?xf32>
            %sum = arith.addf %s, %x : f32
            attn.yield %sum : f32
          }
          -> tensor<?x?x?x?xf32>
      return %o : tensor<?x?x?x?xf32>
    }
    # }
    ```

    After:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # attn.monoid @softmax cocycle stats(f32) components(value, unit)
    #     outputs("o") {
    #   identity {
    #     %ninf = arith.constant 0xFF800000 : f32
    #     attn.yield %ninf : f32
    #   }
    #   combine {
    #   ^bb0(%a: f32, %b: f32):
    #     %m = arith.maximumf %a, %b : f32
    #     attn.yield %m : f32
    #   }
    #   rescale {
    #   ^bb0(%from: f32, %to: f32):
    #     %d = arith.subf %from, %to : f32
    #     %r = math.exp %d : f32
    #     attn.yield %r : f32
    #   }
    #   lift {
    #   ^bb0(%s: f32):
    #     %one = arith.constant 1.0 : f32
    #     attn.yield %s, %one, %one : f32, f32, f32
    #   }
    #   finalize {
    #   ^bb0(%m: f32, %acc: f32, %l: f32):
    #     %zero = arith.constant 0.0 : f32
    #     %dead = arith.cmpf oeq, %l, %zero : f32
    #     %q = arith.divf %acc, %l : f32
    #     %o = arith.select %dead, %zero, %q : f32
    #     attn.yield %o : f32
    #   }
    # }
    func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %bias: tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32> {
      %o = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          captures(%bias : tensor<?x?x?x?xf32>) score {
          ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32,
               %t: tensor<?x?x?x?xf32>):
            %b0 = arith.index_cast %b : i32 to index
            %h0 = arith.index_cast %h : i32 to index
            %i0 = arith.index_cast %i : i32 to index
            %j0 = arith.index_cast %j : i32 to index
            %x = tensor.extract %t[%b0, %h0, %i0, %j0] : tensor<?x?x?x?xf32>
            %sum = arith.addf %s, %x : f32
            %ninf = arith.constant 0xFF800000 : f32
            %dead = arith.cmpf oeq, %x, %ninf : f32
            %y = arith.select %dead, %x, %sum : f32
            attn.yield %y : f32
          }
          -> tensor<?x?x?x?xf32>
      return %o : tensor<?x?x?x?xf32>
    }
    # }
    ```

    Numerics: a dead key's score is -inf where its dot is NaN, too.

    Fails when: never.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numGuarded", "num-guarded",
              "Reductions whose tests of dead scores changed">
  ];
}

def AttnOnlineFormPass : Pass<"attn-online-form", "::mlir::ModuleOp"> {
  let summary = "Hold weights as powers of 2 of the distance from the maximum";
  let description = [{
    Expects: `attn.aggregate` and `attn.partial`, whose monoids obey their laws,
    and a target.

    Produces: `exponent` on those that have the form of online softmax:

    - a cocycle with one f32 statistic: the score, combined by a maximum, -inf at first;
    - with factors exp(from - to) or exp2(from - to); and
    - with weights that do not need the score, or that the score tells wherever they
      count.

    Kernels then evaluate a weight as exp2 of (score - maximum) * k, with k = log2(e)
    or 1, in one of two ways:

    - "fused": the product of maximum and k is rounded once for the row, and the exponent
      of an element is one multiply-add. Rows whose maximum is so large that this rounding
      would show are treated apart, or computed again.
    - "exact": the difference comes first. It is for cases in which the rounding of the
      row does not cancel: weights that are rounded to 16 bits while sums of them are
      asked for in f32, and weights that hold the score. (It does cancel where a GPU sums,
      in whole aggregates, weights that are the score times a constant: they are summed
      as exponents times their powers.)

    Example, before:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # attn.monoid @softmax cocycle stats(f32) components(value, unit)
    #     outputs("o") {
    #   identity {
    #     %ninf = arith.constant 0xFF800000 : f32
    #     attn.yield %ninf : f32
    #   }
    #   combine {
    #   ^bb0(%a: f32, %b: f32):
    #     %m = arith.maximumf %a, %b : f32
    #     attn.yield %m : f32
    #   }
    #   rescale {
    #   ^bb0(%from: f32, %to: f32):
    #     %d = arith.subf %from, %to : f32
    #     %r = math.exp %d : f32
    #     attn.yield %r : f32
    #   }
    #   lift {
    #   ^bb0(%s: f32):
    #     %one = arith.constant 1.0 : f32
    #     attn.yield %s, %one, %one : f32, f32, f32
    #   }
    #   finalize {
    #   ^bb0(%m: f32, %acc: f32, %l: f32):
    #     %zero = arith.constant 0.0 : f32
    #     %dead = arith.cmpf oeq, %l, %zero : f32
    #     %q = arith.divf %acc, %l : f32
    #     %o = arith.select %dead, %zero, %q : f32
    #     attn.yield %o : f32
    #   }
    # }
    func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>)
        -> tensor<?x?x?x128xbf16> {
      %o = attn.aggregate @softmax
          scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
          values(%v : tensor<?x?x?x128xbf16>)
          -> tensor<?x?x?x128xbf16>
      return %o : tensor<?x?x?x128xbf16>
    }
    # }
    ```

    After:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # attn.monoid @softmax cocycle stats(f32) components(value, unit)
    #     outputs("o") {
    #   identity {
    #     %ninf = arith.constant 0xFF800000 : f32
    #     attn.yield %ninf : f32
    #   }
    #   combine {
    #   ^bb0(%a: f32, %b: f32):
    #     %m = arith.maximumf %a, %b : f32
    #     attn.yield %m : f32
    #   }
    #   rescale {
    #   ^bb0(%from: f32, %to: f32):
    #     %d = arith.subf %from, %to : f32
    #     %r = math.exp %d : f32
    #     attn.yield %r : f32
    #   }
    #   lift {
    #   ^bb0(%s: f32):
    #     %one = arith.constant 1.0 : f32
    #     attn.yield %s, %one, %one : f32, f32, f32
    #   }
    #   finalize {
    #   ^bb0(%m: f32, %acc: f32, %l: f32):
    #     %zero = arith.constant 0.0 : f32
    #     %dead = arith.cmpf oeq, %l, %zero : f32
    #     %q = arith.divf %acc, %l : f32
    #     %o = arith.select %dead, %zero, %q : f32
    #     attn.yield %o : f32
    #   }
    # }
    func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>)
        -> tensor<?x?x?x128xbf16> {
      %o = attn.aggregate @softmax
          scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
          values(%v : tensor<?x?x?x128xbf16>) {exponent = #attn.exponent<fused>}
          -> tensor<?x?x?x128xbf16>
      return %o : tensor<?x?x?x128xbf16>
    }
    # }
    ```

    Numerics: exp(a - b) is evaluated as exp2; "fused" rounds the product of the
    maximum and k, 2^-24 of it.

    Fails when: the module's `attn.target` is unknown.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report as a remark what is not in online form, and why">
  ];
  let statistics = [
    Statistic<"numFused", "num-fused",
              "Reductions whose exponents are multiply-adds">,
    Statistic<"numExact", "num-exact",
              "Reductions that subtract the maximum first">,
    Statistic<"numKept", "num-kept",
              "Reductions that compute factors as written">
  ];
}

def AttnFoldScalePass : Pass<"attn-fold-scale", "::mlir::ModuleOp"> {
  let summary = "Hold the maximum in units of the unscaled score";
  let description = [{
    Expects: `attn.aggregate` and `attn.partial` in online form
    (attn-online-form), and a target.

    Produces: `score_unit` on those whose score is a factor times the dot, the factor a
    positive constant or the same for all pairs of a block. The maximum of scores is
    then the factor times the maximum of dots, and k of the exponential takes the factor:
    no element is multiplied by it.

    - Of a factor that is known at run time the sign goes into the queries; all of it
      does if it is 0 or NaN.
    - On a GPU, where exponents are multiply-adds and all that is made of weights is
      rounded to 16 bits, the score may also be a factor times something else, such as a
      tanh. The factor's sign goes in there.

    Example, before:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # attn.monoid @softmax cocycle stats(f32) components(value, unit)
    #     outputs("o") {
    #   identity {
    #     %ninf = arith.constant 0xFF800000 : f32
    #     attn.yield %ninf : f32
    #   }
    #   combine {
    #   ^bb0(%a: f32, %b: f32):
    #     %m = arith.maximumf %a, %b : f32
    #     attn.yield %m : f32
    #   }
    #   rescale {
    #   ^bb0(%from: f32, %to: f32):
    #     %d = arith.subf %from, %to : f32
    #     %r = math.exp %d : f32
    #     attn.yield %r : f32
    #   }
    #   lift {
    #   ^bb0(%s: f32):
    #     %one = arith.constant 1.0 : f32
    #     attn.yield %s, %one, %one : f32, f32, f32
    #   }
    #   finalize {
    #   ^bb0(%m: f32, %acc: f32, %l: f32):
    #     %zero = arith.constant 0.0 : f32
    #     %dead = arith.cmpf oeq, %l, %zero : f32
    #     %q = arith.divf %acc, %l : f32
    #     %o = arith.select %dead, %zero, %q : f32
    #     attn.yield %o : f32
    #   }
    # }
    func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>, %scale: f32)
        -> tensor<?x?x?x128xbf16> {
      %o = attn.aggregate @softmax
          scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
          values(%v : tensor<?x?x?x128xbf16>) captures(%scale : f32)
          {exponent = #attn.exponent<fused>} score {
          ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
            %x = arith.mulf %s, %c : f32
            attn.yield %x : f32
          }
          -> tensor<?x?x?x128xbf16>
      return %o : tensor<?x?x?x128xbf16>
    }
    # }
    ```

    After:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # attn.monoid @softmax cocycle stats(f32) components(value, unit)
    #     outputs("o") {
    #   identity {
    #     %ninf = arith.constant 0xFF800000 : f32
    #     attn.yield %ninf : f32
    #   }
    #   combine {
    #   ^bb0(%a: f32, %b: f32):
    #     %m = arith.maximumf %a, %b : f32
    #     attn.yield %m : f32
    #   }
    #   rescale {
    #   ^bb0(%from: f32, %to: f32):
    #     %d = arith.subf %from, %to : f32
    #     %r = math.exp %d : f32
    #     attn.yield %r : f32
    #   }
    #   lift {
    #   ^bb0(%s: f32):
    #     %one = arith.constant 1.0 : f32
    #     attn.yield %s, %one, %one : f32, f32, f32
    #   }
    #   finalize {
    #   ^bb0(%m: f32, %acc: f32, %l: f32):
    #     %zero = arith.constant 0.0 : f32
    #     %dead = arith.cmpf oeq, %l, %zero : f32
    #     %q = arith.divf %acc, %l : f32
    #     %o = arith.select %dead, %zero, %q : f32
    #     attn.yield %o : f32
    #   }
    # }
    func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>, %scale: f32)
        -> tensor<?x?x?x128xbf16> {
      %o = attn.aggregate @softmax
          scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
          values(%v : tensor<?x?x?x128xbf16>) captures(%scale : f32)
          {exponent = #attn.exponent<fused>, score_unit} score {
          ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
            %x = arith.mulf %s, %c : f32
            attn.yield %x : f32
          }
          -> tensor<?x?x?x128xbf16>
      return %o : tensor<?x?x?x128xbf16>
    }
    # }
    ```

    Numerics: the factor is rounded into k, once, instead of into each score.

    Fails when: the module's `attn.target` is unknown.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report as a remark whose maximum is in units of the score, and why">
  ];
  let statistics = [
    Statistic<"numFolded", "num-folded",
              "Reductions whose maximum is in units of the dot">,
    Statistic<"numKept", "num-kept",
              "Reductions whose maximum is in units of the score">
  ];
}

def AttnFoldLinearBiasPass : Pass<"attn-fold-linear-bias", "::mlir::ModuleOp"> {
  let summary = "Let products add a bias that grows evenly from key to key";
  let description = [{
    Expects: `attn.aggregate` and `attn.partial` in online form with schedules,
    and a target.

    Produces: `linear_bias` on those whose score is k * dot + rest, where k, and what the
    rest grows by from one key to the next, are the same for all rows of a block: as with
    ALiBi. Their products are of warpgroups, with whole tiles in a loop of their own
    (`peeled`). The product of a whole tile adds the growth (the `ramp` of `tile.dot`), and
    the rest at the tile's first key is a number of the row: nothing is left to do for
    each score.

    k and the growth are read off the score region by the rules of sums and products.
    The size of a distance (`math.absi`, `math.absf`) grows on one side of 0 and falls on
    the other: tiles on either side are linear. They come before the tiles that 0 lies
    in, which are not.

    What is the same for all pairs that are far enough apart, as an element of a table by
    a distance with bounds, grows by nothing there: tiles on either side that have such
    pairs alone are linear. Where the region's bounds do not say how far that is, but all
    differs by the distance and has a bound or comes from tensors, a kernel before the
    reduction looks at each distance; not for packed sequences.

    Example, before:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # attn.monoid @softmax cocycle stats(f32) components(value, unit)
    #     outputs("o") {
    #   identity {
    #     %ninf = arith.constant 0xFF800000 : f32
    #     attn.yield %ninf : f32
    #   }
    #   combine {
    #   ^bb0(%a: f32, %b: f32):
    #     %m = arith.maximumf %a, %b : f32
    #     attn.yield %m : f32
    #   }
    #   rescale {
    #   ^bb0(%from: f32, %to: f32):
    #     %d = arith.subf %from, %to : f32
    #     %r = math.exp %d : f32
    #     attn.yield %r : f32
    #   }
    #   lift {
    #   ^bb0(%s: f32):
    #     %one = arith.constant 1.0 : f32
    #     attn.yield %s, %one, %one : f32, f32, f32
    #   }
    #   finalize {
    #   ^bb0(%m: f32, %acc: f32, %l: f32):
    #     %zero = arith.constant 0.0 : f32
    #     %dead = arith.cmpf oeq, %l, %zero : f32
    #     %q = arith.divf %acc, %l : f32
    #     %o = arith.select %dead, %zero, %q : f32
    #     attn.yield %o : f32
    #   }
    # }
    func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>, %scale: f32)
        -> tensor<?x?x?x128xbf16> {
      %o = attn.aggregate @softmax
          scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
          values(%v : tensor<?x?x?x128xbf16>) captures(%scale : f32)
          {exponent = #attn.exponent<fused>, schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>} score {
          ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
            %x = arith.sitofp %j : i32 to f32
            %y = arith.mulf %x, %c : f32
            %sum = arith.addf %s, %y : f32
            attn.yield %sum : f32
          }
          -> tensor<?x?x?x128xbf16>
      return %o : tensor<?x?x?x128xbf16>
    }
    # }
    ```

    After:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # attn.monoid @softmax cocycle stats(f32) components(value, unit)
    #     outputs("o") {
    #   identity {
    #     %ninf = arith.constant 0xFF800000 : f32
    #     attn.yield %ninf : f32
    #   }
    #   combine {
    #   ^bb0(%a: f32, %b: f32):
    #     %m = arith.maximumf %a, %b : f32
    #     attn.yield %m : f32
    #   }
    #   rescale {
    #   ^bb0(%from: f32, %to: f32):
    #     %d = arith.subf %from, %to : f32
    #     %r = math.exp %d : f32
    #     attn.yield %r : f32
    #   }
    #   lift {
    #   ^bb0(%s: f32):
    #     %one = arith.constant 1.0 : f32
    #     attn.yield %s, %one, %one : f32, f32, f32
    #   }
    #   finalize {
    #   ^bb0(%m: f32, %acc: f32, %l: f32):
    #     %zero = arith.constant 0.0 : f32
    #     %dead = arith.cmpf oeq, %l, %zero : f32
    #     %q = arith.divf %acc, %l : f32
    #     %o = arith.select %dead, %zero, %q : f32
    #     attn.yield %o : f32
    #   }
    # }
    func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>, %scale: f32)
        -> tensor<?x?x?x128xbf16> {
      %o = attn.aggregate @softmax
          scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
          values(%v : tensor<?x?x?x128xbf16>) captures(%scale : f32)
          {exponent = #attn.exponent<fused>, linear_bias, schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>} score {
          ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
            %x = arith.sitofp %j : i32 to f32
            %y = arith.mulf %x, %c : f32
            %sum = arith.addf %s, %y : f32
            attn.yield %sum : f32
          }
          -> tensor<?x?x?x128xbf16>
      return %o : tensor<?x?x?x128xbf16>
    }
    # }
    ```

    Numerics: in linear tiles dots and ramps add up in units of the dot, and the
    rest is rounded once a row, not once a score. Where ramps are more than 2^16 a
    key in these units, or k is not positive, all tiles take the form of the
    others; so they do where heads are packed whose slopes differ.

    Fails when: the module's `attn.target` is unknown.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report as a remark what has no linear tiles, and why">
  ];
  let statistics = [
    Statistic<"numLinear", "num-linear", "Reductions with linear tiles">,
    Statistic<"numKept", "num-kept",
              "Reductions whose scores are summed one by one">
  ];
}

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_REWRITEPASSES_TD
