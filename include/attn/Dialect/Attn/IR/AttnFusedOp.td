//===- AttnFusedOp.td - Two reductions in one kernel -------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNFUSEDOP_TD
#define ATTN_DIALECT_ATTN_IR_ATTNFUSEDOP_TD

def Attn_FusedOp : Attn_Op<"fused", [
    SingleBlock, NoRegionArguments, RecursiveMemoryEffects,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Two reductions of the same pairs, which one kernel computes";
  let description = [{
    The body has an aggregate over keys and one over queries, and yields the
    results of the first and then of the second: what both mean is what they
    mean elsewhere. The first takes from its pairs nothing that the second does
    not know: dots of the same rows, the same mask, weights that the second has
    too, and values that are rows of the second. So each weight is computed
    once, added up over queries in registers and over keys in memory. Gradients
    of attention are such a pair, `dq` and `dk, dv`.

    A batch and key head are one work item then, of n. The kernel runs where
    `threads` threads with ceil(n / threads) items each do no more than 7 / 5 of
    the work, which is what two kernels do; else these run. Sizes alone decide,
    so that the same sizes give the same bits. On a GPU each tile of keys is a work
    item, and `threads` says nothing. They add in turns, or in any order where both
    aggregates have `any_order`.

    Example:

    ```mlir
    attn.monoid private @sum cocycle stats() components(value) outputs("o") {
      lift {
      ^bb0(%s: f32):
        attn.yield %s : f32
      }
      finalize {
      ^bb0(%v: f32):
        attn.yield %v : f32
      }
    }
    func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>)
        -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) {
      %r:2 = attn.fused threads(2) {
        %dq = attn.aggregate @sum
            scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
            values(%k : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
        %dk = attn.aggregate @sum
            scores(%k, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
            values(%q : tensor<?x?x?x64xf32>) {side = #attn.side<queries>}
            -> tensor<?x?x?x64xf32>
        attn.yield %dq, %dk : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
      } : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
      return %r#0, %r#1 : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
    }
    ```
  }];
  let arguments = (ins
    Arg<ConfinedAttr<I64Attr, [IntPositive]>, "Number of threads that share the "
        "work items, by which sizes tell whether one kernel runs.">:$threads,
    Arg<OptionalAttr<DenseI64ArrayAttr>, "Sizes that a GPU's one kernel is for: "
        "so many queries and tiles of keys, of all heads, at least, query heads "
        "of a key head at most, and queries at least that see the tile of keys "
        "in the middle. All sizes if absent.">:$turn_sizes,
    Arg<OptionalAttr<Attn_ScheduleAttr>, "The schedule that the aggregate over "
        "queries has for other sizes, of which each of the two runs for "
        "itself; goes with `turn_sizes`.">:$two_kernels);
  let results = (outs
    Res<Variadic<Attn_FloatTensor>, "The results of the aggregate over keys, "
        "then of the one over queries.">:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `threads` `(` $threads `)` $body attr-dict `:` type($outputs)
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The aggregates over keys and over queries.
    AggregateOp getOverKeys();
    AggregateOp getOverQueries();
    /// A result of the aggregate over keys, from what the other one has: the
    /// number of the component with its weight, and of the row operand that is
    /// its value.
    struct Term {
      unsigned weight, operand;
    };
    /// The terms of two aggregates; or nothing, and why they have none.
    static ::llvm::SmallVector<Term> findTerms(AggregateOp overKeys,
                                               AggregateOp overQueries,
                                               std::string &why);
  }];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNFUSEDOP_TD
