// Reductions over the queries of a key head beside those of gradients: monoids
// of every kind, rows that start from a state of their key head, numbers of
// queries of each batch, packed sequences, queries in pages,
// positions that count from elsewhere, a score that needs the query's head.
//
// DEFINE: %{sizes} = --sizes b=2,hk=2,hq=6,sq=70,sk=45
// DEFINE: %{run} = attn-run %s %{sizes} --check --entry
// RUN: %{run} anchored --input slope=random:6 --input start=random:2 | FileCheck %s
// RUN: %{run} stick | FileCheck %s
// RUN: %{run} maxima | FileCheck %s
// RUN: %{run} lengths | FileCheck %s
// RUN: %{run} anchored --input slope=random:6 --input start=random:2 --device emulator:sm_90a | FileCheck %s
// RUN: %{run} stick --device emulator:sm_80 | FileCheck %s
// RUN: %{run} maxima --device emulator:sm_80 | FileCheck %s
// RUN: %{run} lengths --device emulator:sm_90a | FileCheck %s
// DEFINE: %{cache} = attn-run %s --sizes b=2,hk=2,hq=6,sk=45 --input table=%t.table.npy \
// DEFINE:   --input n=%t.n.npy --sizes pages=6,table_pages=3 --check --entry paged
// RUN: %python -c "import numpy as np; np.save('%t.table.npy', np.array([[4, 0, 2], [5, 1, -1]], 'i4')); np.save('%t.n.npy', np.array([131, 70], 'i4'))"
// RUN: %{cache} | FileCheck %s
// RUN: %{cache} --device emulator:sm_90a | FileCheck %s
// RUN: %{cache} --device emulator:sm_80 | FileCheck %s
// DEFINE: %{sequences} = attn-run %s --sizes hk=2,hq=6,total_q=150,total_k=130 \
// DEFINE:   --input cu_k=%t.keys.npy --input cu_q=%t.queries.npy --check --entry sequences
// RUN: %python -c "import numpy as np; np.save('%t.keys.npy', np.array([0, 40, 40, 120], 'i4')); np.save('%t.queries.npy', np.array([0, 0, 77, 150], 'i4'))"
// RUN: %{sequences} | FileCheck %s
// RUN: %{sequences} --device emulator:sm_90a | FileCheck %s
// REQUIRES: attn-run, python
// CHECK: check o: ok

!rows = tensor<?x?x?x64xbf16>

// Each query head has a slope of its own, each key head a state to start from.
func.func @anchored(%q: !rows, %k: !rows, %slope: tensor<?xf32>, %start: tensor<?xf32>) -> !rows {
  %o = attn.aggregate @softmax scores(%k, %q : !rows, !rows) values(%q : !rows)
      captures(%slope, %start : tensor<?xf32>, tensor<?xf32>) {side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %j: i32, %i: i32, %slopes: tensor<?xf32>, %starts: tensor<?xf32>):
      %hi = arith.index_cast %h : i32 to index
      %slope_h = tensor.extract %slopes[%hi] : tensor<?xf32>
      %eighth = arith.constant 0.125 : f32
      %factor = arith.mulf %slope_h, %eighth : f32
      %x = arith.mulf %s, %factor : f32
      attn.yield %x : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %j: i32, %i: i32, %slopes: tensor<?xf32>, %starts: tensor<?xf32>):
      %reach = arith.muli %h, %h : i32
      %last = arith.addi %i, %reach : i32
      %live = arith.cmpi sle, %j, %last : i32
      attn.yield %live : i1
    }
    init {
    ^bb0(%b: i32, %h: i32, %j: i32, %slopes: tensor<?xf32>, %starts: tensor<?xf32>):
      %hi = arith.index_cast %h : i32 to index
      %start_h = tensor.extract %starts[%hi] : tensor<?xf32>
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      attn.yield %start_h, %zero, %one : f32, f32, f32
    } -> !rows
  return %o : !rows
}

// Heads in order, and the queries of each.
func.func @stick(%q: !rows, %k: !rows) -> !rows {
  %o = attn.aggregate @stick_breaking scores(%k, %q : !rows, !rows)
      values(%q : !rows) {side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %j: i32, %i: i32):
      %eighth = arith.constant 0.125 : f32
      %x = arith.mulf %s, %eighth : f32
      attn.yield %x : f32
    } -> !rows
  return %o : !rows
}

func.func @maxima(%q: !rows, %k: !rows) -> !rows {
  %o = attn.aggregate @maxplus scores(%k, %q : !rows, !rows)
      values(%q : !rows) {side = #attn.side<queries>} -> !rows
  return %o : !rows
}

func.func @lengths(%q: !rows, %k: !rows, %lengths: tensor<?xi32>) -> !rows {
  %o = attn.aggregate @relu_sum scores(%k, %q : !rows, !rows)
      values(%q : !rows) key_source(lengths %lengths : tensor<?xi32>) {side = #attn.side<queries>} -> !rows
  return %o : !rows
}

!packed = tensor<?x?x64xbf16>
!offsets = tensor<?xi32>
func.func @sequences(%q: !packed, %k: !packed, %cu_k: !offsets, %cu_q: !offsets) -> !packed {
  %o = attn.aggregate @softmax scores(%k, %q : !packed, !packed) values(%q : !packed)
      query_source(varlen %cu_k : !offsets) key_source(varlen %cu_q : !offsets) {side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %j: i32, %i: i32):
      %eighth = arith.constant 0.125 : f32
      %x = arith.mulf %s, %eighth : f32
      attn.yield %x : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %j: i32, %i: i32):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> !packed
  return %o : !packed
}

// Queries in pages of 64, and keys that are no prefix of theirs.
!pages = tensor<?x?x64x64xbf16>
func.func @paged(%q: !pages, %k: !rows, %table: tensor<?x?xi32>, %n: tensor<?xi32>) -> !rows {
  %first = arith.constant 20 : i32
  %o = attn.aggregate @softmax scores(%k, %q : !rows, !pages) values(%q : !pages)
      key_source(paged %table, lengths %n : tensor<?x?xi32>, tensor<?xi32>)
      row_base(%first : i32) {side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %j: i32, %i: i32):
      %eighth = arith.constant 0.125 : f32
      %x = arith.mulf %s, %eighth : f32
      attn.yield %x : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %j: i32, %i: i32):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> !rows
  return %o : !rows
}
