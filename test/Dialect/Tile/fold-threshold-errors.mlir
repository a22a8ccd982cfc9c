// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @threshold_of_two_states(%s: !tile.tile<8x16xf32>, %x: !tile.tile<8x1xf32>) {
  // expected-error@+1 {{expected tile.threshold to be an i64, the number of a state, on a tile.fold of one score and no values}}
  %r = tile.fold scores(%s : !tile.tile<8x16xf32>) states(%x : !tile.tile<8x1xf32>)
      attributes {tile.threshold = 1 : i64} {
  ^bb0(%i: i32, %j: i32, %y: f32, %n: f32):
    tile.yield %y : f32
  } -> !tile.tile<8x1xf32>
  return
}

// -----

func.func @threshold_of_map(%s: !tile.tile<8x16xf32>) {
  // expected-error@+1 {{expected tile.threshold to be an i64, the number of a state, on a tile.fold}}
  %r = tile.map ins(%s : !tile.tile<8x16xf32>) attributes {tile.threshold = 0 : i64} {
  ^bb0(%i: i32, %j: i32, %y: f32):
    tile.yield %y : f32
  } -> !tile.tile<8x16xf32>
  return
}
