// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @partial_c1(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf16>) {
  // expected-error@+1 {{expected keys and values [b, h, t, d] of one type, batches and tokens of which agree}}
  %s = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf16>)
      {splits = 2} -> tensor<2x?x?x16x32xf32>
  return
}

// -----

func.func @partial_c2(%k: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected static channels}}
  %s = attn.scan_partial keys(%k : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x32xf32>)
      {splits = 2} -> tensor<2x?x?x16x32xf32>
  return
}

// -----

func.func @partial_c3(%k: tensor<?x2x?x16xf32>, %v: tensor<?x3x?x32xf32>) {
  // expected-error@+1 {{expected heads that divide each other, but got 2 of keys and 3 of values}}
  %s = attn.scan_partial keys(%k : tensor<?x2x?x16xf32>) values(%v : tensor<?x3x?x32xf32>)
      {splits = 2} -> tensor<2x?x?x16x32xf32>
  return
}

// -----

func.func @partial_c4(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected decay for each token of a state head, with 16 channels}}
  %s:2 = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      decay(%g : tensor<?x?x?x32xf32>) {splits = 2} -> tensor<2x?x?x16x32xf32>, tensor<2x?x?x16xf32>
  return
}

// -----

func.func @partial_c4_values(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected decay beside value_gates}}
  %s = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      {splits = 2, value_gates} -> tensor<2x?x?x16x32xf32>
  return
}

// -----

func.func @partial_c5(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %b: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected delta or erase, without weights, value_gates and normalize}}
  %s:3 = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      delta(%b : tensor<?x?x?xf32>) {splits = 2, normalize}
      -> tensor<2x?x?x16x32xf32>, tensor<2x?x?x16xf32>, tensor<2x?x?x16x16xf32>
  return
}

// -----

func.func @partial_c5_before(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected erase beside erase_before}}
  %s = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      {splits = 2, erase_before} -> tensor<2x?x?x16x32xf32>
  return
}

// -----

func.func @partial_c6(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %w: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected log_weight without weight and without gates for each channel}}
  %s:2 = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      weight(%w : tensor<?x?x?xf32>) log_weight(%w : tensor<?x?x?xf32>) {splits = 2}
      -> tensor<2x?x?x16x32xf32>, tensor<2x?x?xf32>
  return
}

// -----

func.func @partial_c6_values(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected value_gates without normalize}}
  %s:3 = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      decay(%g : tensor<?x?x?x32xf32>) {splits = 2, value_gates, normalize}
      -> tensor<2x?x?x16x32xf32>, tensor<2x?x?x16xf32>, tensor<2x?x?x32xf32>
  return
}

// -----

func.func @partial_c7(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected chunk to be 1 or a power of two from 16 to 128, but got 24}}
  %s = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      {splits = 2, chunk = 24} -> tensor<2x?x?x16x32xf32>
  return
}

// -----

func.func @partial_c8(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected decay beside gate}}
  %s = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      {splits = 2} gate {
      ^bb0(%x: f32):
        attn.yield %x : f32
      } -> tensor<2x?x?x16x32xf32>
  return
}

// -----

func.func @partial_c9(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected 2 results (S, then z with normalize, m with log_weight, and maps with decay, delta or erase), but got 1}}
  %s = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      decay(%g : tensor<?x?x?xf32>) {splits = 2} -> tensor<2x?x?x16x32xf32>
  return
}

// -----

func.func @partial_c9_shape(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected results of f32 and shape [2, ?, ?, 16, 32], but got 'tensor<3x?x?x16x32xf32>'}}
  %s = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      {splits = 2} -> tensor<3x?x?x16x32xf32>
  return
}

// -----

func.func @partial_splits(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  %s = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      // expected-error@+1 {{attribute 'splits' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
      {splits = 0} -> tensor<0x?x?x16x32xf32>
  return
}

// -----

func.func @combine_c1(%s: tensor<?x?x16x32xf32>) {
  // expected-error@+1 {{expected states S [parts, n, h, dk, dv] first}}
  %r = attn.scan_combine(%s : tensor<?x?x16x32xf32>) -> tensor<?x?x16x32xf32>
  return
}

// -----

func.func @combine_c1_z(%s: tensor<?x?x?x16x32xf32>) {
  // expected-error@+1 {{expected 2 states (S, then z with normalize, m with log_weight), but got 1}}
  %r = attn.scan_combine(%s : tensor<?x?x?x16x32xf32>) {normalize} -> tensor<?x?x16x32xf32>
  return
}

// -----

func.func @combine_c2(%s: tensor<?x?x?x16x32xf32>, %a: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected maps of f32 and shape [?, ?, ?, 16], but got 'tensor<?x?x?x32xf32>'}}
  %r:2 = attn.scan_combine(%s : tensor<?x?x?x16x32xf32>) maps(%a : tensor<?x?x?x32xf32>)
      -> tensor<?x?x16x32xf32>, tensor<?x?x32xf32>
  return
}

// -----

func.func @combine_c2_values(%s: tensor<?x?x?x16x32xf32>, %a: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected maps of value channels, and no z, beside value_gates}}
  %r:2 = attn.scan_combine(%s : tensor<?x?x?x16x32xf32>) maps(%a : tensor<?x?x?xf32>)
      {value_gates} -> tensor<?x?x16x32xf32>, tensor<?x?xf32>
  return
}

// -----

func.func @combine_c2_log(%s: tensor<?x?x?x16x32xf32>, %m: tensor<?x?x?xf32>, %a: tensor<?x?x?x16xf32>) {
  // expected-error@+1 {{expected maps of heads beside log_weight, and no matrices beside normalize}}
  %r:3 = attn.scan_combine(%s, %m : tensor<?x?x?x16x32xf32>, tensor<?x?x?xf32>)
      maps(%a : tensor<?x?x?x16xf32>) {log_weight}
      -> tensor<?x?x16x32xf32>, tensor<?x?xf32>, tensor<?x?x16xf32>
  return
}

// -----

func.func @combine_c3(%s: tensor<?x?x?x16x32xf32>, %i: tensor<?x?x32x16xf32>) {
  // expected-error@+1 {{expected init of f32 and shape [?, ?, 16, 32], but got 'tensor<?x?x32x16xf32>'}}
  %r = attn.scan_combine(%s : tensor<?x?x?x16x32xf32>) init(%i : tensor<?x?x32x16xf32>)
      -> tensor<?x?x16x32xf32>
  return
}

// -----

func.func @combine_c4(%s: tensor<?x?x?x16x32xf32>, %a: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected 2 results (the states, and without init the maps), but got 1}}
  %r = attn.scan_combine(%s : tensor<?x?x?x16x32xf32>) maps(%a : tensor<?x?x?xf32>)
      -> tensor<?x?x16x32xf32>
  return
}
