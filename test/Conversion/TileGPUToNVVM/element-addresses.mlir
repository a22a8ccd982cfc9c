// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm --cse | FileCheck %s

// The elements of 16 bits of a row that a thread loads one by one have one address
// and constants behind it, where the columns are neighbours in memory: LLVM need not
// search for what 32 addresses have in common, and its search is left out where
// other addresses are few.

!acc = !tile_gpu.frag<64x128xf32, acc>
!marks = !tile_gpu.vec<64xi1, row>
!values = memref<?x128xbf16, strided<[?, 1]>>
!rows = memref<?x128xf32, strided<[?, 1]>>

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @rows
// CHECK-DAG: %[[NEXT:.*]] = llvm.mlir.constant(1 : i64) : i64
// CHECK-DAG: %[[LAST:.*]] = llvm.mlir.constant(121 : i64) : i64
// CHECK: %[[FIRST:.*]] = llvm.getelementptr %{{[0-9]+}}[%{{[0-9]+}}]
// CHECK-NEXT: llvm.load %[[FIRST]]
// CHECK: %[[AT:.*]] = llvm.getelementptr %[[FIRST]][%[[NEXT]]]
// CHECK-NEXT: llvm.load %[[AT]]
// CHECK-COUNT-29: llvm.getelementptr %[[FIRST]][
// CHECK: llvm.getelementptr %[[FIRST]][%[[LAST]]]
// CHECK-NOT: llvm.getelementptr %[[FIRST]]
// CHECK: llvm.return
tile_gpu.kernel private @rows(%m: !values, %n: !rows, %key: index) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %true = arith.constant true
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %f = tile_gpu.frag.fill %zero : f32 -> !acc
    %marks = tile_gpu.frag.fill %true : i1 -> !marks
    %any = tile_gpu.any %marks by_rows : !marks
    // What few rows take reads by addresses of its own.
    %g = scf.if %any -> (!acc) {
      %h = tile_gpu.map ins(%f : !acc) {
      ^bb0(%r: i32, %c: i32, %x: f32):
        %col = arith.index_cast %c : i32 to index
        %y = memref.load %m[%key, %col] : !values
        %wide = arith.extf %y : bf16 to f32
        %z = arith.addf %x, %wide : f32
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
