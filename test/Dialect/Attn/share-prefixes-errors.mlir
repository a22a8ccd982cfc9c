// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-set-target=target=cpu-avx2 --attn-import-prelude --attn-to-aggregate --attn-choose-schedule --attn-share-prefixes

func.func @window(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x16x64xf32>,
                  %t: tensor<?x?xi32>, %w: i32) {
  // expected-error@+1 {{expected cascade with a block_table and a bottom-right or no diagonal, so that all rows of a sequence see its first keys and score them by the dot, but got a window}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x16x64xf32>)
      values(%k : tensor<?x?x16x64xf32>) window_left(%w) block_table(%t : tensor<?x?xi32>)
      {cascade = 1 : i64} -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @levels(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x16x64xf32>,
                  %t: tensor<?x?xi32>) {
  // expected-error@+1 {{expected cascade of 1 to 4 levels, but got 5}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x16x64xf32>)
      values(%k : tensor<?x?x16x64xf32>) block_table(%t : tensor<?x?xi32>)
      {cascade = 5 : i64} -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @no_pages(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{score them by the dot, but got no block_table}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) {cascade = 1 : i64} -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @alibi(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x16x64xf32>,
                 %t: tensor<?x?xi32>, %a: tensor<?xf32>) {
  // expected-error@+1 {{but got scores that differ by position}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x16x64xf32>)
      values(%k : tensor<?x?x16x64xf32>) alibi(%a : tensor<?xf32>) block_table(%t : tensor<?x?xi32>)
      {cascade = 1 : i64} -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @no_cocycle(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x16x64xf32>,
                          %t: tensor<?x?xi32>) -> tensor<?x?x?x64xf32> {
  // expected-error@+1 {{expected sequences that can share keys, as share of the schedule says, but got a monoid that is no cocycle}}
  %o = attn.attention monoid(@stick_breaking) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x16x64xf32>) values(%k : tensor<?x?x16x64xf32>)
      block_table(%t : tensor<?x?xi32>) {cascade = 1 : i64} -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @unsaid(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x16x64xf32>,
                  %t: tensor<?x?xi32>) -> tensor<?x?x?x64xf32> {
  // expected-error@+1 {{but got an operation that does not say which keys its rows see (cascade)}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x16x64xf32>) values(%k : tensor<?x?x16x64xf32>)
      block_table(%t : tensor<?x?xi32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, share = 1>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

// expected-error@+2 {{expected share to be between 0 and 4, but got 5}}
func.func private @too_many()
    attributes {a = #attn.schedule<block_q = 64, rows = 32, block_k = 64, share = 5>}

// -----

func.func @share_c1(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x16x32xf32>,
                    %t: tensor<?x?xi32>) {
  // expected-error@+1 {{expected queries [b, hq, sq, d] and keys [pages, hk, page, d] of one element type and a static d, but got}}
  %r:6 = attn.share queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x16x32xf32>)
      table(%t : tensor<?x?xi32>) levels(1) -> tensor<?x?x64x64xf32>, tensor<?x?xi32>,
      tensor<?xi32>, tensor<?xi32>, tensor<?xi32>, tensor<1x?xi32>
  return
}

// -----

func.func @share_c2(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x16x64xf32>,
                    %t: tensor<?x?xi32>) {
  // expected-error@+1 {{expected rows of groups [groups, hk, rows, d] of the type of the queries, and a static number of rows, but got 'tensor<?x?x?x64xf32>'}}
  %r:6 = attn.share queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x16x64xf32>)
      table(%t : tensor<?x?xi32>) levels(1) -> tensor<?x?x?x64xf32>, tensor<?x?xi32>,
      tensor<?xi32>, tensor<?xi32>, tensor<?xi32>, tensor<1x?xi32>
  return
}

// -----

func.func @share_c3(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x16x64xf32>,
                    %t: tensor<?x?xi32>) {
  // expected-error@+1 {{expected places of 2 levels, but got 'tensor<1x?xi32>'}}
  %r:6 = attn.share queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x16x64xf32>)
      table(%t : tensor<?x?xi32>) levels(2) -> tensor<?x?x64x64xf32>, tensor<?x?xi32>,
      tensor<?xi32>, tensor<?xi32>, tensor<?xi32>, tensor<1x?xi32>
  return
}

// -----

func.func @combine_c4(%m: tensor<2x?x?x?xf32>, %a: tensor<2x?x?x?x64xf32>) {
  // expected-error@+1 {{expected shared states for each state, and their places, or none of them, but got 1 and no places}}
  %c:3 = "attn.combine"(%m, %a, %m, %m) <{monoid = @softmax, operandSegmentSizes = array<i32: 3, 1, 0, 0>}>
      : (tensor<2x?x?x?xf32>, tensor<2x?x?x?x64xf32>, tensor<2x?x?x?xf32>, tensor<2x?x?x?xf32>)
      -> (tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @share_attributes(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x16x64xf32>,
                            %t: tensor<?x?xi32>) {
  // expected-error@+1 {{expected attributes that it has, or of a dialect, but got 'level'}}
  %r:6 = attn.share queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x16x64xf32>)
      table(%t : tensor<?x?xi32>) levels(1) {level = 2 : i64} -> tensor<?x?x64x64xf32>, tensor<?x?xi32>,
      tensor<?xi32>, tensor<?xi32>, tensor<?xi32>, tensor<1x?xi32>
  return
}
