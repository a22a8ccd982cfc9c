// RUN: attn-opt %s --tile-gpu-specialize-warps -split-input-file -verify-diagnostics

// expected-error @+1 {{expected attn.target to name a GPU (sm_80, sm_86, sm_89, sm_90a, sm_100a), but got "cpu-avx2"}}
module attributes {attn.target = "cpu-avx2"} {
tile.kernel private @kernel(%O: memref<?x64xf32>, %block: index) {
  tile.return
}
}
