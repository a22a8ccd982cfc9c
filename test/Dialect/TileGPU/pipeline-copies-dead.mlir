// RUN: attn-run %s --target sm_90a --until-after gpu | FileCheck %s
// RUN: attn-run %s --device emulator:sm_90a --sizes b=1,hq=2,hk=1,sq=70 --input c0=1 --input c1=0.5 --input c2=3 --input c3=random:2 --check | FileCheck %s --check-prefix=VALUES

// The one key there is is dead, so that of the kernels which list key tiles one has
// no tile to look at: it writes numbers alone, and is one warp's.

// CHECK: tile_gpu.kernel private @attention_kernel2(
// CHECK-NOT: !tile_gpu.frag
// CHECK: tile_gpu.role "compute" warps(1)
// CHECK-NOT: !tile_gpu.frag
// CHECK: memref.store
// CHECK: tile_gpu.return
// VALUES: ok

func.func @attention(%q: tensor<?x?x?x80xf16>,
    %k: tensor<?x?x1x80xf16>,
    %v: tensor<?x?x1x80xf16>,
    %c0: f32,
    %c1: f32,
    %c2: i32,
    %c3: tensor<?xf32>)
    -> (tensor<?x?x?x80xf32>, tensor<?x?x?xf32>) {
  %r:2 = attn.aggregate @softmax scores(%q, %k : tensor<?x?x?x80xf16>, tensor<?x?x1x80xf16>)
      values(%v : tensor<?x?x1x80xf16>)
      captures(%c0, %c1, %c2, %c3 : f32, f32, i32, tensor<?xf32>)
    score {
    ^bb0(%dot: f32, %b: i32, %h: i32, %i: i32, %j: i32, %in_c0: f32, %in_c1: f32, %in_c2: i32, %in_c3: tensor<?xf32>):
      %factor = arith.constant 1.118033989e-01 : f32
      %s = arith.mulf %dot, %factor : f32
      %x0 = arith.mulf %s, %in_c0 : f32
      %x1 = arith.mulf %x0, %in_c1 : f32
      %x2 = arith.addi %i, %in_c2 : i32
      %x3 = arith.subi %x2, %j : i32
      %x4 = math.absi %x3 : i32
      %x5 = arith.sitofp %x4 : i32 to f32
      %x6 = arith.index_cast %h : i32 to index
      %x7 = tensor.extract %in_c3[%x6] : tensor<?xf32>
      %x8 = arith.mulf %x5, %x7 : f32
      %x9 = arith.addf %x1, %x8 : f32
      attn.yield %x9 : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %in_c0: f32, %in_c1: f32, %in_c2: i32, %in_c3: tensor<?xf32>):
      %x0 = arith.constant 3 : i32
      %x1 = arith.shli %j, %x0 : i32
      %x2 = arith.constant 3 : i32
      %x3 = arith.shrsi %x1, %x2 : i32
      %x4 = arith.constant 25 : i32
      %x5 = arith.constant 0 : i32
      %x6 = arith.addi %x4, %x5 : i32
      %x7 = arith.minsi %x3, %x6 : i32
      %x8 = arith.cmpi eq, %x7, %x3 : i32
      %x9 = arith.constant true
      %x10 = arith.xori %x8, %x9 : i1
      attn.yield %x10 : i1
    }
      -> tensor<?x?x?x80xf32>, tensor<?x?x?xf32>
  return %r#0, %r#1 : tensor<?x?x?x80xf32>, tensor<?x?x?xf32>
}
