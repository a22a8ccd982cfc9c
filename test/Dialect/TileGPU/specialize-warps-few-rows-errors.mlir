// RUN: attn-opt %s --verify-diagnostics --tile-gpu-specialize-warps

// 32 keys are no rows of a warpgroup's product.
!in = memref<?x?x576xbf16, strided<[?, ?, 1]>>
!out = memref<?x?x512xf32, strided<[?, ?, 1]>>
module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected a kernel for a warpgroup, of whose products rows are columns, as rows = 16 with block_v = 512 asks for, but got one for warps; rows = 64 asks for warpgroups that share channels}}
tile.kernel private @kernel(%Q: !in, %K: !in, %O: !out, %n: index, %block: index)
    attributes {schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 32,
                                          overlap = none, block_v = 512>} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %ninf = arith.constant 0xFF800000 : f32
  %c16 = arith.constant 16 : index
  %row = arith.muli %block, %c16 : index
  %init = tile.fill %zero : f32 -> !tile.tile<16x512xf32>
  %m0 = tile.fill %ninf : f32 -> !tile.tile<16x1xf32>
  %q = tile.load %Q[%c0, %row, %c0] : !in -> !tile.tile<16x576xbf16>
  %r:2 = scf.for %j = %c0 to %n step %c32 iter_args(%m = %m0, %acc = %init)
      -> (!tile.tile<16x1xf32>, !tile.tile<16x512xf32>) {
    %k = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<32x576xbf16>
    %v = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<32x512xbf16>
    %next:2 = tile.rows 16 ins(%q : !tile.tile<16x576xbf16>)
        outs(%m, %acc : !tile.tile<16x1xf32>, !tile.tile<16x512xf32>) {
    ^bb0(%first: index, %mine: !tile.tile<16x576xbf16>, %before: !tile.tile<16x1xf32>,
         %old: !tile.tile<16x512xf32>):
      %s = tile.dot %mine, %k transpose_rhs : !tile.tile<16x576xbf16>, !tile.tile<32x576xbf16> -> !tile.tile<16x32xf32>
      %t = tile.reduce ins(%s : !tile.tile<16x32xf32>) identity(%ninf : f32) {
      ^bb1(%a: f32, %b: f32):
        %x = arith.maximumf %a, %b : f32
        tile.yield %x : f32
      } -> !tile.tile<16x1xf32>
      %most = tile.map ins(%before, %t : !tile.tile<16x1xf32>, !tile.tile<16x1xf32>) {
      ^bb1(%i: i32, %c: i32, %a: f32, %b: f32):
        %x = arith.maximumf %a, %b : f32
        tile.yield %x : f32
      } -> !tile.tile<16x1xf32>
      %p = tile.map ins(%s, %most : !tile.tile<16x32xf32>, !tile.tile<16x1xf32>) {
      ^bb1(%i: i32, %c: i32, %a: f32, %b: f32):
        %x = arith.subf %a, %b : f32
        %y = arith.truncf %x : f32 to bf16
        tile.yield %y : bf16
      } -> !tile.tile<16x32xbf16>
      %sum = tile.dot %p, %v acc %old : !tile.tile<16x32xbf16>, !tile.tile<32x512xbf16> -> !tile.tile<16x512xf32>
      tile.yield %most, %sum : !tile.tile<16x1xf32>, !tile.tile<16x512xf32>
    } -> !tile.tile<16x1xf32>, !tile.tile<16x512xf32>
    scf.yield %next#0, %next#1 : !tile.tile<16x1xf32>, !tile.tile<16x512xf32>
  }
  tile.store %r#1, %O[%c0, %row, %c0] : !tile.tile<16x512xf32>, !out
  tile.return
}
}
