// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @merge_c1(%o: !tile.tile<8x128xf32>) {
  // expected-error@+1 {{expected 1 statistic or more, but got none}}
  %s = "tile.merge"(%o) <{operandSegmentSizes = array<i32: 0, 1, 0>}> ({
  ^bb0:
    %f = arith.constant 1.0 : f32
    tile.yield %f, %f : f32, f32
  }) : (!tile.tile<8x128xf32>) -> !tile.tile<8x128xf32>
  return
}

// -----

func.func @merge_c1(%m: !tile.tile<8x2xf32>, %o: !tile.tile<8x128xf32>) {
  // expected-error@+1 {{expected statistics of 8x1, but got '!tile.tile<8x2xf32>'}}
  %s:2 = tile.merge stats(%m : !tile.tile<8x2xf32>) values(%o : !tile.tile<8x128xf32>) {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a, %a, %b : f32, f32, f32
  } -> !tile.tile<8x2xf32>, !tile.tile<8x128xf32>
  return
}

// -----

func.func @merge_c2(%m: !tile.tile<8x1xf32>, %o: !tile.tile<16x128xf32>) {
  // expected-error@+1 {{expected values of 8 rows of f32, but got '!tile.tile<16x128xf32>'}}
  %s:2 = tile.merge stats(%m : !tile.tile<8x1xf32>) values(%o : !tile.tile<16x128xf32>) {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a, %a, %b : f32, f32, f32
  } -> !tile.tile<8x1xf32>, !tile.tile<16x128xf32>
  return
}

// -----

func.func @merge_c3(%m: !tile.tile<8x1xf32>, %o: !tile.tile<8x128xf32>) {
  // expected-error@+1 {{expected part(...) beside cluster(...), and not without}}
  %s:2 = tile.merge stats(%m : !tile.tile<8x1xf32>) values(%o : !tile.tile<8x128xf32>) cluster(2) {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a, %a, %b : f32, f32, f32
  } -> !tile.tile<8x1xf32>, !tile.tile<8x128xf32>
  return
}

// -----

func.func @merge_c3(%m: !tile.tile<8x1xf32>, %o: !tile.tile<8x128xf32>, %part: index) {
  // expected-error@+1 {{expected clusters of 2 to 8 blocks, but got 16}}
  %s:2 = tile.merge stats(%m : !tile.tile<8x1xf32>) values(%o : !tile.tile<8x128xf32>) part(%part) cluster(16) {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a, %a, %b : f32, f32, f32
  } -> !tile.tile<8x1xf32>, !tile.tile<8x128xf32>
  return
}

// -----

func.func @merge_c4(%m: !tile.tile<16x1xf32>, %o: !tile.tile<16x16xf32>) {
  // expected-error@+1 {{expected 2 warps or more without cluster(...), but got 1}}
  %s:2 = tile.merge stats(%m : !tile.tile<16x1xf32>) values(%o : !tile.tile<16x16xf32>) warps(1) {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a, %a, %b : f32, f32, f32
  } -> !tile.tile<16x1xf32>, !tile.tile<16x16xf32>
  return
}
