// Softmax over scores to which a table adds a bias by distance, starting from a
// state of its own for each head: a key of weight 1 that has a score and no
// value, as attention sinks have. Tables are captures; regions read them.
//
// RUN: attn-run %s --sizes b=2,hq=4,hk=2,sq=40,sk=70 \
// RUN:   --input sinks=random:4 --input table=random:32 --check | FileCheck %s
// REQUIRES: attn-run
// CHECK: check o: ok

func.func @biased(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
                  %v: tensor<?x?x?x16xf32>, %sinks: tensor<?xf32>,
                  %table: tensor<32xf32>) -> tensor<?x?x?x16xf32> {
  %o = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>)
      values(%v : tensor<?x?x?x16xf32>)
      captures(%sinks, %table : tensor<?xf32>, tensor<32xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %sink: tensor<?xf32>,
         %bias: tensor<32xf32>):
      %last = arith.constant 31 : i32
      %d = arith.subi %i, %j : i32
      %distance = math.absi %d : i32
      %bucket = arith.minsi %distance, %last : i32
      %n = arith.index_cast %bucket : i32 to index
      %add = tensor.extract %bias[%n] : tensor<32xf32>
      %x = arith.addf %s, %add : f32
      attn.yield %x : f32
    }
    init {
    ^bb0(%b: i32, %h: i32, %i: i32, %sink: tensor<?xf32>, %bias: tensor<32xf32>):
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %n = arith.index_cast %h : i32 to index
      %score = tensor.extract %sink[%n] : tensor<?xf32>
      attn.yield %score, %zero, %one : f32, f32, f32
    }
    finalize {
    ^bb0(%c: f32, %sum: f32, %weight: f32, %b: i32, %h: i32, %i: i32,
         %sink: tensor<?xf32>, %bias: tensor<32xf32>):
      %x = arith.divf %sum, %weight : f32
      attn.yield %x : f32
    } -> tensor<?x?x?x16xf32>
  return %o : tensor<?x?x?x16xf32>
}
