// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-choose-schedule --attn-online-form --attn-fold-linear-bias=explain --verify-diagnostics -o /dev/null
// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-choose-schedule --attn-online-form --attn-fold-linear-bias | FileCheck %s

// What has no linear tiles, and why.
// CHECK-NOT: linear_bias

module attributes {attn.target = "sm_90a"} {
func.func @product(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                   %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{no linear tiles: its score is a product (attn-fold-scale)}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

func.func @bias(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                %v: tensor<?x?x?x128xbf16>, %t: tensor<?x?x?x?xf32>) -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{no linear tiles: its score does not grow evenly from key to key}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      bias(%t : tensor<?x?x?x?xf32>) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

func.func @f32(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
               %v: tensor<?x?x?x64xf32>, %a: tensor<?xf32>) -> tensor<?x?x?x64xf32> {
  // expected-remark@+1 {{no linear tiles: its products are not those of warpgroups}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      alibi(%a : tensor<?xf32>) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

func.func @invariant(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                     %v: tensor<?x?x?x128xbf16>, %a: tensor<?xf32>) -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{no linear tiles: which tiles are whole depends on the rows beside a row}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      alibi(%a : tensor<?xf32>) {batch_invariant} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

func.func @sum(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
               %v: tensor<?x?x?x128xbf16>, %a: tensor<?xf32>) -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{no linear tiles: its exponents are not multiply-adds (attn-online-form)}}
  %o = attn.attention monoid(@sigmoid_sum) queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      alibi(%a : tensor<?xf32>) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// A function of the distance without a bound; one of more than the distance; and
// a table beside ALiBi, whose sides are not those of far pairs.
func.func @unbounded(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                     %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{no linear tiles: its score does not grow evenly from key to key}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %d = arith.subi %i, %j : i32
        %f = arith.sitofp %d : i32 to f32
        %r = math.sin %f : f32
        %y = arith.addf %s, %r : f32
        attn.yield %y : f32
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

func.func @sum_of_positions(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                            %v: tensor<?x?x?x128xbf16>, %t: tensor<?xf32>)
    -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{no linear tiles: its score does not grow evenly from key to key}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      captures(%t : tensor<?xf32>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %u: tensor<?xf32>):
        %c = arith.constant 64 : i32
        %d = arith.addi %i, %j : i32
        %m = arith.minsi %d, %c : i32
        %at = arith.index_cast %m : i32 to index
        %x = tensor.extract %u[%at] : tensor<?xf32>
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

func.func @beside(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                  %v: tensor<?x?x?x128xbf16>, %a: tensor<?xf32>, %t: tensor<?xf32>)
    -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{no linear tiles: its score does not grow evenly from key to key}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      alibi(%a : tensor<?xf32>) captures(%t : tensor<?xf32>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %u: tensor<?xf32>):
        %c = arith.constant 64 : i32
        %d = arith.subi %i, %j : i32
        %m = arith.minsi %d, %c : i32
        %at = arith.index_cast %m : i32 to index
        %x = tensor.extract %u[%at] : tensor<?xf32>
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}
