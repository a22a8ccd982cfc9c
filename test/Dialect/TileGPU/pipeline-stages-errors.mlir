// RUN: attn-opt %s --tile-gpu-pipeline-copies=stages=-1 -verify-diagnostics

// expected-error @+1 {{expected 0 stages or more, but got -1}}
module attributes {attn.target = "sm_80"} {
tile.kernel private @kernel(%O: memref<?x64xf32>, %block: index) {
  tile.return
}
}
