// RUN: attn-opt %s --tile-gpu-order-warpgroups --verify-diagnostics

// expected-error @below {{expected turns to be one of none, products, softmax, but got 'maxima'}}
tile_gpu.kernel @kind() attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, turns = maxima>} {
  tile_gpu.return
}
