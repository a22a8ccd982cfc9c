// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-tile --verify-diagnostics

func.func @no_schedule(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                       %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected a schedule; attn-choose-schedule writes one}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @other_tensor_op(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                           %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no operation on tensors beside those of attn, tensor.dim and tensor.extract}}
  %twice = arith.addf %q, %q : tensor<?x?x?x64xf32>
  %o = attn.aggregate @sigmoid_sum
      scores(%twice, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @returns_argument(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                            %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  // expected-error @below {{expected operand 1 to be the result of an attn reduction}}
  return %o, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
}

// -----

func.func @returns_twice(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                         %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  // expected-error @below {{expected each value to be returned once, but got operand 1 again}}
  return %o, %o : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
}
