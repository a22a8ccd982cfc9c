// RUN: attn-opt %s --emit-ptx | FileCheck %s

// LLVM has each kernel of a plan in a module of its own, so that what it makes of
// one depends on no other: labels start anew in the second. Version and target
// stand once above them, and so does what they share.

!acc = !tile_gpu.frag<64x16xf32, acc>
!marks = !tile_gpu.vec<64xi1, row>
!rows = memref<?x16xf32, strided<[?, 1]>>

// CHECK: .version
// CHECK: .target sm_90a
// CHECK: .address_size 64
// CHECK: .visible .entry first(
// CHECK: $L__BB0_1:
// CHECK-NOT: .version
// CHECK-NOT: .address_size
// CHECK-NOT: attn_shared[]
// CHECK: .visible .entry second(
// CHECK: $L__BB0_1:
// CHECK-NOT: .version
module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @first(%m: !rows, %n: !rows, %key: index) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %true = arith.constant true
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %f = tile_gpu.frag.fill %zero : f32 -> !acc
    %marks = tile_gpu.frag.fill %true : i1 -> !marks
    %any = tile_gpu.any %marks by_rows : !marks
    %g = scf.if %any -> (!acc) {
      %h = tile_gpu.map ins(%f : !acc) {
      ^bb0(%r: i32, %c: i32, %x: f32):
        %col = arith.index_cast %c : i32 to index
        %y = memref.load %m[%key, %col] : !rows
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !acc
      scf.yield %h : !acc
    } else {
      scf.yield %f : !acc
    }
    tile_gpu.global.store %g, %n[%c0, %c0] : !acc, !rows
    tile_gpu.yield
  }
  tile_gpu.return
}

tile_gpu.kernel private @second(%m: !rows, %n: !rows, %key: index) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %true = arith.constant true
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %f = tile_gpu.frag.fill %zero : f32 -> !acc
    %marks = tile_gpu.frag.fill %true : i1 -> !marks
    %any = tile_gpu.any %marks by_rows : !marks
    %g = scf.if %any -> (!acc) {
      %h = tile_gpu.map ins(%f : !acc) {
      ^bb0(%r: i32, %c: i32, %x: f32):
        %col = arith.index_cast %c : i32 to index
        %y = memref.load %m[%key, %col] : !rows
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !acc
      scf.yield %h : !acc
    } else {
      scf.yield %f : !acc
    }
    tile_gpu.global.store %g, %n[%c0, %c0] : !acc, !rows
    tile_gpu.yield
  }
  tile_gpu.return
}
}
