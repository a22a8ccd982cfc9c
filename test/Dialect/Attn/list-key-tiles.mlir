// RUN: attn-opt %s --attn-import-prelude --attn-list-key-tiles=explain --verify-diagnostics -o /dev/null
// RUN: attn-opt %s --attn-import-prelude --attn-list-key-tiles | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --attn-list-key-tiles --attn-list-key-tiles | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --canonicalize --cse --attn-list-key-tiles --canonicalize --cse | FileCheck %s

// Whose key tiles are listed by kernels before, and why those of others are not.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: @ids
// CHECK: {held_samples, listed_keys = #attn.listed_keys<tiles>
func.func @ids(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>, %ids: tensor<?xi32>) -> tensor<?x?x?x64xbf16> {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>) captures(%ids : tensor<?xi32>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>}
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %id: tensor<?xi32>):
      %row = arith.index_cast %i : i32 to index
      %key = arith.index_cast %j : i32 to index
      %x = tensor.extract %id[%row] : tensor<?xi32>
      %y = tensor.extract %id[%key] : tensor<?xi32>
      %same = arith.cmpi eq, %x, %y : i32
      attn.yield %same : i1
    } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// Sums of 256 channels leave no registers for the ids of keys.
// CHECK-LABEL: @wide_ids
// CHECK: {listed_keys = #attn.listed_keys<tiles>
func.func @wide_ids(%q: tensor<?x?x?x256xbf16>, %k: tensor<?x?x?x256xbf16>,
    %v: tensor<?x?x?x256xbf16>, %ids: tensor<?xi32>) -> tensor<?x?x?x256xbf16> {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>) values(%v : tensor<?x?x?x256xbf16>) captures(%ids : tensor<?xi32>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>}
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %id: tensor<?xi32>):
      %row = arith.index_cast %i : i32 to index
      %key = arith.index_cast %j : i32 to index
      %x = tensor.extract %id[%row] : tensor<?xi32>
      %y = tensor.extract %id[%key] : tensor<?xi32>
      %same = arith.cmpi eq, %x, %y : i32
      attn.yield %same : i1
    } -> tensor<?x?x?x256xbf16>
  return %o : tensor<?x?x?x256xbf16>
}

// Ids and where the keys are: elements take three operations, fewer than bits.
// CHECK-LABEL: @causal_ids
// CHECK: {held_samples, listed_keys = #attn.listed_keys<tiles>
func.func @causal_ids(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>, %ids: tensor<?xi32>) -> tensor<?x?x?x64xbf16> {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>) captures(%ids : tensor<?xi32>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>}
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %id: tensor<?xi32>):
      %row = arith.index_cast %i : i32 to index
      %key = arith.index_cast %j : i32 to index
      %x = tensor.extract %id[%row] : tensor<?xi32>
      %y = tensor.extract %id[%key] : tensor<?xi32>
      %same = arith.cmpi eq, %x, %y : i32
      %before = arith.cmpi sle, %j, %i : i32
      %live = arith.andi %before, %same : i1
      attn.yield %live : i1
    } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// An element for each pair: the lists have these.
// CHECK-LABEL: @pairs
// CHECK: {listed_keys = #attn.listed_keys<bits>
func.func @pairs(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>, %m: tensor<?x?xi1>) -> tensor<?x?x?x64xbf16> {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>) captures(%m : tensor<?x?xi1>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>}
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xi1>):
      %row = arith.index_cast %i : i32 to index
      %key = arith.index_cast %j : i32 to index
      %x = tensor.extract %t[%row, %key] : tensor<?x?xi1>
      attn.yield %x : i1
    } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// Rows of warps read what they need of the mask.
// CHECK-LABEL: @rows
// CHECK: {listed_keys = #attn.listed_keys<tiles>
func.func @rows(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>, %m: tensor<?x?xi1>) -> tensor<?x?x?x64xbf16> {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>) captures(%m : tensor<?x?xi1>)
      {schedule = #attn.schedule<block_q = 128, rows = 32, block_k = 128>}
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xi1>):
      %row = arith.index_cast %i : i32 to index
      %key = arith.index_cast %j : i32 to index
      %x = tensor.extract %t[%row, %key] : tensor<?x?xi1>
      attn.yield %x : i1
    } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// CHECK-LABEL: @plain
// CHECK-NOT: listed_keys
func.func @plain(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  // expected-remark @below {{key tiles not listed: it has no mask}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>}
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// CHECK-LABEL: @causal
// CHECK-NOT: listed_keys
func.func @causal(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  // expected-remark @below {{key tiles not listed: bounds of its keys say which tiles are live}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>}
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %x = arith.cmpi sle, %j, %i : i32
      attn.yield %x : i1
    } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// CHECK-LABEL: @unpeeled
// CHECK-NOT: listed_keys
func.func @unpeeled(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>, %ids: tensor<?xi32>) -> tensor<?x?x?x64xbf16> {
  // expected-remark @below {{key tiles not listed: its schedule peels no tiles}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>) captures(%ids : tensor<?xi32>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, loop = masked>}
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %id: tensor<?xi32>):
      %row = arith.index_cast %i : i32 to index
      %key = arith.index_cast %j : i32 to index
      %x = tensor.extract %id[%row] : tensor<?xi32>
      %y = tensor.extract %id[%key] : tensor<?xi32>
      %same = arith.cmpi eq, %x, %y : i32
      attn.yield %same : i1
    } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// CHECK-LABEL: @ordered
// CHECK-NOT: listed_keys
func.func @ordered(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>, %ids: tensor<?xi32>) -> tensor<?x?x?x64xbf16> {
  // expected-remark @below {{key tiles not listed: its monoid is no cocycle}}
  %o = attn.aggregate @stick_breaking
      scores(%q, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>) captures(%ids : tensor<?xi32>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>}
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %id: tensor<?xi32>):
      %row = arith.index_cast %i : i32 to index
      %key = arith.index_cast %j : i32 to index
      %x = tensor.extract %id[%row] : tensor<?xi32>
      %y = tensor.extract %id[%key] : tensor<?xi32>
      %same = arith.cmpi eq, %x, %y : i32
      attn.yield %same : i1
    } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

}
