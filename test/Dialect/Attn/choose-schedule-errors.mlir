// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-choose-schedule --verify-diagnostics

func.func @scratch(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected a schedule that keeps at most 268435456 bytes on chip, but block_q = 32768, rows = 32768, block_k = 4096 keeps}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 32768, rows = 32768, block_k = 4096>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

// expected-error @below {{expected attn.target to be one of host, cpu-generic, cpu-avx2,}}
module attributes {attn.target = "cpu-mmx"} {
}

// -----

// expected-error @+1 {{expected attn.target to be a string, but got 5 : i32}}
module attributes {attn.target = 5 : i32} {
}

// -----

// expected-error @+1 {{expected attn.expected_sizes to be array<i64: b, hq, sq, sk> of sizes, 0 where unknown, and hk as the fifth or not, but got array<i64: 1, 2, 3>}}
module attributes {attn.expected_sizes = array<i64: 1, 2, 3>} {
}

// -----

// expected-error @+1 {{0 where unknown, and hk as the fifth or not, but got array<i64: 1, 2, -3, 4>}}
module attributes {attn.expected_sizes = array<i64: 1, 2, -3, 4>} {
}

// -----

// A suffix monoid is not cut.
func.func @cut(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no part_keys with batch_invariant, since parts of a fixed number of keys want a cocycle, no rung, and room for a second state}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%q : tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>)
      {monoid = @stick_breaking, batch_invariant, part_keys = 1024 : i64}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @counted(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected splits = 1 with batch_invariant, since parts of a fixed number of keys want a cocycle, no rung, and room for a second state}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%q : tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>)
      {monoid = @stick_breaking, batch_invariant,
       schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 32, splits = automatic>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

// Half of a warpgroup's rows, for a head dimension that never has them.
module attributes {attn.target = "sm_90a"} {
func.func @half(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  // expected-error @below {{expected rows = 16 or a larger block_q, but got block_q = 32 and rows = 32: half of the rows of a warpgroup want 128 columns of keys and of values}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      {schedule = #attn.schedule<block_q = 32, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}

// -----

// Rows of a warpgroup, for monoids that warps alone reduce.
module attributes {attn.target = "sm_90a"} {
func.func @gates(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                 %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  // expected-error @below {{expected rows = 16 or 32, which are a warp's, but got rows = 64, which are a warpgroup's: keys take the gates of others in the row, which warps alone do}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>)
      {monoid = @stick_breaking, schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64>}
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func @one_by_one(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                      %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  // expected-error @below {{expected rows = 16 or 32, which are a warp's, but got rows = 64, which are a warpgroup's: keys enter the state one by one, which warps alone do}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>)
      {monoid = @maxplus, schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64>}
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}
