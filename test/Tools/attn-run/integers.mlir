// RUN: attn-run %s --entry shift --sizes b=1,hq=1,hk=1,sq=48,sk=48 --check | FileCheck %s
// RUN: attn-run %s --entry divide --sizes b=1,hq=1,hk=1,sq=48,sk=48 --check | FileCheck %s
// CHECK: check o: ok
// CHECK: check {{.*}}: ok

// Shifts by the width of their type and more: the interpreter, which --check
// asks, says what compiled code says.
func.func @shift(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>,
                 %v: tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>, tensor<?x?x?xf32>) {
  %o, %l = attn.attention queries(%q : tensor<?x?x?x4xf32>) keys(%k : tensor<?x?x?x4xf32>)
    values(%v : tensor<?x?x?x8xf32>)
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %one = arith.constant 1 : i32
      %zero = arith.constant 0 : i32
      %minus = arith.subi %zero, %i : i32
      %x = arith.shrui %i, %j : i32
      %y = arith.shli %i, %j : i32
      %z = arith.shrsi %minus, %j : i32
      %xy = arith.xori %x, %y : i32
      %xyz = arith.xori %xy, %z : i32
      %bit = arith.andi %xyz, %one : i32
      %m = arith.cmpi eq, %bit, %one : i32
      attn.yield %m : i1
    } -> tensor<?x?x?x8xf32>, tensor<?x?x?xf32>
  return %o, %l : tensor<?x?x?x8xf32>, tensor<?x?x?xf32>
}

func.func @divide(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>,
                  %v: tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>, tensor<?x?x?xf32>) {
  %o, %l = attn.attention queries(%q : tensor<?x?x?x4xf32>) keys(%k : tensor<?x?x?x4xf32>)
    values(%v : tensor<?x?x?x8xf32>)
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %one = arith.constant 1 : i32
      %five = arith.constant 5 : i32
      %y = arith.subi %j, %five : i32
      %x = arith.divsi %i, %y : i32
      %bit = arith.andi %x, %one : i32
      %m = arith.cmpi eq, %bit, %one : i32
      attn.yield %m : i1
    } -> tensor<?x?x?x8xf32>, tensor<?x?x?xf32>
  return %o, %l : tensor<?x?x?x8xf32>, tensor<?x?x?xf32>
}
