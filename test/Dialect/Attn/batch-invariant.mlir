// What batch_invariant leaves out, and where it cuts the keys, on each target.
// RUN: attn-opt %s --attn-set-target=target=cpu-avx512 --attn-import-prelude --attn-to-aggregate --attn-choose-schedule --attn-split | FileCheck %s --check-prefix=CPU
// RUN: attn-opt %s --attn-set-target=target=sm_90a --attn-import-prelude --attn-to-aggregate --attn-choose-schedule --attn-split | FileCheck %s --check-prefix=GPU
// RUN: attn-opt %s --attn-set-target=target=sm_90a --attn-import-prelude --attn-to-aggregate --attn-fix-anchor --attn-choose-schedule --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile | FileCheck %s --check-prefix=TILE
// RUN: attn-opt %s --attn-set-target=target=sm_90a --attn-import-prelude --attn-to-aggregate --attn-choose-schedule=explain=1 2>&1 >/dev/null | FileCheck %s --check-prefix=EXPLAIN

// EXPLAIN: batch invariant: each row takes its keys in tiles of 96, in order, parts of 1056 each by itself and then in order, whatever is beside it
// EXPLAIN: splits: automatic (8 blocks of rows, of 132 at once; a block for each part)

// The key tiles, and the parts, of a decode step with many keys are those of a
// prompt, whose blocks have all parts.
// CPU-LABEL: func.func @step(
// CPU:         attn.partial @softmax
// CPU-SAME:      granule = 1024 : i64
// CPU-SAME:      block_q = 1, rows = 1, block_k = 128
// GPU-LABEL: func.func @step(
// GPU:         attn.partial @softmax
// GPU-SAME:      granule = 1056 : i64
// GPU-SAME:      block_q = 64, rows = 64, block_k = 96
// TILE-LABEL: func.func @step(
// TILE-COUNT-1: tile.launch
// TILE-LABEL: tile.kernel private @step_kernel0
// TILE:         scf.for
// TILE:           tile.stream
// TILE-NOT:       tile.store
// TILE:           scf.yield
func.func @step(%q: tensor<1x8x1x128xbf16>, %k: tensor<1x8x65536x128xbf16>) -> tensor<1x8x1x128xbf16> {
  %o = attn.attention queries(%q : tensor<1x8x1x128xbf16>) keys(%k : tensor<1x8x65536x128xbf16>)
      values(%k : tensor<1x8x65536x128xbf16>) {batch_invariant} -> tensor<1x8x1x128xbf16>
  return %o : tensor<1x8x1x128xbf16>
}

// CPU-LABEL: func.func @prompt(
// CPU:         part_keys = 1024 : i64
// CPU-SAME:    block_q = 384, rows = 48, block_k = 128
// GPU-LABEL: func.func @prompt(
// GPU:         part_keys = 1056 : i64
// GPU-SAME:    block_q = 128, rows = 64, block_k = 96
func.func @prompt(%q: tensor<1x8x65536x128xbf16>, %k: tensor<1x8x65536x128xbf16>) -> tensor<1x8x65536x128xbf16> {
  %o = attn.attention queries(%q : tensor<1x8x65536x128xbf16>) keys(%k : tensor<1x8x65536x128xbf16>)
      values(%k : tensor<1x8x65536x128xbf16>) {batch_invariant, causal = #attn.causal<bottom_right>} -> tensor<1x8x65536x128xbf16>
  return %o : tensor<1x8x65536x128xbf16>
}

// A bias may kill: the mask reads it, and there is no second kernel.
// CPU-LABEL: func.func @bias(
// CPU:         mask {
// CPU:           tensor.extract
// TILE-LABEL: func.func @bias(
// TILE-COUNT-1: tile.launch
// TILE-NOT:     tile.launch
// TILE:         return
func.func @bias(%q: tensor<?x?x?x128xbf16>, %bias: tensor<?x?x?x?xf32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%q : tensor<?x?x?x128xbf16>)
      values(%q : tensor<?x?x?x128xbf16>) bias(%bias : tensor<?x?x?x?xf32>) {batch_invariant} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// Nothing lists the tiles of a mask.
// TILE-LABEL: func.func @mask(
// TILE-COUNT-1: tile.launch
// TILE-NOT:     tile.launch
// TILE:         return
func.func @mask(%q: tensor<?x?x?x128xbf16>, %mask: tensor<?x?x?x?xi8>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%q : tensor<?x?x?x128xbf16>)
      values(%q : tensor<?x?x?x128xbf16>) mask_tensor(%mask : tensor<?x?x?x?xi8>) {batch_invariant} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// Softcaps are measured from the largest score, and slopes are no ramps.
// TILE-LABEL: func.func @softcap(
// TILE-COUNT-1: tile.launch
// TILE-NOT:     tile.launch
// TILE:         return
// TILE-LABEL: tile.kernel private @softcap_kernel0
// TILE-NOT:     ramp
func.func @softcap(%q: tensor<?x?x?x128xbf16>, %cap: f32) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%q : tensor<?x?x?x128xbf16>)
      values(%q : tensor<?x?x?x128xbf16>) softcap(%cap) {batch_invariant} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// TILE-LABEL: tile.kernel private @alibi_kernel0
// TILE-NOT:     ramp
func.func @alibi(%q: tensor<?x?x?x128xbf16>, %slopes: tensor<?xf32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%q : tensor<?x?x?x128xbf16>)
      values(%q : tensor<?x?x?x128xbf16>) alibi(%slopes : tensor<?xf32>) {batch_invariant} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// Sums of 256 channels leave no registers for a second state.
// CPU-LABEL: func.func @wide(
// CPU:         part_keys = 1024 : i64
// GPU-LABEL: func.func @wide(
// GPU-NOT:     part_keys
// GPU:         return
func.func @wide(%q: tensor<1x8x65536x256xbf16>) -> tensor<1x8x65536x256xbf16> {
  %o = attn.attention queries(%q : tensor<1x8x65536x256xbf16>) keys(%q : tensor<1x8x65536x256xbf16>)
      values(%q : tensor<1x8x65536x256xbf16>) {batch_invariant} -> tensor<1x8x65536x256xbf16>
  return %o : tensor<1x8x65536x256xbf16>
}
