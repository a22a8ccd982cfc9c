// A table without elements reads as zeros where there are no keys, also what a
// kernel reads ahead of them; with keys it is refused.
//
// RUN: attn-run %s --device emulator:sm_90a --sizes b=1,hq=2,hk=2,sq=4,sk=0 --input t=random:0 --check | FileCheck %s
// RUN: attn-run %s --device emulator:sm_80 --sizes b=1,hq=2,hk=2,sq=4,sk=0 --input t=random:0 --check | FileCheck %s
// RUN: not attn-run %s --device emulator:sm_90a --sizes b=1,hq=2,hk=2,sq=4,sk=4 --input t=random:0 2>&1 | FileCheck %s --check-prefix=KEYS

!rows = tensor<?x?x?x64xf16>

// CHECK: output o: f16 [1, 2, 4, 64], min 0, max 0
// CHECK: check o: ok
// KEYS: expected 't' to have an element or more in dimension 0, which regions index, but got shape [0]
func.func @f(%q: !rows, %k: !rows, %v: !rows, %t: tensor<?xf32>) -> !rows {
  %o = attn.aggregate @softmax scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%t : tensor<?xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %u: tensor<?xf32>):
      %two = arith.constant 2 : i32
      %half = arith.divsi %h, %two : i32
      %at = arith.index_cast %half : i32 to index
      %x = tensor.extract %u[%at] : tensor<?xf32>
      %y = arith.addf %s, %x : f32
      attn.yield %y : f32
    } -> !rows
  return %o : !rows
}
