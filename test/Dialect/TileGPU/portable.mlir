// Every monoid and option of the descriptor, from attention to fragments of
// warps: the result has no tile op left, keeps the rules of rings and fits the
// target.
//
// RUN: attn-opt %s --attn-pipeline=until-after=tile --tile-expand-sources --tile-gpu-pipeline-copies \
// RUN:   --canonicalize --cse --convert-tile-to-tile-gpu --canonicalize --cse \
// RUN:   --tile-gpu-verify-async --tile-gpu-verify-budget | FileCheck %s
// RUN: attn-opt %s --attn-pipeline=until-after=tile --tile-expand-sources %tidy --tile-gpu-pipeline-copies %tidy \
// RUN:   --convert-tile-to-tile-gpu %tidy %verify_kernels --tile-gpu-verify-budget | FileCheck %s

// CHECK-NOT: tile.{{(load|store|fill|dot|map|reduce|scan|fold|any|rows)}} 
// CHECK-NOT: unrealized_conversion_cast
// Scans of rows, and keys one by one.
// CHECK: kernel private @stick_breaking_bf16_kernel0(
// CHECK: tile_gpu.scan reverse
// CHECK: kernel private @alpha_compositing_bf16_kernel0(
// CHECK: tile_gpu.scan ins(
// CHECK: kernel private @maxplus_f32_kernel0(
// CHECK: tile_gpu.vec.load
// CHECK: tile_gpu.map
// CHECK-NOT: tile.{{(load|store|fill|dot|map|reduce|scan|fold|any|rows)}} 
// CHECK-NOT: unrealized_conversion_cast
module attributes {attn.target = "sm_80"} {
func.func @softmax_bf16(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @softmax_f32(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x?x?x64xf32>, %arg3: tensor<?x1x1x?xi8>) -> (tensor<?x?x?x64xf32>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x64xf32>) keys(%arg1 : tensor<?x?x?x64xf32>) values(%arg2 : tensor<?x?x?x64xf32>) mask_tensor(%arg3 : tensor<?x1x1x?xi8>) -> tensor<?x?x?x64xf32>
  return %0 : tensor<?x?x?x64xf32>
}

func.func @logsumexp_bf16(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?xf32>) {
  %0 = attn.attention monoid(@logsumexp) queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?xf32>
  return %0 : tensor<?x?x?xf32>
}

func.func @logsumexp_f32(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x1x1x?xi8>) -> (tensor<?x?x?xf32>) {
  %0 = attn.attention monoid(@logsumexp) queries(%arg0 : tensor<?x?x?x64xf32>) keys(%arg1 : tensor<?x?x?x64xf32>) mask_tensor(%arg2 : tensor<?x1x1x?xi8>) -> tensor<?x?x?xf32>
  return %0 : tensor<?x?x?xf32>
}

func.func @softmax_entropy_bf16(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention monoid(@softmax_entropy) queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @softmax_entropy_f32(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x?x?x64xf32>, %arg3: tensor<?x1x1x?xi8>) -> (tensor<?x?x?x64xf32>) {
  %0 = attn.attention monoid(@softmax_entropy) queries(%arg0 : tensor<?x?x?x64xf32>) keys(%arg1 : tensor<?x?x?x64xf32>) values(%arg2 : tensor<?x?x?x64xf32>) mask_tensor(%arg3 : tensor<?x1x1x?xi8>) -> tensor<?x?x?x64xf32>
  return %0 : tensor<?x?x?x64xf32>
}

func.func @softmax_max_bf16(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention monoid(@softmax_max) queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @softmax_max_f32(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x?x?x64xf32>, %arg3: tensor<?x1x1x?xi8>) -> (tensor<?x?x?x64xf32>) {
  %0 = attn.attention monoid(@softmax_max) queries(%arg0 : tensor<?x?x?x64xf32>) keys(%arg1 : tensor<?x?x?x64xf32>) values(%arg2 : tensor<?x?x?x64xf32>) mask_tensor(%arg3 : tensor<?x1x1x?xi8>) -> tensor<?x?x?x64xf32>
  return %0 : tensor<?x?x?x64xf32>
}

func.func @sigmoid_sum_bf16(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention monoid(@sigmoid_sum) queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @sigmoid_sum_f32(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x?x?x64xf32>, %arg3: tensor<?x1x1x?xi8>) -> (tensor<?x?x?x64xf32>) {
  %0 = attn.attention monoid(@sigmoid_sum) queries(%arg0 : tensor<?x?x?x64xf32>) keys(%arg1 : tensor<?x?x?x64xf32>) values(%arg2 : tensor<?x?x?x64xf32>) mask_tensor(%arg3 : tensor<?x1x1x?xi8>) -> tensor<?x?x?x64xf32>
  return %0 : tensor<?x?x?x64xf32>
}

func.func @relu_sum_bf16(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention monoid(@relu_sum) queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @relu_sum_f32(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x?x?x64xf32>, %arg3: tensor<?x1x1x?xi8>) -> (tensor<?x?x?x64xf32>) {
  %0 = attn.attention monoid(@relu_sum) queries(%arg0 : tensor<?x?x?x64xf32>) keys(%arg1 : tensor<?x?x?x64xf32>) values(%arg2 : tensor<?x?x?x64xf32>) mask_tensor(%arg3 : tensor<?x1x1x?xi8>) -> tensor<?x?x?x64xf32>
  return %0 : tensor<?x?x?x64xf32>
}

func.func @relu2_sum_bf16(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention monoid(@relu2_sum) queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @relu2_sum_f32(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x?x?x64xf32>, %arg3: tensor<?x1x1x?xi8>) -> (tensor<?x?x?x64xf32>) {
  %0 = attn.attention monoid(@relu2_sum) queries(%arg0 : tensor<?x?x?x64xf32>) keys(%arg1 : tensor<?x?x?x64xf32>) values(%arg2 : tensor<?x?x?x64xf32>) mask_tensor(%arg3 : tensor<?x1x1x?xi8>) -> tensor<?x?x?x64xf32>
  return %0 : tensor<?x?x?x64xf32>
}

func.func @stick_breaking_bf16(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention monoid(@stick_breaking) queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @stick_breaking_f32(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x?x?x64xf32>, %arg3: tensor<?x1x1x?xi8>) -> (tensor<?x?x?x64xf32>) {
  %0 = attn.attention monoid(@stick_breaking) queries(%arg0 : tensor<?x?x?x64xf32>) keys(%arg1 : tensor<?x?x?x64xf32>) values(%arg2 : tensor<?x?x?x64xf32>) mask_tensor(%arg3 : tensor<?x1x1x?xi8>) -> tensor<?x?x?x64xf32>
  return %0 : tensor<?x?x?x64xf32>
}

func.func @alpha_compositing_bf16(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention monoid(@alpha_compositing) queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @alpha_compositing_f32(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x?x?x64xf32>, %arg3: tensor<?x1x1x?xi8>) -> (tensor<?x?x?x64xf32>) {
  %0 = attn.attention monoid(@alpha_compositing) queries(%arg0 : tensor<?x?x?x64xf32>) keys(%arg1 : tensor<?x?x?x64xf32>) values(%arg2 : tensor<?x?x?x64xf32>) mask_tensor(%arg3 : tensor<?x1x1x?xi8>) -> tensor<?x?x?x64xf32>
  return %0 : tensor<?x?x?x64xf32>
}

func.func @maxplus_bf16(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention monoid(@maxplus) queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @maxplus_f32(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x?x?x64xf32>, %arg3: tensor<?x1x1x?xi8>) -> (tensor<?x?x?x64xf32>) {
  %0 = attn.attention monoid(@maxplus) queries(%arg0 : tensor<?x?x?x64xf32>) keys(%arg1 : tensor<?x?x?x64xf32>) values(%arg2 : tensor<?x?x?x64xf32>) mask_tensor(%arg3 : tensor<?x1x1x?xi8>) -> tensor<?x?x?x64xf32>
  return %0 : tensor<?x?x?x64xf32>
}

func.func @welford_bf16(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention monoid(@welford) queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2, %arg2 : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @welford_f32(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x?x?x64xf32>, %arg3: tensor<?x1x1x?xi8>) -> (tensor<?x?x?x64xf32>) {
  %0 = attn.attention monoid(@welford) queries(%arg0 : tensor<?x?x?x64xf32>) keys(%arg1 : tensor<?x?x?x64xf32>) values(%arg2, %arg2 : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) mask_tensor(%arg3 : tensor<?x1x1x?xi8>) -> tensor<?x?x?x64xf32>
  return %0 : tensor<?x?x?x64xf32>
}

func.func @f16(%arg0: tensor<?x?x?x128xf16>, %arg1: tensor<?x?x?x128xf16>, %arg2: tensor<?x?x?x128xf16>) -> (tensor<?x?x?x128xf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x128xf16>) keys(%arg1 : tensor<?x?x?x128xf16>) values(%arg2 : tensor<?x?x?x128xf16>) {causal = #attn.causal<top_left>} -> tensor<?x?x?x128xf16>
  return %0 : tensor<?x?x?x128xf16>
}

func.func @odd_dims(%arg0: tensor<?x?x?x40xbf16>, %arg1: tensor<?x?x?x40xbf16>, %arg2: tensor<?x?x?x24xbf16>) -> (tensor<?x?x?x24xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x40xbf16>) keys(%arg1 : tensor<?x?x?x40xbf16>) values(%arg2 : tensor<?x?x?x24xbf16>) -> tensor<?x?x?x24xbf16>
  return %0 : tensor<?x?x?x24xbf16>
}

func.func @wide(%arg0: tensor<?x?x?x256xbf16>, %arg1: tensor<?x?x?x256xbf16>, %arg2: tensor<?x?x?x256xbf16>) -> (tensor<?x?x?x256xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x256xbf16>) keys(%arg1 : tensor<?x?x?x256xbf16>) values(%arg2 : tensor<?x?x?x256xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x256xbf16>
  return %0 : tensor<?x?x?x256xbf16>
}

func.func @two_dims(%arg0: tensor<?x?x?x192xbf16>, %arg1: tensor<?x?x?x192xbf16>, %arg2: tensor<?x?x?x128xbf16>) -> (tensor<?x?x?x128xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x192xbf16>) keys(%arg1 : tensor<?x?x?x192xbf16>) values(%arg2 : tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16>
  return %0 : tensor<?x?x?x128xbf16>
}

func.func @wide_f32(%arg0: tensor<?x?x?x300xf32>, %arg1: tensor<?x?x?x300xf32>, %arg2: tensor<?x?x?x300xf32>) -> (tensor<?x?x?x300xf32>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x300xf32>) keys(%arg1 : tensor<?x?x?x300xf32>) values(%arg2 : tensor<?x?x?x300xf32>) -> tensor<?x?x?x300xf32>
  return %0 : tensor<?x?x?x300xf32>
}

func.func @window(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>, %arg3: i32, %arg4: i32) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) window_left(%arg3) window_right(%arg4) -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @softcap(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>, %arg3: f32) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) softcap(%arg3) -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @bias(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>, %arg3: tensor<1x1x?x?xf32>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) bias(%arg3 : tensor<1x1x?x?xf32>) -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @mask(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>, %arg3: tensor<?x?x?x?xi8>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) mask_tensor(%arg3 : tensor<?x?x?x?xi8>) -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @alibi(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>, %arg3: tensor<?xf32>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) alibi(%arg3 : tensor<?xf32>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @sinks(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>, %arg3: tensor<?xf32>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %0:2 = attn.attention queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) sinks(%arg3 : tensor<?xf32>) -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %0#0, %0#1 : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

func.func @lengths(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>, %arg3: tensor<?xi32>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) lengths(%arg3 : tensor<?xi32>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @layout(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @negative(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x64xbf16>, %arg3: f32) -> (tensor<?x?x?x64xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x64xbf16>) keys(%arg1 : tensor<?x?x?x64xbf16>) values(%arg2 : tensor<?x?x?x64xbf16>) scale(%arg3) -> tensor<?x?x?x64xbf16>
  return %0 : tensor<?x?x?x64xbf16>
}

func.func @negative_f32(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x?x?x64xf32>, %arg3: f32) -> (tensor<?x?x?x64xf32>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x64xf32>) keys(%arg1 : tensor<?x?x?x64xf32>) values(%arg2 : tensor<?x?x?x64xf32>) scale(%arg3) -> tensor<?x?x?x64xf32>
  return %0 : tensor<?x?x?x64xf32>
}

func.func @packed(%arg0: tensor<?x?x64xbf16>, %arg1: tensor<?x?x64xbf16>, %arg2: tensor<?x?x64xbf16>, %arg3: tensor<?xi32>, %arg4: tensor<?xi32>) -> (tensor<?x?x64xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x64xbf16>) keys(%arg1 : tensor<?x?x64xbf16>) values(%arg2 : tensor<?x?x64xbf16>) cu_seqlens_q(%arg3 : tensor<?xi32>) cu_seqlens_k(%arg4 : tensor<?xi32>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x64xbf16>
  return %0 : tensor<?x?x64xbf16>
}

func.func @decode(%arg0: tensor<?x?x?x128xbf16>, %arg1: tensor<?x?x?x128xbf16>, %arg2: tensor<?x?x?x128xbf16>) -> (tensor<?x?x?x128xbf16>) {
  %0 = attn.attention queries(%arg0 : tensor<?x?x?x128xbf16>) keys(%arg1 : tensor<?x?x?x128xbf16>) values(%arg2 : tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16>
  return %0 : tensor<?x?x?x128xbf16>
}

func.func @everything(%arg0: tensor<?x?x?x64xf16>, %arg1: tensor<?x?x?x64xf16>, %arg2: tensor<?x?x?x64xf16>, %arg3: f32, %arg4: tensor<?x1x1x?xf32>, %arg5: tensor<1x1x?x?xi8>, %arg6: tensor<?x?xf32>, %arg7: tensor<?xf32>, %arg8: tensor<?xi32>, %arg9: i32, %arg10: i32) -> (tensor<?x?x?x64xf16>, tensor<?x?x?xf32>) {
  %0:2 = attn.attention queries(%arg0 : tensor<?x?x?x64xf16>) keys(%arg1 : tensor<?x?x?x64xf16>) values(%arg2 : tensor<?x?x?x64xf16>) softcap(%arg3) bias(%arg4 : tensor<?x1x1x?xf32>) mask_tensor(%arg5 : tensor<1x1x?x?xi8>) alibi(%arg6 : tensor<?x?xf32>) sinks(%arg7 : tensor<?xf32>) lengths(%arg8 : tensor<?xi32>) window_left(%arg9) window_right(%arg10) -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
  return %0#0, %0#1 : tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
}

// Two dot pairs.
func.func @gated(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
                 %u: tensor<?x?x?x4xf32>, %g: tensor<?x?x?x4xf32>,
                 %v: tensor<?x?x?x24xf32>) -> tensor<?x?x?x24xf32> {
  %o = attn.aggregate @gated_decay
      scores(%q, %k, %u, %g : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>,
                              tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>)
      values(%v : tensor<?x?x?x24xf32>)
    score {
    ^bb0(%s: f32, %t: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %size = math.absf %t : f32
      %log_gate = arith.negf %size : f32
      attn.yield %s, %log_gate : f32, f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    }
    finalize {
    ^bb0(%c: f32, %sum: f32, %b: i32, %h: i32, %i: i32):
      attn.yield %sum : f32
    } -> tensor<?x?x?x24xf32>
  return %o : tensor<?x?x?x24xf32>
}

// Parts and their combination.
func.func @split(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>)
      {causal = #attn.causal<bottom_right>,
       schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, splits = 4>} -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
func.func @split_welford(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %o:2 = attn.attention monoid(@welford) queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v, %v : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
      {schedule = #attn.schedule<block_q = 32, rows = 16, block_k = 32, splits = 2>} -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %o#0, %o#1 : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}
}
