// RUN: attn-opt %s -o %t.mlir
// RUN: attn-opt %s --emit-bytecode -o %t.mlirbc
// RUN: attn-opt %t.mlirbc -o %t.again.mlir
// RUN: cmp %t.mlir %t.again.mlir
// RUN: attn-opt %S/ops.mlir -o %t.mlir
// RUN: attn-opt %S/ops.mlir --emit-bytecode | attn-opt -o %t.again.mlir
// RUN: cmp %t.mlir %t.again.mlir

// Every operand, attribute and region survives bytecode.
func.func @attention(%q: tensor<?x8x?x64xbf16>, %k: tensor<?x2x?x64xbf16>,
    %v: tensor<?x2x?x32xbf16>, %scale: f32, %cap: f32,
    %bias: tensor<8x?x?xbf16>, %mask: tensor<?x1x?x?xi8>, %alibi: tensor<8xf32>,
    %sinks: tensor<8xf32>, %lengths: tensor<?xi32>, %left: i32, %right: i32,
    %table: tensor<?xf32>)
    -> (tensor<?x8x?x32xbf16>, tensor<?x8x?xf32>) {
  %o, %lse = attn.attention monoid(@softmax) queries(%q : tensor<?x8x?x64xbf16>)
      keys(%k : tensor<?x2x?x64xbf16>) values(%v : tensor<?x2x?x32xbf16>)
      scale(%scale) softcap(%cap) bias(%bias : tensor<8x?x?xbf16>)
      mask_tensor(%mask : tensor<?x1x?x?xi8>) alibi(%alibi : tensor<8xf32>)
      sinks(%sinks : tensor<8xf32>) lengths(%lengths : tensor<?xi32>)
      window_left(%left) window_right(%right) captures(%table : tensor<?xf32>)
      {causal = #attn.causal<bottom_right>,
       schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 96, splits = 3, loop = plain>}
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xf32>):
        %at = arith.index_cast %j : i32 to index
        %x = tensor.extract %t[%at] : tensor<?xf32>
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      }
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xf32>):
        %live = arith.cmpi ne, %i, %j : i32
        attn.yield %live : i1
      } -> tensor<?x8x?x32xbf16>, tensor<?x8x?xf32>
  return %o, %lse : tensor<?x8x?x32xbf16>, tensor<?x8x?xf32>
}

func.func @packed(%q: tensor<8x?x64xf16>, %k: tensor<2x?x64xf16>,
    %v: tensor<2x?x64xf16>, %cu_q: tensor<?xi32>, %cu_k: tensor<?xi32>)
    -> tensor<8x?x64xf16> {
  %o = attn.attention queries(%q : tensor<8x?x64xf16>)
      keys(%k : tensor<2x?x64xf16>) values(%v : tensor<2x?x64xf16>)
      cu_seqlens_q(%cu_q : tensor<?xi32>) cu_seqlens_k(%cu_k : tensor<?xi32>)
      -> tensor<8x?x64xf16>
  return %o : tensor<8x?x64xf16>
}
