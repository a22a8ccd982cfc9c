// RUN: attn-opt %s --attn-set-target=target=sm_90a | FileCheck %s --check-prefix=GPU
// RUN: attn-opt %s --attn-set-target=target=host | FileCheck %s --check-prefix=HOST
// RUN: attn-opt %s --attn-set-target=target=sm_90a | attn-opt --attn-set-target=target=sm_90a | FileCheck %s --check-prefix=GPU

// The pipeline does the same with its option: a GPU's phases have a target.
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s --check-prefix=GPU
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=KERNEL
// RUN: attn-opt %s --attn-pipeline="target=cpu-avx2 until-after=tile" | FileCheck %s --check-prefix=CPU
// Without it a module may have any target, as far as phases ask nobody else.
// RUN: attn-opt %s --attn-pipeline="until-after=tile" | FileCheck %s --check-prefix=HOST
// RUN: attn-opt %s --attn-set-target=target=sm_90a | attn-opt --attn-pipeline="until-after=tile" | FileCheck %s --check-prefix=GPU

// GPU: module attributes {attn.target = "sm_90a"}
// CPU: module attributes {attn.target = "cpu-avx2"}
// HOST: module {
// KERNEL: module attributes {attn.target = "sm_90a"}
// KERNEL: tile_gpu.role "compute"
func.func @f(%q: tensor<1x8x?x64xbf16>, %k: tensor<1x8x?x64xbf16>,
             %v: tensor<1x8x?x64xbf16>) -> tensor<1x8x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<1x8x?x64xbf16>)
      keys(%k : tensor<1x8x?x64xbf16>) values(%v : tensor<1x8x?x64xbf16>)
      -> tensor<1x8x?x64xbf16>
  return %o : tensor<1x8x?x64xbf16>
}
