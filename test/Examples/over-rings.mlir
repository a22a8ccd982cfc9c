// A reduction over queries that lie round and round in their tensor, and count
// from elsewhere; on GPUs warps find the rows that they copy.
//
// RUN: %python -c "import numpy as np; np.save('%t.start.npy', np.array([60, 3], 'i4')); np.save('%t.first.npy', np.array([25, 0], 'i4'))"
// RUN: attn-run %s --sizes b=2,hk=2,hq=6,sq=70,sk=45 --input start=%t.start.npy \
// RUN:   --input first=%t.first.npy --check | FileCheck %s
// RUN: attn-run %s --sizes b=2,hk=2,hq=6,sq=70,sk=45 --input start=%t.start.npy \
// RUN:   --input first=%t.first.npy --device emulator:sm_90a --check | FileCheck %s
// REQUIRES: attn-run, python
// CHECK: check o: ok

!rows = tensor<?x?x?x64xbf16>
!offsets = tensor<?xi32>

func.func @ring(%q: !rows, %k: !rows, %start: !offsets, %first: !offsets) -> !rows {
  %o = attn.aggregate @stick_breaking scores(%k, %q : !rows, !rows) values(%q : !rows)
      key_source(ring %start : !offsets) key_base(%first : !offsets)
      {side = #attn.side<queries>}
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
