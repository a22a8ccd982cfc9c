// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-pipeline="until-after=tile target=sm_90a"

func.func @attention(%q: tensor<?x?x?x128xf32>, %k: tensor<?x?x?x128xf32>, %v: tensor<?x?x?x128xf32>) -> tensor<?x?x?x128xf32> {
  // expected-error @below {{expected rows = 16 or more for products that are not of 16 bits, but got rows = 8}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xf32>) keys(%k : tensor<?x?x?x128xf32>) values(%v : tensor<?x?x?x128xf32>)
      {schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64>} -> tensor<?x?x?x128xf32>
  return %o : tensor<?x?x?x128xf32>
}

// -----

func.func @attention(%q: tensor<?x?x?x96xbf16>, %k: tensor<?x?x?x96xbf16>, %v: tensor<?x?x?x96xbf16>) -> tensor<?x?x?x96xbf16> {
  // expected-error @below {{expected rows = 16 or more for channels that are no multiple of 64 up to 256, but got rows = 8}}
  %o = attn.attention queries(%q : tensor<?x?x?x96xbf16>) keys(%k : tensor<?x?x?x96xbf16>) values(%v : tensor<?x?x?x96xbf16>)
      {schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64>} -> tensor<?x?x?x96xbf16>
  return %o : tensor<?x?x?x96xbf16>
}

// -----

func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %m: tensor<?x?x?x?xi1>) -> tensor<?x?x?x128xbf16> {
  // expected-error @below {{expected rows = 16 or more for scores or masks that read tensors for each row or key, but got rows = 8}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>) mask_tensor(%m : tensor<?x?x?x?xi1>)
      {schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64>} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// -----

func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  // expected-error @below {{expected rows = 16 or more for bits that do not depend on the batch, but got rows = 8}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      {batch_invariant, schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64>} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// -----

func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  // expected-error @below {{expected rows = 16 or more for a block of more rows, but got rows = 8}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      {schedule = #attn.schedule<block_q = 16, rows = 8, block_k = 64>} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// -----

func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  // expected-error @below {{expected rows = 16 or more for tiles of keys that are no multiple of 32 up to 128, and of the values' channels, but got rows = 8}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      {schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 48>} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// -----

func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %n: tensor<?xi32>) -> tensor<?x?x?x128xbf16> {
  // expected-error @below {{expected rows = 16 or more for a rolling cache or pages of no multiple of 8 rows, of which each is found by itself, but got rows = 8}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      lengths(%n : tensor<?xi32>) k_start(%n : tensor<?xi32>)
      {rolling, schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64>} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// -----

func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  // expected-error @below {{expected parts of keys whose states the blocks of a cluster combine, as splits = cluster = 2 of the schedule says, but got rows = 64, where 8 rows of a tile have warps with keys of their own; cluster = 1 combines them in a kernel behind}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64, splits = 2, cluster = 2>} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// -----

func.func @attention(%q: tensor<?x?x?x128xf32>, %k: tensor<?x?x?x128xf32>, %v: tensor<?x?x?x128xf32>) -> tensor<?x?x?x128xf32> {
  // expected-error @below {{expected rows = 16 or more for products that are not of 16 bits, but got rows = 8}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xf32>) keys(%k : tensor<?x?x?x128xf32>) values(%v : tensor<?x?x?x128xf32>)
      {schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64, splits = 8, cluster = 8>} -> tensor<?x?x?x128xf32>
  return %o : tensor<?x?x?x128xf32>
}

// -----

func.func @attention(%q: tensor<?x?x?x256xbf16>, %k: tensor<?x?x?x256xbf16>, %v: tensor<?x?x?x256xbf16>) -> tensor<?x?x?x256xbf16> {
  // expected-error @below {{expected parts of keys whose states the blocks of a cluster combine, as splits = cluster = 2 of the schedule says, but got values of 256 channels, more than 4 warps of each block combine; cluster = 1 combines them in a kernel behind}}
  %o = attn.attention queries(%q : tensor<?x?x?x256xbf16>) keys(%k : tensor<?x?x?x256xbf16>) values(%v : tensor<?x?x?x256xbf16>)
      {schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64, splits = 2, cluster = 2>} -> tensor<?x?x?x256xbf16>
  return %o : tensor<?x?x?x256xbf16>
}
