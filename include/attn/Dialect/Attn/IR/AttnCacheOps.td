//===- AttnCacheOps.td - Operations on caches --------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNCACHEOPS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNCACHEOPS_TD

include "attn/Dialect/Attn/IR/AttnOpBase.td"

//===----------------------------------------------------------------------===//
// AppendOp
//===----------------------------------------------------------------------===//

def Attn_AppendOp : Attn_Op<"append", [
    AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Writes rows behind the last ones of caches";
  let description = [{
    Row i of the new rows of batch b becomes row `lengths[b] + i` of the
    sequence in the cache, in place: a cache is an argument of the function, and
    the memory that the caller passes for it is written. The result is the
    lengths after the append. An operation that reads the new rows takes the
    result for its lengths, and so runs after the append.

    The rows are in the cache where `attn.attention` looks for them with the
    same `lengths`, `block_table`, `k_start` and `rolling`. A row for which
    there is no room is not written, and not counted by the result.

    With `offsets` each sequence has as many new rows as it likes, or none: the
    rows of batch b are those from `offsets[b]` to `offsets[b + 1]` of packed
    tensors [h, total, d].

    Example:

    ```mlir
    func.func @step(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                    %v: tensor<?x?x?x64xf32>, %kn: tensor<?x?x?x64xf32>,
                    %vn: tensor<?x?x?x64xf32>, %n: tensor<?xi32>)
        -> tensor<?x?x?x64xf32> {
      %after = attn.append rows(%kn, %vn : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          to(%k, %v : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          lengths(%n : tensor<?xi32>) -> tensor<?xi32>
      %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
          keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
          lengths(%after : tensor<?xi32>)
          {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```
  }];
  let arguments = (ins
    Arg<Variadic<Attn_FloatTensor>, "The new rows, one tensor for each cache: "
        "[b, h, n, d], or with `offsets` [h, total, d].">:$rows,
    Arg<Variadic<Attn_FloatTensor>, "The tensors that are written, [b, h, "
        "rows, d] or with `block_table` [pages, h, page, d]; they are "
        "arguments of the function.">:$caches,
    Arg<Attn_I32Vec, "Number of rows that each sequence has before, "
        "[b].">:$lengths,
    Arg<Optional<Attn_I32Vec>, "First new row of each sequence, and the end of "
        "the last one, [b + 1]; if absent, all have equally many.">:$offsets,
    Arg<Optional<Attn_I32Table>, "The pages of each sequence in order, [b, n]; "
        "caches are not in pages if absent.">:$block_table,
    Arg<Optional<Attn_I32Vec>, "Position of the first row of each sequence, "
        "[b]; goes with `rolling`, and only there.">:$k_start,
    Arg<UnitAttr, "Caches are written round and round: the row at position p "
        "is row p modulo their rows.">:$rolling);
  let results = (outs
    Res<Attn_I32Vec, "Number of rows that each sequence has afterwards, "
        "[b].">:$after);
  let assemblyFormat = [{
    `rows` `(` $rows `:` type($rows) `)` `to` `(` $caches `:` type($caches) `)`
    `lengths` `(` $lengths `:` type($lengths) `)`
    (`offsets` `(` $offsets^ `:` type($offsets) `)`)?
    (`block_table` `(` $block_table^ `:` type($block_table) `)`)?
    (`k_start` `(` $k_start^ `:` type($k_start) `)`)?
    attr-dict `->` type($after)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// ShareOp
//===----------------------------------------------------------------------===//

def Attn_ShareOp : Attn_Op<"share", [Pure]> {
  let summary = "Gathers the rows of sequences that have pages in common";
  let description = [{
    Finds sequences whose block tables have equal entries at equal places, and
    gathers their rows: a group of them has `rows` rows for each key head, head
    by head those of one sequence and then those of the next, and the pages that
    all of them have. `attn.partial` reduces these keys for the rows of a group;
    `attn.combine` multiplies what comes of it with what each sequence makes of
    its other keys, those from `starts` on.

    Level 0 has pages from the first one on. At each level the sequences that
    have the same page where the level begins for them are a class; of the ends
    that it could have the one is taken that saves the most pages, and sequences
    that differ before it are left to the next level, with the pages they have
    had. A page that not all rows of a sequence see as a whole is not shared, nor
    is a negative entry: with `causal` a row sees the keys up to its own, of which
    the last row has the last.

    There are as many groups as sizes tell, `countGroups`: sequences for which
    there is no room share nothing. Results depend on the elements of the table
    and the lengths, and nothing is read by a host.

    Example:

    ```mlir
    # func.func @example(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x16x64xf32>,
    #     %t: tensor<?x?xi32>, %n: tensor<?xi32>) {
    %rows, %tables, %keys, %counts, %starts, %places = attn.share
        queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x16x64xf32>)
        table(%t : tensor<?x?xi32>) lengths(%n : tensor<?xi32>) levels(2)
        -> tensor<?x?x64x64xf32>, tensor<?x?xi32>, tensor<?xi32>, tensor<?xi32>,
           tensor<?xi32>, tensor<2x?xi32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Attn_FloatTensor, "The queries, [b, hq, sq, d].">:$query,
    Arg<Attn_FloatTensor, "The keys, a pool [pages, hk, page, d].">:$key,
    Arg<Attn_I32Table, "The pages of each sequence in order, [b, n].">:$table,
    Arg<Optional<Attn_I32Vec>, "Number of keys of each sequence, [b]; if "
        "absent, as many as the table has room for.">:$lengths,
    Arg<ConfinedAttr<I64Attr, [IntPositive]>, "Number of levels.">:$levels,
    Arg<UnitAttr, "A row does not see the keys behind its own.">:$causal);
  let results = (outs
    Res<Attn_FloatTensor, "The rows of each group, [groups, hk, rows, d], with "
        "zeros behind them.">:$queries,
    Res<Attn_I32Table, "The pages of each group, [groups, n].">:$tables,
    Res<Attn_I32Vec, "Number of keys of each group, [groups].">:$keys,
    Res<Attn_I32Vec, "Number of rows of each group, [groups].">:$counts,
    Res<Attn_I32Vec, "The first key of each sequence that it has for itself, "
        "[b].">:$starts,
    Res<Attn_I32Table, "Of each level and sequence, the first of its rows in the "
        "groups, counted through them, or -1: [levels, b].">:$places);
  let assemblyFormat = [{
    `queries` `(` $query `:` type($query) `)` `keys` `(` $key `:` type($key) `)`
    `table` `(` $table `:` type($table) `)`
    (`lengths` `(` $lengths^ `:` type($lengths) `)`)?
    `levels` `(` $levels `)` (`causal` $causal^)? attr-dict `->`
    type($queries) `,` type($tables) `,` type($keys) `,` type($counts) `,`
    type($starts) `,` type($places)
  }];
  let hasVerifier = 1;
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNCACHEOPS_TD
