// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s

// Tensor copies fill with zeros beyond the tensor, where a ragged tile ends
// with it; where lengths end it before, values there are cleared. So are rows of
// up to 64 columns, for the sake of the loop before (docs/performance/gpu.md).

// CHECK-LABEL: kernel private @tensor_kernel0(
// CHECK:         tile_gpu.role "compute"
// CHECK-NOT:     tile_gpu.smem.clear_rows
// CHECK-LABEL: kernel private @lengths_kernel0(
// CHECK:         tile_gpu.role "compute"
// CHECK:         tile_gpu.smem.clear_rows
// CHECK-LABEL: kernel private @narrow_kernel0(
// CHECK:         tile_gpu.role "compute"
// CHECK:         tile_gpu.smem.clear_rows

module attributes {attn.target = "sm_90a"} {

func.func @tensor(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                  %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

func.func @lengths(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                   %v: tensor<?x?x?x128xbf16>, %n: tensor<?xi32>)
    -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      lengths(%n : tensor<?xi32>) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

func.func @narrow(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                  %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

}
