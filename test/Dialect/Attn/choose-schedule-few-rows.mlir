// RUN: attn-opt %s --split-input-file --attn-pipeline="until-after=schedule target=sm_90a" | FileCheck %s

// Latents of no more than 16 rows of a key head have tiles whose rows are columns of
// one warpgroup's products; more share their channels among two. Where each of two
// parts of their keys has a multiprocessor, these are blocks of a cluster, which
// combine their states.

module attributes {attn.expected_sizes = array<i64: 1, 1024, 1, 4096, 64>} {
// CHECK-LABEL: func.func @sixteen
// CHECK: schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 64, splits = 2, {{.*}}pack_heads = true, cluster = 2, {{.*}}block_v = 512>
func.func @sixteen(%q: tensor<?x?x?x576xbf16>, %k: tensor<?x?x64x576xbf16>,
    %v: tensor<?x?x64x512xbf16> {attn.columns_of = 1 : i64}, %lengths: tensor<?xi32>,
    %table: tensor<?x?xi32>) -> tensor<?x?x?x512xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x576xbf16>)
      keys(%k : tensor<?x?x64x576xbf16>) values(%v : tensor<?x?x64x512xbf16>)
      lengths(%lengths : tensor<?xi32>) block_table(%table : tensor<?x?xi32>)
      -> tensor<?x?x?x512xbf16>
  return %o : tensor<?x?x?x512xbf16>
}
}

// -----

module attributes {attn.expected_sizes = array<i64: 1, 512, 1, 4096, 32>} {
// CHECK-LABEL: func.func @parts
// CHECK: schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 64, splits = automatic, {{.*}}pack_heads = true, {{.*}}block_v = 512>
func.func @parts(%q: tensor<?x?x?x576xbf16>, %k: tensor<?x?x64x576xbf16>,
    %v: tensor<?x?x64x512xbf16> {attn.columns_of = 1 : i64}, %lengths: tensor<?xi32>,
    %table: tensor<?x?xi32>) -> tensor<?x?x?x512xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x576xbf16>)
      keys(%k : tensor<?x?x64x576xbf16>) values(%v : tensor<?x?x64x512xbf16>)
      lengths(%lengths : tensor<?xi32>) block_table(%table : tensor<?x?xi32>)
      -> tensor<?x?x?x512xbf16>
  return %o : tensor<?x?x?x512xbf16>
}
}

// -----

module attributes {attn.expected_sizes = array<i64: 1, 2048, 1, 4096, 64>} {
// CHECK-LABEL: func.func @more
// CHECK: schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64, {{.*}}block_v = 512>
func.func @more(%q: tensor<?x?x?x576xbf16>, %k: tensor<?x?x64x576xbf16>,
    %v: tensor<?x?x64x512xbf16> {attn.columns_of = 1 : i64}, %lengths: tensor<?xi32>,
    %table: tensor<?x?xi32>) -> tensor<?x?x?x512xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x576xbf16>)
      keys(%k : tensor<?x?x64x576xbf16>) values(%v : tensor<?x?x64x512xbf16>)
      lengths(%lengths : tensor<?xi32>) block_table(%table : tensor<?x?xi32>)
      -> tensor<?x?x?x512xbf16>
  return %o : tensor<?x?x?x512xbf16>
}
}

// -----

// One row of 16 heads of queries has tiles of eight rows, but not where kernels before
// list key tiles.
module attributes {attn.expected_sizes = array<i64: 1, 2, 1, 1024>} {
// CHECK-LABEL: func.func @strided
// CHECK: schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 128, loop = peeled,
func.func @strided(%q: tensor<?x16x1x128xbf16>, %k: tensor<?x2x?x128xbf16>,
    %v: tensor<?x2x?x128xbf16>) -> tensor<?x16x1x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x16x1x128xbf16>)
      keys(%k : tensor<?x2x?x128xbf16>) values(%v : tensor<?x2x?x128xbf16>)
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %zero = arith.constant 0 : i32
        %step = arith.constant 4 : i32
        %phase = arith.remsi %j, %step : i32
        %live = arith.cmpi eq, %phase, %zero : i32
        attn.yield %live : i1
      } -> tensor<?x16x1x128xbf16>
  return %o : tensor<?x16x1x128xbf16>
}
// CHECK-LABEL: func.func @plain
// CHECK: schedule = #attn.schedule<block_q = 8, rows = 8,
func.func @plain(%q: tensor<?x16x1x128xbf16>, %k: tensor<?x2x?x128xbf16>,
    %v: tensor<?x2x?x128xbf16>) -> tensor<?x16x1x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x16x1x128xbf16>)
      keys(%k : tensor<?x2x?x128xbf16>) values(%v : tensor<?x2x?x128xbf16>)
      -> tensor<?x16x1x128xbf16>
  return %o : tensor<?x16x1x128xbf16>
}
}

// -----

// Warps have no keys of their own where no dot is part of the scores.
module attributes {attn.expected_sizes = array<i64: 1, 8, 1, 4096, 4>} {
// CHECK-LABEL: func.func @without_dots
// CHECK: schedule = #attn.schedule<block_q = 64, rows = 64,
func.func @without_dots(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %far = arith.subi %j, %i : i32
        %x = arith.sitofp %far : i32 to f32
        attn.yield %x : f32
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}
