// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-import-prelude --attn-to-aggregate --attn-choose-schedule --attn-expand-dispatch

// expected-error @below {{expected attn.dispatch to be a unit attribute of a module or #attn.dispatch on attn.aggregate or attn.attention, but got 1}}
module attributes {attn.dispatch = 1} {
}

// -----

func.func @twice(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) {
  // expected-error @below {{expected variants of a schedule where a function has one reduction, but got more of these}}
  %a = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {attn.dispatch = #attn.dispatch<[<"few", when = <rows = 0 to 3>, schedule = <block_q = 3, rows = 3, block_k = 32, loop = peeled>>]>}
      -> tensor<?x?x?x64xf32>
  %b = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return %a, %b : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
}

// -----

// expected-error @below {{expected variants that some sizes take, but "few" takes all those of "one"}}
#hidden = #attn.dispatch<[
  <"few", when = <rows = 1 to 16>, schedule = <block_q = 16, rows = 16, block_k = 32, loop = peeled>>,
  <"one", when = <rows = 1 to 1, keys = 7 to any>, schedule = <block_q = 1, rows = 1, block_k = 32, loop = peeled>>]>

// -----

// expected-error @below {{expected rows from 0 or more to no less, but got 3 to 2}}
#empty = #attn.sizes<rows = 3 to 2>

// -----

// expected-error @below {{expected one of rows, keys, heads, group, blocks, pairs_of, but got 'cols'}}
#unknown = #attn.sizes<cols = 3 to 4>

// -----

// expected-error @below {{expected rows at most once}}
#again = #attn.sizes<rows = 3 to 4, rows = 3 to 4>

// -----

// expected-error @below {{expected pairs_of to be at least 0, but got -1}}
#negative = #attn.sizes<pairs_of = -1>

// -----

func.func private @other(%x: index)
func.func @alone(%x: memref<?xf32>, %c: i1) {
  // expected-error @below {{expected 'other' to be of type '(memref<?xf32>, i1) -> ()' as this function, but it is of type '(index) -> ()'}}
  tile.dispatch %c to @other
  return
}

// -----

func.func @self(%c: i1) {
  // expected-error @below {{expected 'self' to be another function in this module}}
  tile.dispatch %c to @self
  return
}
