// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @append_c1(%k: tensor<?x?x?x64xf32>, %n: tensor<?xi32>) -> tensor<?xi32> {
  // expected-error@+1 {{expected a cache for each tensor of rows, but got 2 and 1}}
  %after = attn.append rows(%k, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      to(%k : tensor<?x?x?x64xf32>) lengths(%n : tensor<?xi32>) -> tensor<?xi32>
  return %after : tensor<?xi32>
}

// -----

func.func @append_c2(%k: tensor<?x?x?x64xf32>, %n: tensor<?xi32>) -> tensor<?xi32> {
  // expected-error@+1 {{expected a rolling cache to have k_start and no pages}}
  %after = attn.append rows(%k : tensor<?x?x?x64xf32>) to(%k : tensor<?x?x?x64xf32>)
      lengths(%n : tensor<?xi32>) {rolling} -> tensor<?xi32>
  return %after : tensor<?xi32>
}

// -----

func.func @append_c2(%k: tensor<?x?x?x64xf32>, %n: tensor<?xi32>) -> tensor<?xi32> {
  // expected-error@+1 {{expected k_start with a rolling cache alone}}
  %after = attn.append rows(%k : tensor<?x?x?x64xf32>) to(%k : tensor<?x?x?x64xf32>)
      lengths(%n : tensor<?xi32>) k_start(%n : tensor<?xi32>) -> tensor<?xi32>
  return %after : tensor<?xi32>
}

// -----

func.func @append_c3(%r: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf32>, %n: tensor<?xi32>) -> tensor<?xi32> {
  // expected-error@+1 {{of one element type and a static d, but got 'tensor<?x?x?x64xf16>' and 'tensor<?x?x?x64xf32>'}}
  %after = attn.append rows(%r : tensor<?x?x?x64xf16>) to(%k : tensor<?x?x?x64xf32>)
      lengths(%n : tensor<?xi32>) -> tensor<?xi32>
  return %after : tensor<?xi32>
}

// -----

func.func @append_c3(%r: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %n: tensor<?xi32>) -> tensor<?xi32> {
  // expected-error@+1 {{expected rows [h, total, d] and caches [b, h, rows, d]}}
  %after = attn.append rows(%r : tensor<?x?x?x64xf32>) to(%k : tensor<?x?x?x64xf32>)
      lengths(%n : tensor<?xi32>) offsets(%n : tensor<?xi32>) -> tensor<?xi32>
  return %after : tensor<?xi32>
}

// -----

func.func @append_c4(%r: tensor<2x4x1x64xf32>, %k: tensor<2x8x9x64xf32>, %n: tensor<2xi32>) -> tensor<2xi32> {
  // expected-error@+1 {{expected batches, heads and rows to agree}}
  %after = attn.append rows(%r : tensor<2x4x1x64xf32>) to(%k : tensor<2x8x9x64xf32>)
      lengths(%n : tensor<2xi32>) -> tensor<2xi32>
  return %after : tensor<2xi32>
}

// -----

func.func @append_c5(%q: tensor<?x?x?x64xf32>, %n: tensor<?xi32>) -> tensor<?xi32> {
  %k = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
  // expected-error@+1 {{expected a cache to be an argument of the function}}
  %after = attn.append rows(%q : tensor<?x?x?x64xf32>) to(%k : tensor<?x?x?x64xf32>)
      lengths(%n : tensor<?xi32>) -> tensor<?xi32>
  return %after : tensor<?xi32>
}
