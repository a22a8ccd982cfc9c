// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @threshold_of_two_states(%s: !tile.tile<8x16xf32>, %x: !tile.tile<8x1xf32>) {
  // expected-error@+1 {{expected threshold to be the number of a state beside one score and no values, but got 1}}
  %r = tile.fold scores(%s : !tile.tile<8x16xf32>) states(%x : !tile.tile<8x1xf32>)
      attributes {threshold = 1 : i64} {
  ^bb0(%i: i32, %j: i32, %y: f32, %n: f32):
    tile.yield %y : f32
  } -> !tile.tile<8x1xf32>
  return
}

// -----

func.func @threshold_beside_values(%s: !tile.tile<8x16xf32>, %v: !tile.tile<16x4xf32>, %x: !tile.tile<8x1xf32>) {
  // expected-error@+1 {{expected threshold to be the number of a state beside one score and no values, but got 0}}
  %r = tile.fold scores(%s : !tile.tile<8x16xf32>) values(%v : !tile.tile<16x4xf32>) states(%x : !tile.tile<8x1xf32>)
      attributes {threshold = 0 : i64} {
  ^bb0(%i: i32, %j: i32, %y: f32, %z: f32, %n: f32):
    tile.yield %y : f32
  } -> !tile.tile<8x1xf32>
  return
}
