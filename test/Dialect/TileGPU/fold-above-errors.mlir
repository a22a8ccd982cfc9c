// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Keys above a threshold of their row.

func.func @elements(%s: !tile_gpu.frag<64x32xbf16, acc>, %scratch: !tile_gpu.smem<64x40xf32>, %most: !tile_gpu.vec<64xf32, row>) {
  // expected-error @below {{expected f32 accumulators of whole warps, but got}}
  %n = tile_gpu.fold_above %s, %scratch threshold(0) factor(1.0) states(%most : !tile_gpu.vec<64xf32, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %m: f32):
    %z = arith.maximumf %m, %x : f32
    tile_gpu.yield %z : f32
  } : !tile_gpu.frag<64x32xbf16, acc>, !tile_gpu.smem<64x40xf32> -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @columns(%s: !tile_gpu.frag<64x136xf32, acc>, %scratch: !tile_gpu.smem<64x40xf32>, %most: !tile_gpu.vec<64xf32, row>) {
  // expected-error @below {{expected at most 128 columns, by eights, but got 136}}
  %n = tile_gpu.fold_above %s, %scratch threshold(0) factor(1.0) states(%most : !tile_gpu.vec<64xf32, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %m: f32):
    %z = arith.maximumf %m, %x : f32
    tile_gpu.yield %z : f32
  } : !tile_gpu.frag<64x136xf32, acc>, !tile_gpu.smem<64x40xf32> -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @results(%s: !tile_gpu.frag<64x32xf32, acc>, %scratch: !tile_gpu.smem<64x40xf32>, %most: !tile_gpu.vec<64xf32, row>) {
  // expected-error @below {{expected results of the types of the states}}
  %n = tile_gpu.fold_above %s, %scratch threshold(0) factor(1.0) states(%most : !tile_gpu.vec<64xf32, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %m: f32):
    %z = arith.maximumf %m, %x : f32
    tile_gpu.yield %z : f32
  } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32> -> !tile_gpu.vec<64xi32, row>
  return
}

// -----

func.func @rows(%s: !tile_gpu.frag<64x32xf32, acc>, %scratch: !tile_gpu.smem<64x40xf32>, %most: !tile_gpu.vec<32xf32, row>) {
  // expected-error @below {{expected states of 32 bits for each row, but got}}
  %n = tile_gpu.fold_above %s, %scratch threshold(0) factor(1.0) states(%most : !tile_gpu.vec<32xf32, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %m: f32):
    %z = arith.maximumf %m, %x : f32
    tile_gpu.yield %z : f32
  } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32> -> !tile_gpu.vec<32xf32, row>
  return
}

// -----

func.func @partial(%s: !tile_gpu.frag<64x32xf32, acc>, %scratch: !tile_gpu.smem<64x40xf32>, %most: !tile_gpu.vec<64xf32, row, partial>) {
  // expected-error @below {{expected states of 32 bits for each row, but got}}
  %n = tile_gpu.fold_above %s, %scratch threshold(0) factor(1.0) states(%most : !tile_gpu.vec<64xf32, row, partial>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %m: f32):
    %z = arith.maximumf %m, %x : f32
    tile_gpu.yield %z : f32
  } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32> -> !tile_gpu.vec<64xf32, row, partial>
  return
}

// -----

func.func @truths(%s: !tile_gpu.frag<64x32xf32, acc>, %scratch: !tile_gpu.smem<64x40xf32>, %most: !tile_gpu.vec<64xi1, row>) {
  // expected-error @below {{expected states of 32 bits for each row, but got}}
  %n = tile_gpu.fold_above %s, %scratch threshold(0) factor(1.0) states(%most : !tile_gpu.vec<64xi1, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %m: i1):
    tile_gpu.yield %m : i1
  } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32> -> !tile_gpu.vec<64xi1, row>
  return
}

// -----

func.func @arguments(%s: !tile_gpu.frag<64x32xf32, acc>, %scratch: !tile_gpu.smem<64x40xf32>, %most: !tile_gpu.vec<64xf32, row>) {
  // expected-error @below {{expected 4 block arguments, but got 3}}
  %n = tile_gpu.fold_above %s, %scratch threshold(0) factor(1.0) states(%most : !tile_gpu.vec<64xf32, row>) {
  ^bb0(%i: i32, %x: f32, %m: f32):
    %z = arith.maximumf %m, %x : f32
    tile_gpu.yield %z : f32
  } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32> -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @yields(%s: !tile_gpu.frag<64x32xf32, acc>, %scratch: !tile_gpu.smem<64x40xf32>, %most: !tile_gpu.vec<64xf32, row>) {
  // expected-error @below {{expected yielded value 0 to be 'f32', but got 'i32'}}
  %n = tile_gpu.fold_above %s, %scratch threshold(0) factor(1.0) states(%most : !tile_gpu.vec<64xf32, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %m: f32):
    tile_gpu.yield %j : i32
  } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32> -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @threshold(%s: !tile_gpu.frag<64x32xf32, acc>, %scratch: !tile_gpu.smem<64x40xf32>, %most: !tile_gpu.vec<64xf32, row>) {
  // expected-error @below {{expected the threshold to be a state of f32 that the body changes}}
  %n = tile_gpu.fold_above %s, %scratch threshold(1) factor(1.0) states(%most : !tile_gpu.vec<64xf32, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %m: f32):
    %z = arith.maximumf %m, %x : f32
    tile_gpu.yield %z : f32
  } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32> -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @unchanged(%s: !tile_gpu.frag<64x32xf32, acc>, %scratch: !tile_gpu.smem<64x40xf32>, %most: !tile_gpu.vec<64xf32, row>) {
  // expected-error @below {{expected the threshold to be a state of f32 that the body changes}}
  %n = tile_gpu.fold_above %s, %scratch threshold(0) factor(1.0) states(%most : !tile_gpu.vec<64xf32, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %m: f32):
    tile_gpu.yield %m : f32
  } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32> -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @factor(%s: !tile_gpu.frag<64x32xf32, acc>, %scratch: !tile_gpu.smem<64x40xf32>, %most: !tile_gpu.vec<64xf32, row>) {
  // expected-error @below {{expected a factor above 0, but got}}
  %n = tile_gpu.fold_above %s, %scratch threshold(0) factor(-1.0) states(%most : !tile_gpu.vec<64xf32, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %m: f32):
    %z = arith.maximumf %m, %x : f32
    tile_gpu.yield %z : f32
  } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32> -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @scratch(%s: !tile_gpu.frag<64x32xf32, acc>, %scratch: !tile_gpu.smem<64x32xf32>, %most: !tile_gpu.vec<64xf32, row>) {
  // expected-error @below {{expected a scratch tile of 64 x 40 f32, but got}}
  %n = tile_gpu.fold_above %s, %scratch threshold(0) factor(1.0) states(%most : !tile_gpu.vec<64xf32, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %m: f32):
    %z = arith.maximumf %m, %x : f32
    tile_gpu.yield %z : f32
  } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x32xf32> -> !tile_gpu.vec<64xf32, row>
  return
}
