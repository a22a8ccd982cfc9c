// Gated linear attention in each type, which takes two dot pairs and so a program:
// test/Examples/gated-decay.mlir says what it is.
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

func.func @bf16(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %u: tensor<?x?x?x16xbf16>, %g: tensor<?x?x?x16xbf16>, %v: tensor<?x?x?x64xbf16>)
    -> tensor<?x?x?x64xbf16> {
  %o = attn.aggregate @gated_decay
      scores(%q, %k, %u, %g : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
                              tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>)
      values(%v : tensor<?x?x?x64xbf16>)
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
    } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

func.func @f16(%q: tensor<?x?x?x32xf16>, %k: tensor<?x?x?x32xf16>,
    %u: tensor<?x?x?x16xf16>, %g: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x32xf16>)
    -> tensor<?x?x?x32xf16> {
  %o = attn.aggregate @gated_decay
      scores(%q, %k, %u, %g : tensor<?x?x?x32xf16>, tensor<?x?x?x32xf16>,
                              tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>)
      values(%v : tensor<?x?x?x32xf16>)
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
    } -> tensor<?x?x?x32xf16>
  return %o : tensor<?x?x?x32xf16>
}

func.func @f32(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
    %u: tensor<?x?x?x4xf32>, %g: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x16xf32>)
    -> tensor<?x?x?x16xf32> {
  %o = attn.aggregate @gated_decay
      scores(%q, %k, %u, %g : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>,
                              tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>)
      values(%v : tensor<?x?x?x16xf32>)
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
    } -> tensor<?x?x?x16xf32>
  return %o : tensor<?x?x?x16xf32>
}
