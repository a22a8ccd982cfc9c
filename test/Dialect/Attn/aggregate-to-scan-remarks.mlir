// Which aggregates are scans, and what keeps others from being some.
// RUN: attn-opt %s --split-input-file --attn-aggregate-to-scan=explain --verify-diagnostics -o /dev/null

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case0(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{scan: a matrix is carried along the keys}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case1(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{scan: a matrix is carried along the keys}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m suffix stats(f32) components(value) outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %g = math.exp %c : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32):
    attn.yield %log_gate, %s : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case2(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{scan: a matrix is carried along the keys}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %b1 = arith.index_cast %b : i32 to index
        %h1 = arith.index_cast %h : i32 to index
        %j1 = arith.index_cast %j : i32 to index
        %y = tensor.extract %l[%b1, %h1, %j1] : tensor<?x4x?xf32>
        attn.yield %s, %y : f32, f32
      }
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m suffix stats(f32) components(value) outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %g = math.exp %c : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32):
    attn.yield %log_gate, %s : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case3(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{no scan: it has not one dot, one value and one output}}
  %o = attn.aggregate @m scores(%q, %k, %q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m suffix stats(f32) components(value) outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %g = math.exp %c : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32):
    attn.yield %log_gate, %s : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case4(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{no scan: its gate is not an element of a capture of the key}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %b1 = arith.index_cast %b : i32 to index
        %h1 = arith.index_cast %h : i32 to index
        %i1 = arith.index_cast %i : i32 to index
        %y = tensor.extract %l[%b1, %h1, %i1] : tensor<?x4x?xf32>
        attn.yield %s, %y : f32, f32
      }
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m suffix stats(f32) components(value) outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %g = math.exp %c : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32):
    attn.yield %log_gate, %s : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case5(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x16xf32>, %g: tensor<?x?x?xf32>) -> tensor<?x?x?x16xf32> {
  // expected-remark@+1 {{scan: a matrix is carried along the keys}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x16xf32>)
      captures(%g : tensor<?x?x?xf32>) 
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x?x?xf32>):
        %b1 = arith.index_cast %b : i32 to index
        %h1 = arith.index_cast %h : i32 to index
        %j1 = arith.index_cast %j : i32 to index
        %y = tensor.extract %l[%b1, %h1, %j1] : tensor<?x?x?xf32>
        attn.yield %s, %y : f32, f32
      }
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x?x?xf32>):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x?x?x16xf32>
  return %o : tensor<?x?x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m suffix stats(f32) components(value) outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %g = math.exp %c : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32):
    attn.yield %log_gate, %s : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case6(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{no scan: a gate without a causal mask is no prefix}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %b1 = arith.index_cast %b : i32 to index
        %h1 = arith.index_cast %h : i32 to index
        %j1 = arith.index_cast %j : i32 to index
        %y = tensor.extract %l[%b1, %h1, %j1] : tensor<?x4x?xf32>
        attn.yield %s, %y : f32, f32
      }
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case7(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{no scan: its mask is not that of keys up to the row}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %live = arith.cmpi slt, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    %x = arith.mulf %s, %s : f32
    attn.yield %x : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case8(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{no scan: its weights are not scores as they are}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case9(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{no scan: its weights are not a factor times the dot}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %x = arith.addf %s, %s : f32
        attn.yield %x : f32
      }
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    %x = arith.addf %acc, %acc : f32
    attn.yield %x : f32
  }
}
func.func @case10(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{no scan: its outputs are not the sums as they are}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m suffix stats(f32) components(value) outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %g = math.exp2 %c : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32):
    attn.yield %log_gate, %s : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case11(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{no scan: its gates are not exponentials of sums}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %b1 = arith.index_cast %b : i32 to index
        %h1 = arith.index_cast %h : i32 to index
        %j1 = arith.index_cast %j : i32 to index
        %y = tensor.extract %l[%b1, %h1, %j1] : tensor<?x4x?xf32>
        attn.yield %s, %y : f32, f32
      }
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case12(%q: tensor<?x4x8x16xf32>, %k: tensor<?x4x9x16xf32>, %v: tensor<?x4x9x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x8x16xf32> {
  // expected-remark@+1 {{no scan: queries and keys are known to be of different numbers}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x8x16xf32>, tensor<?x4x9x16xf32>) values(%v : tensor<?x4x9x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x8x16xf32>
  return %o : tensor<?x4x8x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @case13(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{no scan: it has a schedule}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64>}
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "sm_90a"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @gpu(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>, %g: tensor<?x4x?xf32>) -> tensor<?x4x?x16xf32> {
  // expected-remark@+1 {{no scan: the target's kernels of scans take a token after the other}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) values(%v : tensor<?x4x?x16xf32>)
      captures(%g : tensor<?x4x?xf32>) 
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @causal_384(%q: tensor<?x4x384x128xf32>, %k: tensor<?x4x384x128xf32>, %v: tensor<?x4x384x128xf32>) -> tensor<?x4x384x128xf32> {
  // expected-remark@+1 {{no scan: its keys are too few for a matrix}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x384x128xf32>, tensor<?x4x384x128xf32>) values(%v : tensor<?x4x384x128xf32>)
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x384x128xf32>
  return %o : tensor<?x4x384x128xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @causal_385(%q: tensor<?x4x385x128xf32>, %k: tensor<?x4x385x128xf32>, %v: tensor<?x4x385x128xf32>) -> tensor<?x4x385x128xf32> {
  // expected-remark@+1 {{scan: a matrix is carried along the keys}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x385x128xf32>, tensor<?x4x385x128xf32>) values(%v : tensor<?x4x385x128xf32>)
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x385x128xf32>
  return %o : tensor<?x4x385x128xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @rows_known(%q: tensor<?x4x64x128xf32>, %k: tensor<?x4x?x128xf32>, %v: tensor<?x4x?x128xf32>) -> tensor<?x4x64x128xf32> {
  // expected-remark@+1 {{no scan: its keys are too few for a matrix}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x64x128xf32>, tensor<?x4x?x128xf32>) values(%v : tensor<?x4x?x128xf32>)
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x64x128xf32>
  return %o : tensor<?x4x64x128xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @keys_known(%q: tensor<?x4x?x128xf32>, %k: tensor<?x4x4096x128xf32>, %v: tensor<?x4x4096x128xf32>) -> tensor<?x4x?x128xf32> {
  // expected-remark@+1 {{scan: a matrix is carried along the keys}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x?x128xf32>, tensor<?x4x4096x128xf32>) values(%v : tensor<?x4x4096x128xf32>)
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }
      -> tensor<?x4x?x128xf32>
  return %o : tensor<?x4x?x128xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @whole_128(%q: tensor<?x4x128x128xf32>, %k: tensor<?x4x128x128xf32>, %v: tensor<?x4x128x128xf32>) -> tensor<?x4x128x128xf32> {
  // expected-remark@+1 {{no scan: its keys are too few for a matrix}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x128x128xf32>, tensor<?x4x128x128xf32>) values(%v : tensor<?x4x128x128xf32>)
      -> tensor<?x4x128x128xf32>
  return %o : tensor<?x4x128x128xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @whole_129(%q: tensor<?x4x129x128xf32>, %k: tensor<?x4x129x128xf32>, %v: tensor<?x4x129x128xf32>) -> tensor<?x4x129x128xf32> {
  // expected-remark@+1 {{scan: a matrix is carried along the keys}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x129x128xf32>, tensor<?x4x129x128xf32>) values(%v : tensor<?x4x129x128xf32>)
      -> tensor<?x4x129x128xf32>
  return %o : tensor<?x4x129x128xf32>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @one_row(%q: tensor<?x4x1x128xf32>, %k: tensor<?x4x?x128xf32>, %v: tensor<?x4x?x128xf32>) -> tensor<?x4x1x128xf32> {
  // expected-remark@+1 {{no scan: its keys are too few for a matrix}}
  %o = attn.aggregate @m scores(%q, %k : tensor<?x4x1x128xf32>, tensor<?x4x?x128xf32>) values(%v : tensor<?x4x?x128xf32>)
      -> tensor<?x4x1x128xf32>
  return %o : tensor<?x4x1x128xf32>
}
}
