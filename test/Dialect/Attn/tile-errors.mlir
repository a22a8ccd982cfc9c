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

// -----

// expected-error @below {{expected a single block, but got 2}}
func.func @blocks(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  cf.br ^bb1
^bb1:
  return %o : tensor<?x?x?x64xf32>
}

// -----

// expected-error @below {{expected a body that ends with func.return}}
func.func @no_return(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  llvm.unreachable
}

// -----

// expected-error @below {{expected results to be ranked tensors, but got 'f32'}}
func.func @scalar_result(%q: tensor<?x?x?x64xf32>, %s: f32) -> (tensor<?x?x?x64xf32>, f32) {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o, %s : tensor<?x?x?x64xf32>, f32
}

// -----

func.func private @called(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
func.func @caller(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no use of '@called', which becomes a plan of kernel launches; inline it}}
  %o = func.call @called(%q) : (tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @branch(%q: tensor<?x?x?x64xf32>, %p: i1) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no operation with regions beside those of attn}}
  %n = scf.if %p -> index {
    %c = arith.constant 0 : index
    scf.yield %c : index
  } else {
    %c = arith.constant 1 : index
    scf.yield %c : index
  }
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func private @elsewhere()
func.func @calls(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected '@elsewhere' to have a body; a plan calls nothing outside of its module}}
  func.call @elsewhere() : () -> ()
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

// What attributes of named rewrites say has to hold.
func.func @packs_by_head(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %n: tensor<?xi32>)
    -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no packed_heads, since heads are not packed with a mask that reads the head}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%k : tensor<?x?x?x64xf32>)
      captures(%n : tensor<?xi32>)
      {packed_heads, schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, pack_heads = true>}
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %limits: tensor<?xi32>):
      %at = arith.index_cast %h : i32 to index
      %limit = tensor.extract %limits[%at] : tensor<?xi32>
      %live = arith.cmpi slt, %j, %limit : i32
      attn.yield %live : i1
    } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @packs_unasked(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no packed_heads, since its schedule has no pack_heads}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%k : tensor<?x?x?x64xf32>)
      {packed_heads, schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

module attributes {attn.target = "cpu-avx2"} {
func.func @lists(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no listed_keys, since its rows are not those of warpgroups}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%k : tensor<?x?x?x64xf32>)
      {listed_keys = #attn.listed_keys<tiles>, schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func @clusters_of_sequences(%q: tensor<?x?x64xf32>, %k: tensor<?x?x64xf32>,
                                 %cu: tensor<?xi32>) -> tensor<?x?x64xf32> {
  // expected-error @below {{expected cluster = 1 with packed sequences, whose tiles blocks find one by one, but got 2}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x64xf32>, tensor<?x?x64xf32>) values(%k : tensor<?x?x64xf32>)
      query_source(varlen %cu : tensor<?xi32>) key_source(varlen %cu : tensor<?xi32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, cluster = 2>}
      -> tensor<?x?x64xf32>
  return %o : tensor<?x?x64xf32>
}
}

// -----

// Nobody has found that a NaN score would show.
func.func @relaxed(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no relaxed_maximum, since the combine of its monoid is no maximum of one f32 statistic of a cocycle}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {relaxed_maximum, schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @bases(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %i0: i32) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected positions that count from 0; attn-fold-bases adds what they count from}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%k : tensor<?x?x?x64xf32>)
      row_base(%i0 : i32)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @unbounded(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                     %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no fixable_anchor, since the target gains nothing by it}}
  %o = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {fixable_anchor, schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

// Rewrites that nobody has found to hold.
func.func @online(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no exponent, since the factors of its monoid are no exponentials of what one f32 statistic moves by}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {exponent = #attn.exponent<fused>, schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @unit(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no score_unit, since its score is the dot}}
  %o:2 = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {exponent = #attn.exponent<fused>, score_unit, schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o#0 : tensor<?x?x?x64xf32>
}

// -----

func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no linear_bias, since its exponents are not multiply-adds (attn-online-form)}}
  %o:2 = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {linear_bias, schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o#0 : tensor<?x?x?x64xf32>
}
