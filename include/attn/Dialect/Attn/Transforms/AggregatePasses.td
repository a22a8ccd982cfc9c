//===- AggregatePasses.td - Passes over aggregates ---------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is true of aggregates on any target: where they come from, their laws,
// their gradients, and simpler forms of them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_AGGREGATEPASSES_TD
#define ATTN_DIALECT_ATTN_TRANSFORMS_AGGREGATEPASSES_TD

include "mlir/Pass/PassBase.td"

def AttnImportPreludePass : Pass<"attn-import-prelude", "::mlir::ModuleOp"> {
  let summary = "Copy the shipped monoids that a module names into it";
  let description = [{
    Expects: any module. References to monoids that the module does not define
    must name shipped ones; the verifier has seen to that.

    Produces: the definition of each such monoid, private, at the start of the
    module. Nothing else changes; a second run changes nothing.

    Example:

    ```mlir
    func.func @f(%q: tensor<1x8x?x64xf32>, %k: tensor<1x8x?x64xf32>,
                 %v: tensor<1x8x?x64xf32>) -> tensor<1x8x?x64xf32> {
      %o = attn.attention queries(%q : tensor<1x8x?x64xf32>)
          keys(%k : tensor<1x8x?x64xf32>) values(%v : tensor<1x8x?x64xf32>)
          -> tensor<1x8x?x64xf32>
      return %o : tensor<1x8x?x64xf32>
    }
    ```

    becomes `attn.monoid private @softmax ...` followed by the same function.

    Numerics: no effect.

    Fails when: a use of a monoid that it copied does not fit it, by the number
    or the shape of what it takes and gives.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"
  ];
  let statistics = [
    Statistic<"numImported", "num-imported", "Monoids copied into the module">
  ];
}

def AttnFoldBasesPass : Pass<"attn-fold-bases", "::mlir::ModuleOp"> {
  let summary = "Add row and key bases to the positions that regions see";
  let description = [{
    Expects: `attn.aggregate` and `attn.partial`.

    Produces: the same without `row_base` and `key_base`: these become captures,
    and regions add them to the positions of rows and keys.

    Example: before

    ```mlir
    func.func @shard(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                     %v: tensor<?x?x?x64xf32>, %j0: i32)
        -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @softmax
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>) key_base(%j0 : i32)
        mask {
        ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
          %live = arith.cmpi sle, %j, %i : i32
          attn.yield %live : i1
        } -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    Numerics: no effect.

    Fails when: never.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def AttnToAggregatePass : Pass<"attn-to-aggregate", "::mlir::ModuleOp"> {
  let summary = "Write named attention as a monoid aggregate";
  let description = [{
    Expects: `attn.attention`, whose monoid is a symbol of the module.
    Produces: one `attn.aggregate` per op. Scale, softcap, the user's score
    function, bias and alibi become the score region, in this order; causal
    alignment, window, boolean mask and the user's mask become the mask region,
    as integer expressions; dropout becomes the factor region; sinks become the
    init region; the monoid's
    finalize is cloned for the results that are used. Sizes that regions need
    become captures, constants are cloned into the regions.

    Example, before:

    ```mlir
    attn.monoid @sum cocycle stats() components(value) outputs("o") {
      lift {
      ^bb0(%s: f32):
        attn.yield %s : f32
      }
      finalize {
      ^bb0(%acc: f32):
        attn.yield %acc : f32
      }
    }
    func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                      %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.attention monoid(@sum) queries(%q : tensor<?x?x?x64xf32>)
          keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
          {causal = #attn.causal<top_left>} -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    After:

    ```mlir
    attn.monoid @sum cocycle stats() components(value) outputs("o") {
      lift {
      ^bb0(%s: f32):
        attn.yield %s : f32
      }
      finalize {
      ^bb0(%acc: f32):
        attn.yield %acc : f32
      }
    }
    func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                      %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @sum
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>)
        score {
        ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
          %scale = arith.constant 1.250000e-01 : f32
          %x = arith.mulf %s, %scale : f32
          attn.yield %x : f32
        }
        mask {
        ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
          %live = arith.cmpi sle, %j, %i : i32
          attn.yield %live : i1
        }
        finalize {
        ^bb0(%acc: f32, %b: i32, %h: i32, %i: i32):
          attn.yield %acc : f32
        } -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    Numerics: exact; no operation is reordered.
    Fails when: the monoid's symbol is absent.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def AttnAggregateToScanPass
    : Pass<"attn-aggregate-to-scan", "::mlir::ModuleOp"> {
  let summary = "Make scans of sums whose weights are linear in the dots";
  let description = [{
    Expects: `attn.aggregate` whose monoids obey their laws, and a target.

    Produces: on CPUs an `attn.scan` in the place of each aggregate of one dot,
    one value and one output, of plain tensors and without `init`, `factor` and
    schedule, whose monoid is a sum (`cocycle` without statistics) or a `suffix` with gates
    exp of a sum; whose weight is the dot, or that times a constant or a captured
    scalar; whose gate is the element (b, h, j) of a capture; whose mask is
    `j <= i` or absent, without gates; and whose output is the sum as it is. Where
    query heads may share a key head, each has a state, with its gates. Its time grows with the keys, and no longer
    with the pairs of rows and keys: where a number of them is known, there have to
    be enough for that to pay, 385 at 128 channels.

    Example:

    ```mlir
    module attributes {attn.target = "cpu-avx2"} {
    attn.monoid @linear cocycle stats() components(value) outputs("o") {
      lift {
      ^bb0(%s: f32):
        attn.yield %s : f32
      }
      finalize {
      ^bb0(%acc: f32):
        attn.yield %acc : f32
      }
    }
    func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @linear
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>) mask {
          ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
            %live = arith.cmpi sle, %j, %i : i32
            attn.yield %live : i1
          } -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    }
    ```

    Numerics: sums in another order, in f32; weights of 16-bit inputs are not
    rounded. Keys and values that are not finite leave the rows of their chunk
    unspecified; keys behind the last row may hold anything.

    Fails when: the module's `attn.target` is unknown.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report as a remark which aggregate is a scan, and why others, of "
           "sums and suffixes, are not">
  ];
  let statistics = [
    Statistic<"numScans", "num-scans", "Aggregates that became scans">
  ];
}

def AttnDifferentiatePass : Pass<"attn-differentiate", "::mlir::ModuleOp"> {
  let summary = "Add the functions that compute gradients";
  let description = [{
    Expects: public functions that return the results of one `attn.aggregate`,
    over keys that are dense or packed, in a `cocycle` monoid, or over dense keys in
    a `suffix` or `prefix` monoid whose statistics are added up.

    Produces: behind each such function @f

    - `@f_forward`, which also returns the state of each row that the backward
      reads: statistics and unit components, in order;
    - `@f_backward`, which takes the arguments of @f, that state, the results
      that it reads, and a cotangent for each result, and returns a gradient for
      each input: for each query operand, then for keys, values and captures in
      the order of the arguments.

    Gradients of queries are an `attn.aggregate` over keys, of keys and values
    one over queries; their score regions recompute a pair's weights from the
    row's statistics, and go back through them (docs/Gradients.md). The gradient
    of a capture is what each row has of it (each key where it is read by j and
    not by h or i), to be added up by the caller over what it repeats along. What
    is read by rows and keys both, or at computed indices, has its elements of 128
    keys in `@f_pairs`; where indices are computed of the distance of row and key,
    and nothing else is read by pairs, `@f_distances` gives the sums along diagonals,
    but for pairs so far apart that all of them read one element: what these give it
    is what rows have of "table[255]". `attn.gradients` names on each function what its results
    are: "bias[h,i,j]" is read at [h, i, j]; "table[*]" at an index that is
    computed, and that the result behind it, "#index", holds.

    Of `suffix` and `prefix` monoids `@f_backward` and `@f_pairs` are about a block of
    128 keys or fewer, from `first_key` on. They take, beside the above, what
    `@f_states` gives for the block, and what the caller adds up of its sums over
    other blocks: of the statistics of the keys whose gates scale this block's weights
    (`later0`, or `earlier0` for a prefix), and of weights times their cotangents of
    the keys on the other side (`rest`). `@f_states` takes two matrices of 128 rows
    and columns, 1 at [l, j] for l > j (`is_later`) and for l < j (`is_earlier`).
    Gradients of queries are f32, to be added up over blocks.

    With `inputs` these arguments alone are differentiated; with `replace` @f
    goes. Where @f has `attn.any_order`, the sums that give gradients have it, too:
    they may be added up in any order.

    Example, before:

    ```mlir
    attn.monoid @sum cocycle stats() components(value) outputs("o") {
      lift {
      ^bb0(%s: f32):
        attn.yield %s : f32
      }
      finalize {
      ^bb0(%acc: f32):
        attn.yield %acc : f32
      }
    }
    func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                      %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @sum
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    Numerics: regions are differentiated as they are written; docs/Gradients.md
    says which derivative is taken where there are two.

    Fails when: the monoid is of another kind; an operation between an input and
    a result has no derivative; a result is not a value component times a factor
    of its row; a captured input is read by `factor`, or at computed indices by
    `init` or `finalize`.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"
  ];
  let options = [
    ListOption<"inputs", "inputs", "int64_t",
               "Numbers of the arguments to differentiate (default: all floats)">,
    Option<"replace", "replace", "bool", "false",
           "Leave the functions for training alone">
  ];
}

def AttnDropDeadComponentsPass
    : Pass<"attn-drop-dead-components", "::mlir::ModuleOp"> {
  let summary = "Reduce in the components that the results need";
  let description = [{
    Expects: any module; `canonicalize` has dropped results without uses.
    Produces: each `attn.aggregate` whose finalize region does not read all
    components refers to a new private monoid, placed after its own, that has
    only those it reads: the others leave `components`, `lift`, the values, and
    the init and finalize regions, for `general` monoids `identity` and
    `combine`, too. What a `general` monoid computes live components from is
    live. Outputs that need what is gone leave the new monoid, statistics never
    do. One component stays in any case, a unit: of monoids without one the
    weights of the first value, unless the kind is `general`. Reductions that
    need the same share a monoid; a private one without uses is erased.
    `attn.partial` and what reads its states are left alone.

    Example, before:

    ```mlir
    attn.monoid private @sums cocycle stats() components(value, unit)
        outputs("o", "total") {
      lift {
      ^bb0(%s: f32):
        %square = arith.mulf %s, %s : f32
        attn.yield %s, %square : f32, f32
      }
      finalize {
      ^bb0(%acc: f32, %total: f32):
        attn.yield %acc, %total : f32, f32
      }
    }
    func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                      %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @sums
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    After:

    ```mlir
    attn.monoid private @sums_0 cocycle stats() components(value) outputs("o") {
      lift {
      ^bb0(%s: f32):
        attn.yield %s : f32
      }
      finalize {
      ^bb0(%acc: f32):
        attn.yield %acc : f32
      }
    }
    func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                      %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @sums_0
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    Numerics: no effect by itself. Schedules, and what the laws of the smaller
    monoid license below, may differ from those of the whole one.
    Fails when: never.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Emit a remark for each reduction that loses components">
  ];
  let statistics = [
    Statistic<"numDropped", "num-dropped", "Components dropped">
  ];
}

def AttnCheckLawsPass : Pass<"attn-check-laws", "::mlir::ModuleOp"> {
  let summary = "Test that the monoids of a module obey their laws";
  let description = [{
    Expects: any module.

    Produces: the same module. Every `attn.monoid` is evaluated on samples and
    the two sides of each law of its kind compared: identity, associativity,
    `r(a, a) = 1` and `r(a, b) r(b, c) = r(a, c)` (cocycle), `g(e) = 1` and
    `g(a + b) = g(a) g(b)` (suffix, prefix), finite lifts, factors and sums of
    weights in float32, no NaN for rows of no or few live keys, and rows that
    are the same in every schedule. Samples are of one to 2^17 keys, of params
    from 2^-10 to 2^10, near the constants of the regions and where their
    comparisons turn, in float64 and float32. Tests, not proofs; a monoid with
    the same text is tested once in a process.

    Example: softmax with a combine that adds fails with

    ```
    'attn.monoid' op breaks the law "identity: ..." ...
    ```

    Numerics: no effect.

    Fails when: a law is broken; the error prints a counterexample.
  }];
  let options = [
    Option<"properties", "properties", "bool", "false",
           "Emit a remark with the properties of each monoid">
  ];
  let statistics = [
    Statistic<"numChecked", "num-checked", "Monoids checked">
  ];
}

def AttnScaleWeightsPass : Pass<"attn-scale-weights", "::mlir::ModuleOp"> {
  let summary = "Keep the f16 weights of plain sums within what f16 holds";
  let description = [{
    Expects: a target, and monoids that obey their laws.

    Produces: each `attn.aggregate` over keys whose monoid is a cocycle without
    a statistic, and whose weights the target rounds to f16 to multiply them with
    values, refers to a new private monoid, placed after its own. That holds the
    sum of w v as m, the size of the row's largest weight, and the sum of
    (w / p(m)) v, where p(m) is a power of two: of the bits of m the upper five of
    the exponent, with the lowest one of it. A state moves from m to n by the
    factor p(m) / p(n); `finalize` multiplies what it reads by p(m), and a state
    that `init` gives has m = 1. A component that is no value is scaled with the
    others; where there are such, m is 2^-64 or more.
    Where each weight is 1 / (1 + exp(x)), weights are 2^14 times what they were,
    and the sums of values 2^-14 times: there is no further statistic. So are they
    of a `suffix` or `prefix` monoid whose gates are exp of a sum of what is at most
    0, as the lift shows (minus a sum of exponentials, say).

    `attn.partial` and what reads its states, and reductions over queries or with
    several dots for each pair (gradients), are left alone.

    Example, before:

    ```mlir
    module attributes {attn.target = "sm_90a"} {
    attn.monoid private @squares cocycle stats() components(value)
        outputs("o") {
      identity {
        attn.yield
      }
      combine {
        attn.yield
      }
      lift {
      ^bb0(%s: f32):
        %w = arith.mulf %s, %s : f32
        attn.yield %w : f32
      }
      finalize {
      ^bb0(%acc: f32):
        attn.yield %acc : f32
      }
    }
    func.func @sum(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>,
                   %v: tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16> {
      %o = attn.aggregate @squares
          scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
          values(%v : tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16>
      return %o : tensor<?x?x?x64xf16>
    }
    }
    ```

    After:

    ```mlir
    module attributes {attn.target = "sm_90a"} {
    attn.monoid private @squares_0 cocycle stats(f32) components(value)
        outputs("o") {
      identity {
        %zero = arith.constant 0.0 : f32
        attn.yield %zero : f32
      }
      combine {
      ^bb0(%a: f32, %b: f32):
        %m = arith.maximumf %a, %b : f32
        attn.yield %m : f32
      }
      rescale {
      ^bb0(%from: f32, %to: f32):
        %bits = arith.bitcast %from : f32 to i32
        %mask = arith.constant 2080374784 : i32
        %upper = arith.andi %bits, %mask : i32
        %least = arith.constant 8388608 : i32
        %power = arith.ori %upper, %least : i32
        %p = arith.bitcast %power : i32 to f32
        %bits_0 = arith.bitcast %to : f32 to i32
        %mask_0 = arith.constant 2080374784 : i32
        %upper_0 = arith.andi %bits_0, %mask_0 : i32
        %least_0 = arith.constant 8388608 : i32
        %power_0 = arith.ori %upper_0, %least_0 : i32
        %p_0 = arith.bitcast %power_0 : i32 to f32
        %r = arith.divf %p, %p_0 : f32
        attn.yield %r : f32
      }
      lift {
      ^bb0(%s: f32):
        %w = arith.mulf %s, %s : f32
        %m = math.absf %w : f32
        %bits = arith.bitcast %m : f32 to i32
        %mask = arith.constant 2080374784 : i32
        %upper = arith.andi %bits, %mask : i32
        %least = arith.constant 8388608 : i32
        %power = arith.ori %upper, %least : i32
        %p = arith.bitcast %power : i32 to f32
        %x = arith.divf %w, %p : f32
        attn.yield %m, %x : f32, f32
      }
      finalize {
      ^bb0(%m: f32, %acc: f32):
        %bits = arith.bitcast %m : f32 to i32
        %mask = arith.constant 2080374784 : i32
        %upper = arith.andi %bits, %mask : i32
        %least = arith.constant 8388608 : i32
        %power = arith.ori %upper, %least : i32
        %p = arith.bitcast %power : i32 to f32
        %sum = arith.mulf %acc, %p : f32
        attn.yield %sum : f32
      }
    }
    func.func @sum(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>,
                   %v: tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16> {
      %o = attn.aggregate @squares_0
          scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
          values(%v : tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16>
      return %o : tensor<?x?x?x64xf16>
    }
    }
    ```

    Numerics: products with powers of two are exact. Of a row, weights below 2^-24
    of the largest one are 0, as f16 has nothing there. Weights that are infinite or NaN stay so.

    Fails when: the module's `attn.target` is unknown.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report as a remark whose weights are scaled, by what, and why not">
  ];
  let statistics = [
    Statistic<"numScaled", "num-scaled", "Reductions of scaled weights">
  ];
}

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_AGGREGATEPASSES_TD
