// RUN: attn-opt %s --tile-gpu-pipeline-copies -split-input-file -verify-diagnostics

// expected-error @+1 {{expected attn.target to name a GPU (sm_80, sm_86, sm_89, sm_90a, sm_100a), but got "cpu-avx2"}}
module attributes {attn.target = "cpu-avx2"} {
tile.kernel private @kernel(%O: memref<?x64xf32>, %block: index) {
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
// expected-error @+1 {{expected tiles of a multiple of 16 rows, but got 24 in blocks of 24}}
tile.kernel private @rows(%O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %t = tile.fill %z : f32 -> !tile.tile<24x64xf32>
  tile.store %t, %O[%block, %c0] : !tile.tile<24x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_86"} {
// expected-error @+1 {{bytes of shared memory, but sm_86 has 101376; expected smaller tiles}}
tile.kernel private @shared(%Q: memref<?x256xf32>, %K: memref<?x256xf32>, %O: memref<?x128xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %q = tile.load %Q[%block, %c0] : memref<?x256xf32> -> !tile.tile<64x256xf32>
  %k = tile.load %K[%block, %c0] : memref<?x256xf32> -> !tile.tile<128x256xf32>
  %o = tile.fill %z : f32 -> !tile.tile<64x128xf32>
  %r = tile.rows 16 ins(%q : !tile.tile<64x256xf32>) outs(%o : !tile.tile<64x128xf32>) {
  ^bb0(%first: index, %a: !tile.tile<16x256xf32>, %b: !tile.tile<16x128xf32>):
    %s = tile.dot %a, %k transpose_rhs : !tile.tile<16x256xf32>, !tile.tile<128x256xf32> -> !tile.tile<16x128xf32>
    tile.yield %s : !tile.tile<16x128xf32>
  } -> !tile.tile<64x128xf32>
  tile.store %r, %O[%block, %c0] : !tile.tile<64x128xf32>, memref<?x128xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @outside(%K: memref<?x64xbf16>, %O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected to be used by one tile.rows of its own block}}
  %k = tile.load %K[%block, %c0] : memref<?x64xbf16> -> !tile.tile<64x64xbf16>
  %s = tile.dot %k, %k transpose_rhs : !tile.tile<64x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<64x64xf32>
  tile.store %s, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @row_blocks(%O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %o = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  %a = tile.rows 16 outs(%o : !tile.tile<64x64xf32>) {
  ^bb0(%first: index, %x: !tile.tile<16x64xf32>):
    tile.yield %x : !tile.tile<16x64xf32>
  } -> !tile.tile<64x64xf32>
  // expected-error @+1 {{expected blocks of the same number of rows in one kernel}}
  %b = tile.rows 32 outs(%a : !tile.tile<64x64xf32>) {
  ^bb0(%first: index, %x: !tile.tile<32x64xf32>):
    tile.yield %x : !tile.tile<32x64xf32>
  } -> !tile.tile<64x64xf32>
  tile.store %b, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @stored_rows(%O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %a = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  %b = tile.fill %z : f32 -> !tile.tile<32x64xf32>
  tile.store %a, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  // expected-error @+1 {{expected to store tiles of the same number of rows in one kernel}}
  tile.store %b, %O[%block, %c0] : !tile.tile<32x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

// What depends on it is for all warps or for none.
module attributes {attn.target = "sm_80"} {
tile.kernel private @some_rows(%O: memref<?x64xf32>, %L: memref<?xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %a = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  %l = tile.load vector %L[%block] : memref<?xf32> -> !tile.tile<64x1xf32>
  %t = tile.map ins(%l : !tile.tile<64x1xf32>) {
  ^bb0(%r: i32, %c: i32, %x: f32):
    %nan = arith.cmpf uno, %x, %x : f32
    tile.yield %nan : i1
  } -> !tile.tile<64x1xi1>
  // expected-error @+1 {{expected columns, or rows that may see answers of their own (by_rows), where warps hold different rows, but got '!tile.tile<64x1xi1>'}}
  %some = tile.any %t : !tile.tile<64x1xi1>
  scf.if %some {
    tile.store %a, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  }
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
// expected-error @+1 {{expected at most 512 rows, but got 1024}}
tile.kernel private @warps(%O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %a = tile.fill %z : f32 -> !tile.tile<1024x64xf32>
  tile.store %a, %O[%block, %c0] : !tile.tile<1024x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @steps(%Q: memref<?x64xbf16>, %K: memref<?x64xbf16>, %O: memref<?x64xf32>, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %z = arith.constant 0.0 : f32
  %q = tile.load %Q[%block, %c0] : memref<?x64xbf16> -> !tile.tile<64x64xbf16>
  %o = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  %k = tile.load %K[%c0, %c0] : memref<?x64xbf16> -> !tile.tile<64x64xbf16>
  %r = tile.rows 16 ins(%q : !tile.tile<64x64xbf16>) outs(%o : !tile.tile<64x64xf32>) {
  ^bb0(%first: index, %a: !tile.tile<16x64xbf16>, %x: !tile.tile<16x64xf32>):
    %s = tile.dot %a, %k acc %x transpose_rhs : !tile.tile<16x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<16x64xf32>
    tile.yield %s : !tile.tile<16x64xf32>
  } -> !tile.tile<64x64xf32>
  %t = scf.for %j = %c64 to %n step %c64 iter_args(%acc = %r) -> (!tile.tile<64x64xf32>) {
    // expected-error @+1 {{expected to load 1 tile(s), as other steps do, but got 0}}
    %u = tile.rows 16 outs(%acc : !tile.tile<64x64xf32>) {
    ^bb0(%first: index, %x: !tile.tile<16x64xf32>):
      tile.yield %x : !tile.tile<16x64xf32>
    } -> !tile.tile<64x64xf32>
    scf.yield %u : !tile.tile<64x64xf32>
  }
  tile.store %t, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @words(%V: memref<?xi1, strided<[?]>>, %O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %a = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  tile.store %a, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  %live = tile.load vector %V[%block] : memref<?xi1, strided<[?]>> -> !tile.tile<32x1xi1>
  // expected-error @+1 {{expected tiles of the number of rows that the kernel stores}}
  %w = tile.bits %live : !tile.tile<32x1xi1>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @rounded_queries(%Q: memref<?x64xf32>, %K: memref<?x64xbf16>, %O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  // expected-error @+1 {{expected a tile of its source's elements, 'f32', but got '!tile.tile<64x64xbf16>'}}
  %q = tile.load %Q[%block, %c0] : memref<?x64xf32> -> !tile.tile<64x64xbf16>
  %k = tile.load %K[%c0, %c0] : memref<?x64xbf16> -> !tile.tile<64x64xbf16>
  %o = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  %r = tile.rows 16 ins(%q : !tile.tile<64x64xbf16>) outs(%o : !tile.tile<64x64xf32>) {
  ^bb0(%first: index, %a: !tile.tile<16x64xbf16>, %x: !tile.tile<16x64xf32>):
    %s = tile.dot %a, %k acc %x transpose_rhs : !tile.tile<16x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<16x64xf32>
    tile.yield %s : !tile.tile<16x64xf32>
  } -> !tile.tile<64x64xf32>
  tile.store %r, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @sum_of_rows(%O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %a = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  // expected-error @+1 {{expected one i1 in a reduction over the rows of all warps}}
  %r = tile.reduce rows ins(%a : !tile.tile<64x64xf32>) identity(%z : f32) {
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    tile.yield %s : f32
  } -> !tile.tile<1x64xf32>
  tile.store %a, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @widths(%O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %no = arith.constant false
  %a = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  %b = tile.fill %no : i1 -> !tile.tile<64x32xi1>
  %c = tile.fill %no : i1 -> !tile.tile<64x64xi1>
  // expected-error @+1 {{expected reductions over rows of one width, 64, but got 32}}
  %r = tile.reduce rows ins(%b : !tile.tile<64x32xi1>) identity(%no : i1) {
  ^bb0(%x: i1, %y: i1):
    %s = arith.ori %x, %y : i1
    tile.yield %s : i1
  } -> !tile.tile<1x32xi1>
  %t = tile.reduce rows ins(%c : !tile.tile<64x64xi1>) identity(%no : i1) {
  ^bb0(%x: i1, %y: i1):
    %s = arith.ori %x, %y : i1
    tile.yield %s : i1
  } -> !tile.tile<1x64xi1>
  tile.store %a, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @transposed_load(%Q: memref<?x64xbf16>, %O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %a = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  %q = tile.load %Q[%c0, %c0] : memref<?x64xbf16> -> !tile.tile<64x64xbf16>
  // expected-error @+1 {{expected rows of memory to be rows of a tile that a product reads, which transposes it where asked to (transpose_lhs, transpose_rhs)}}
  %k = tile.load transposed %Q[%c0, %c0] : memref<?x64xbf16> -> !tile.tile<64x64xbf16>
  %r = tile.rows 64 ins(%q : !tile.tile<64x64xbf16>) outs(%a : !tile.tile<64x64xf32>) {
  ^bb0(%first: index, %x: !tile.tile<64x64xbf16>, %acc: !tile.tile<64x64xf32>):
    %s = tile.dot %x, %k acc %acc : !tile.tile<64x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<64x64xf32>
    tile.yield %s : !tile.tile<64x64xf32>
  } -> !tile.tile<64x64xf32>
  tile.store %r, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @transposed_product(%Q: memref<?x64xbf16>, %O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %a = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  %k = tile.load %Q[%c0, %c0] : memref<?x64xbf16> -> !tile.tile<64x64xbf16>
  %r = tile.rows 64 outs(%a : !tile.tile<64x64xf32>) {
  ^bb0(%first: index, %acc: !tile.tile<64x64xf32>):
    %p = tile.map ins(%acc : !tile.tile<64x64xf32>) {
    ^bb0(%row: i32, %col: i32, %x: f32):
      %y = arith.truncf %x : f32 to bf16
      tile.yield %y : bf16
    } -> !tile.tile<64x64xbf16>
    // expected-error @+1 {{expected a transposed left operand that is loaded for the step, or blocks of at most 32 rows in tile.rows, which one warp computes}}
    %s = tile.dot %p, %k transpose_lhs : !tile.tile<64x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<64x64xf32>
    tile.yield %s : !tile.tile<64x64xf32>
  } -> !tile.tile<64x64xf32>
  tile.store %r, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @transposed_rows(%Q: memref<?x64xbf16>, %O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %a = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  %k = tile.load %Q[%c0, %c0] : memref<?x64xbf16> -> !tile.tile<64x64xbf16>
  %r = tile.rows 16 ins(%k : !tile.tile<64x64xbf16>) outs(%a : !tile.tile<64x64xf32>) {
  ^bb0(%first: index, %q: !tile.tile<16x64xbf16>, %acc: !tile.tile<16x64xf32>):
    %p = tile.map ins(%acc : !tile.tile<16x64xf32>) {
    ^bb0(%row: i32, %col: i32, %x: f32):
      %y = arith.truncf %x : f32 to bf16
      tile.yield %y : bf16
    } -> !tile.tile<16x64xbf16>
    // expected-error @+1 {{expected a product of a number of rows that neither the tiles of the kernel nor their blocks have, but got 64}}
    %s = tile.dot %p, %q transpose_lhs : !tile.tile<16x64xbf16>, !tile.tile<16x64xbf16> -> !tile.tile<64x64xf32>
    tile.accumulate any_order %s, %O[%c0, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
    tile.yield %acc : !tile.tile<16x64xf32>
  } -> !tile.tile<64x64xf32>
  tile.store %r, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @sources(%K: memref<?x?x?x64xf32>, %start: memref<?xi32>, %O: memref<?x64xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %keys = tile.source %K ring(%start : memref<?xi32>) : memref<?x?x?x64xf32> -> !tile.source<?x?x?x64xf32>
  %a = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  // expected-error @+1 {{expected a tensor, or a tile of pages or of a rolling cache that products read}}
  %k = tile.load %keys[%block, %c0, %c0, %c0] : !tile.source<?x?x?x64xf32> -> !tile.tile<64x64xf32>
  tile.store %a, %O[%block, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
  tile.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile.kernel private @undivided(%O: memref<?x16xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %m = tile.fill %z : f32 -> !tile.tile<16x1xf32>
  %o = tile.fill %z : f32 -> !tile.tile<16x16xf32>
  // expected-error @+1 {{expected values that one loop gives}}
  %s:2 = tile.merge stats(%m : !tile.tile<16x1xf32>) values(%o : !tile.tile<16x16xf32>) warps(4) {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a, %a, %b : f32, f32, f32
  } -> !tile.tile<16x1xf32>, !tile.tile<16x16xf32>
  tile.store %s#1, %O[%block, %c0] : !tile.tile<16x16xf32>, memref<?x16xf32>
  tile.return
}
}
