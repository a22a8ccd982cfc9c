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

    Produces: on CPUs an `attn.scan` in place of each aggregate that is one. Its time
    grows with the number of keys, and not with that of pairs of rows and keys. An
    aggregate qualifies if

    - it has one dot, one value and one output, on plain tensors, and no `init`,
      `factor` or schedule;
    - its monoid is a sum (`cocycle` without statistics), or a `suffix` whose gates are
      exp of a sum;
    - a weight is the dot, or the dot times a constant or a captured scalar;
    - a gate is the element (b, h, j) of a capture;
    - its mask is `j <= i`, or absent if there are no gates;
    - its output is the sum itself; and
    - it has enough keys for that to pay, if their number is known: 385 at 128
      channels.

    Query heads that share a key head have a state each, with their own gates.

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

    - `@f_forward`, which also returns what the backward reads of each row's state:
      statistics and unit components, in order;
    - `@f_backward`, which takes the arguments of @f, that state, the results that it
      reads, and a cotangent for each result, and returns a gradient for each input:
      for each query operand, then for keys, values and captures in the order of the
      arguments.

    Gradients of queries are an `attn.aggregate` over keys, those of keys and values
    one over queries. Their score regions compute a pair's weight again from the row's
    statistics, and go back through it (docs/Gradients.md).

    *Captures.* The gradient of a capture is returned for each row (for each key, where
    the capture is read by j and by neither h nor i). The caller adds it up over what
    the capture repeats along. Two functions more are for captures that both rows and
    keys read, or that are read at computed indices:

    - `@f_pairs` gives the elements of 128 keys.
    - `@f_distances` gives sums along diagonals, where indices are computed from the
      distance of row and key and nothing else is read by pairs. Pairs so far apart
      that all of them read one element are not in these sums; theirs is what rows
      give for "table[255]".

    `attn.gradients` names on each function what its results are: "bias[h,i,j]" is read
    at [h, i, j]; "table[*]" at a computed index, which the result behind it, "#index",
    holds.

    *Suffix and prefix monoids.* `@f_backward` and `@f_pairs` are about a block of at
    most 128 keys, from `first_key` on. Beside the above they take what `@f_states`
    gives for the block, and two sums over other blocks, which the caller adds up:

    - `later0` (`earlier0` for a prefix): of the statistics of the keys whose gates scale
      this block's weights;
    - `rest`: of weights times their cotangents, of the keys on the other side.

    `@f_states` takes two matrices of 128 rows and columns, which are 1 at [l, j] for
    l > j (`is_later`) and for l < j (`is_earlier`). Gradients of queries are f32, to be
    added up over blocks.

    With `inputs` only these arguments are differentiated; with `replace` @f is removed.
    If @f has `attn.any_order`, so have the sums that give gradients: they may be added
    up in any order.

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
    Produces: a smaller monoid for each `attn.aggregate` whose finalize region does not
    read all components. It is private, placed behind the old one, and has only what is
    read: the other components leave `components`, `lift`, the values, and the init and
    finalize regions, and for `general` monoids `identity` and `combine` too.

    - What a `general` monoid computes live components from is live.
    - Outputs that need a component that is gone leave the new monoid. Statistics stay.
    - One component stays in any case, a unit. A monoid without one keeps the weights of
      the first value instead, unless its kind is `general`.
    - Reductions that need the same components share a monoid; a private monoid without
      uses is erased.

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

    Produces: a monoid that holds scaled sums, for each `attn.aggregate` over keys whose
    weights the target rounds to f16 before it multiplies values by them. Two kinds of
    monoid need it:

    - *A cocycle without a statistic.* The new monoid, private and placed behind the old
      one, has the size m of the row's largest weight as its statistic, and sums (w / p(m))
      v instead of w v. p(m) is a power of two near m: of m's exponent it has the upper
      five bits, and of the others only the lowest one is set. A state moves from m to n by the factor p(m) / p(n), and
      `finalize` multiplies what it reads by p(m). A state that `init` gives has m = 1.
      Components that are no values are scaled with the others; where there are any, m
      is at least 2^-64.
    - *Weights of at most 1*: 1 / (1 + exp(x)), or those of a `suffix` or `prefix` monoid
      whose gates are exp of a sum of terms that `lift` shows to be at most 0 (minus a
      sum of exponentials, say). Weights are 2^14 times what they were, and `finalize`
      multiplies the sums of values by 2^-14; no statistic is added.

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
