// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Each function is named after the constraint of docs/Semantics.md that it
// breaks.

func.func @attention_c1(%q: tensor<?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected the queries to be a tensor of rank 4 [batch, heads, rows, d], but got}}
  %o = attn.attention queries(%q : tensor<?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c1(%q: tensor<8x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %cu: tensor<?xi32>) {
  // expected-error@+1 {{expected the keys to be a tensor of rank 3 [heads, rows, d] (packed), but got}}
  %o = attn.attention queries(%q : tensor<8x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) cu_seqlens_q(%cu : tensor<?xi32>) cu_seqlens_k(%cu : tensor<?xi32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c1(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %cu: tensor<?xi32>) {
  // expected-error@+1 {{expected row offsets of queries and of keys together, but got one of them}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) cu_seqlens_q(%cu : tensor<?xi32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c1(%q: tensor<8x?x64xf32>, %k: tensor<8x?x64xf32>, %v: tensor<8x?x64xf32>, %cu: tensor<?xi32>) {
  // expected-error@+1 {{expected key lengths or packed row offsets, but got both}}
  %o = attn.attention queries(%q : tensor<8x?x64xf32>) keys(%k : tensor<8x?x64xf32>)
      values(%v : tensor<8x?x64xf32>) lengths(%cu : tensor<?xi32>)
      cu_seqlens_q(%cu : tensor<?xi32>) cu_seqlens_k(%cu : tensor<?xi32>)
      -> tensor<8x?x64xf32>
  return
}

// -----

func.func @attention_c2(%q: tensor<?x?x?x?xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected the head dimension of the queries to be static and positive, but got}}
  %o = attn.attention queries(%q : tensor<?x?x?x?xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c2(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x128xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected the keys to have the head dimension of the queries, 64, but got 128}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x128xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c2(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x0xf32>) {
  // expected-error@+1 {{expected the head dimension of the values to be static and positive, but got}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x0xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c3(%q: tensor<?x8x?x64xf32>, %k: tensor<?x3x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected the number of query heads to be a multiple of the number of key heads, but got 8 and 3}}
  %o = attn.attention queries(%q : tensor<?x8x?x64xf32>) keys(%k : tensor<?x3x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c3(%q: tensor<?x?x?x64xf32>, %k: tensor<?x4x?x64xf32>, %v: tensor<?x2x?x64xf32>) {
  // expected-error@+1 {{expected keys and values to have the same number of heads, 4, but got 2}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x4x?x64xf32>)
      values(%v : tensor<?x2x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c4(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x10x64xf32>, %v: tensor<?x?x11x64xf32>) {
  // expected-error@+1 {{expected keys and values to have the same number of rows, 10, but got 11}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x10x64xf32>)
      values(%v : tensor<?x?x11x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c4(%q: tensor<2x?x?x64xf32>, %k: tensor<3x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected keys and values to have the batch of the queries, 2, but got 3}}
  %o = attn.attention queries(%q : tensor<2x?x?x64xf32>) keys(%k : tensor<3x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c4(%q: tensor<2x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %n: tensor<3xi32>) {
  // expected-error@+1 {{expected one key length for each batch, 2, but got 3}}
  %o = attn.attention queries(%q : tensor<2x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) lengths(%n : tensor<3xi32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c5(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected the keys to have the element type of the queries, 'f32', but got 'bf16'}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c5(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf16>) {
  // expected-error@+1 {{expected the values to have the element type of the queries, 'f32', but got 'f16'}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf16>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c6(%q: tensor<?x8x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %x: tensor<4x1x1xf32>) {
  // expected-error@+1 {{expected bias to broadcast to 'tensor<?x8x?x?xf32>', but got 'tensor<4x1x1xf32>'}}
  %o = attn.attention queries(%q : tensor<?x8x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) bias(%x : tensor<4x1x1xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c6(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %x: tensor<1x1x1x?x?xi1>) {
  // expected-error@+1 {{expected mask_tensor to broadcast to 'tensor<?x?x?x?xi1>', but got 'tensor<1x1x1x?x?xi1>'}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) mask_tensor(%x : tensor<1x1x1x?x?xi1>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c7(%q: tensor<?x8x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %x: tensor<4xf32>) {
  // expected-error@+1 {{expected alibi to broadcast to 'tensor<?x8xf32>', but got 'tensor<4xf32>'}}
  %o = attn.attention queries(%q : tensor<?x8x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) alibi(%x : tensor<4xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c7(%q: tensor<?x8x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %x: tensor<?x8xf32>) {
  // expected-error@+1 {{expected sinks to broadcast to 'tensor<8xf32>', but got 'tensor<?x8xf32>'}}
  %o = attn.attention queries(%q : tensor<?x8x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) sinks(%x : tensor<?x8xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

// The score function takes the score, b, h, i, j and the captures.
func.func @attention_c8(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'score' to take (f32, i32, i32, i32, i32), but it takes (f32, i32)}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      score {
      ^bb0(%s: f32, %b: i32):
        attn.yield %s : f32
      }
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c8(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'score' to yield (f32), but it yields (i32)}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        attn.yield %b : i32
      }
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c9(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'mask' to yield (i1), but it yields (i32)}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        attn.yield %j : i32
      }
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c9(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %x: f32) {
  // expected-error@+1 {{expected region 'mask' to take (i32, i32, i32, i32, f32), but it takes (i32, i32, i32, i32)}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) captures(%x : f32)
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %t = arith.constant true
        attn.yield %t : i1
      }
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c10(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected a monoid symbol, but '@softmin' is not defined; shipped monoids are: softmax, logsumexp, softmax_entropy}}
  %o = attn.attention monoid(@softmin) queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func private @f()

func.func @attention_c10(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected a monoid symbol, but '@f' is a 'func.func'}}
  %o = attn.attention monoid(@f) queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

func.func @attention_c10(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected at most 1 results, the outputs of @sum, but got 2}}
  %o:2 = attn.attention monoid(@sum) queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

func.func @attention_c10(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected 1 values, one for each value component of @sum, but got 2}}
  %o = attn.attention monoid(@sum) queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v, %v : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

func.func @attention_c10(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %x: f32) {
  // expected-error@+1 {{expected 0 params of @sum, but got 1}}
  %o = attn.attention monoid(@sum params %x : f32) queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

func.func @attention_c10(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected result 0 to be a tensor like 'tensor<?x?x?x64xf32>', but got 'tensor<?x?x?x32xf32>'}}
  %o = attn.attention monoid(@sum) queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

func.func @attention_c10(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected result 0 to be a tensor like 'tensor<?x?x?x64xf32>', but got 'tensor<?x?x?xf32>'}}
  %o = attn.attention monoid(@sum) queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?xf32>
  return
}

// -----

attn.monoid @softmax cocycle stats(f32) components(value, unit)
    outputs("o", "lse") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %log = math.log %sum : f32
    %lse = arith.addf %m, %log : f32
    attn.yield %o, %lse : f32, f32
  }
}

func.func @attention_c10(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected result 1, one per row, to be of f32, but got 'tensor<?x?x?xbf16>'}}
  %o:2 = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xbf16>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

func.func @attention_c12(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %x: tensor<?xf32>) {
  // expected-error@+1 {{expected sinks with a cocycle monoid of one statistic, but got @sum}}
  %o = attn.attention monoid(@sum) queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) sinks(%x : tensor<?xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32, %t: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

func.func @attention_c11(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected a monoid whose lift takes one score, but @sum takes 2; write attn.aggregate with one dot pair for each}}
  %o = attn.attention monoid(@sum) queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c10(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected one or more results}}
  "attn.attention"(%q, %q, %q) <{monoid = @softmax, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({}, {}, {}) : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> ()
  return
}

// -----

func.func @attention_c1(%q: tensor<?x?x?x64xf32>, %cu: tensor<?xi32>, %t: tensor<?x?xi32>) {
  // expected-error@+1 {{expected cu_seqlens_k or a block_table, but got both}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) cu_seqlens_k(%cu : tensor<?xi32>)
      block_table(%t : tensor<?x?xi32>) -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c1(%q: tensor<?x?x?x64xf32>, %t: tensor<?x?xi32>, %s: tensor<?xi32>) {
  // expected-error@+1 {{expected a rolling cache to have k_start, and batches and no pages or packed sequences}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) block_table(%t : tensor<?x?xi32>)
      k_start(%s : tensor<?xi32>) {rolling} -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c4(%q: tensor<2x?x?x64xf32>, %k: tensor<9x?x16x64xf32>, %t: tensor<3x?xi32>) {
  // expected-error@+1 {{expected one row of the table for each batch, 2, but got 3}}
  %o = attn.attention queries(%q : tensor<2x?x?x64xf32>) keys(%k : tensor<9x?x16x64xf32>)
      values(%k : tensor<9x?x16x64xf32>) block_table(%t : tensor<3x?xi32>) -> tensor<2x?x?x64xf32>
  return
}

// -----

func.func @attention_c4(%q: tensor<2x?x?x64xf32>, %s: tensor<3xi32>) {
  // expected-error@+1 {{expected one start for each batch, 2, but got 3}}
  %o = attn.attention queries(%q : tensor<2x?x?x64xf32>) keys(%q : tensor<2x?x?x64xf32>)
      values(%q : tensor<2x?x?x64xf32>) k_start(%s : tensor<3xi32>) -> tensor<2x?x?x64xf32>
  return
}

// -----

func.func @attention_c13(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected splits = 1 or automatic with batch_invariant, since the keys of 2 parts depend on the number of keys, but got #attn.schedule<block_q = 16, rows = 16, block_k = 32, splits = 2, loop = peeled>}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>)
      {batch_invariant, schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 32, splits = 2>}
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c13(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected part_keys to be a multiple of block_k = 32, but got 80}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>)
      {batch_invariant, part_keys = 80 : i64, schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 32>}
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c13(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected part_keys with batch_invariant only}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>)
      {part_keys = 64 : i64} -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c13(%q: tensor<?x?x?x64xf32>, %s: tensor<?xi32>) {
  // expected-error@+1 {{expected no rolling cache with batch_invariant, whose key tiles start at a key that moves}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) k_start(%s : tensor<?xi32>)
      {batch_invariant, rolling} -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c13(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected all schedules to have one block_k with batch_invariant, but got 32 and, for "few rows", 64}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>)
      {batch_invariant, schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 32>,
       attn.dispatch = #attn.dispatch<[<"few rows", when = <rows = 1 to 16>,
         schedule = <block_q = 16, rows = 16, block_k = 64>>]>}
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c14(%q: tensor<?x?x?x64xf32>, %p: f32, %w: i32) {
  // expected-error@+1 {{expected four words of a generator's state, of its seed and its offset, with dropout, but got 2}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) dropout(%p, %w, %w) -> tensor<?x?x?x64xf32>
  return
}

// -----

attn.monoid @largest general stats() components(value) outputs("o") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %v : f32
  }
  finalize {
  ^bb0(%x: f32):
    attn.yield %x : f32
  }
}

func.func @attention_c14_general(%q: tensor<?x?x?x64xf32>, %p: f32, %w: i32) {
  // expected-error@+1 {{expected dropout with a monoid that sums weighted values (cocycle, suffix or prefix), but @largest is general}}
  %o = attn.attention monoid(@largest) queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) dropout(%p, %w, %w, %w, %w) -> tensor<?x?x?x64xf32>
  return
}

// -----

// An option that is misspelt, or is an operand, is none.
func.func @attributes(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{'attn.attention' op expected attributes that it has, or of a dialect, but got 'casual'}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) {casual = #attn.causal<bottom_right>}
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attributes(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{but got 'scale'}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) {scale = 0.5 : f32, test.note}
      -> tensor<?x?x?x64xf32>
  return
}
