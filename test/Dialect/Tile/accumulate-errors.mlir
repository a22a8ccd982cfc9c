// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @accumulate_turn_alone(%m: memref<?x?xf32>, %n: memref<?xi32>, %i: index, %t: !tile.tile<8x8xf32>) {
  // expected-error@+1 {{expected any_order with turns: blocks add to the same elements}}
  tile.accumulate %t, %m[%i, %i] turn(%i of %n[%i] : memref<?xi32>) : !tile.tile<8x8xf32>, memref<?x?xf32>
  return
}

// -----

func.func @accumulate_turn_counters(%m: memref<?x?xf32>, %i: index, %t: !tile.tile<8x8xf32>) {
  // expected-error@+1 {{expected counters of i32, and 2 dimensions, as there are indices, but got 'memref<?x?xf32>'}}
  tile.accumulate any_order %t, %m[%i, %i] turn(%i of %m[%i, %i] : memref<?x?xf32>) : !tile.tile<8x8xf32>, memref<?x?xf32>
  return
}
