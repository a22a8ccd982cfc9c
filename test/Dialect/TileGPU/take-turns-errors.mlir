// RUN: attn-opt %s --tile-take-turns --verify-diagnostics

// expected-error @below {{expected tile.turns to be products or softmax, but got "maxima"}}
func.func @kind() attributes {tile_gpu.kernel, tile.turns = "maxima"} {
  return
}
