// RUN: attn-opt %s --tile-share-copies --split-input-file --verify-diagnostics

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected tile.cluster to be an integer of 2 or more, but got "two"}}
func.func @word() attributes {tile_gpu.kernel, tile.cluster = "two"} { return }
}

// -----

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected tile.cluster to be an integer of 2 or more, but got 1 : i64}}
func.func @one() attributes {tile_gpu.kernel, tile.cluster = 1 : i64} { return }
}

// -----

// expected-error @below {{expected attn.target to name a GPU (sm_80, sm_86, sm_89, sm_90a, sm_100a), but got "cpu-avx2"}}
module attributes {attn.target = "cpu-avx2"} {
func.func @cpu() attributes {tile_gpu.kernel, tile.cluster = 2 : i64} { return }
}
