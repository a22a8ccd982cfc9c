// RUN: attn-opt %s --split-input-file --verify-diagnostics --tile-gpu-specialize-warps

// Each of two warpgroups would take its channels for the first ones.
!in = memref<?x?x576xf16, strided<[?, ?, 1]>>
!out = memref<?x?x512xf32, strided<[?, ?, 1]>>
!row = memref<?x?xf32, strided<[?, 1]>>
module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected a kernel for warpgroups, 2 of which share block_v = 512 channels as the schedule says, but got one for warps; block_v = 256 asks for no sharing}}
tile.kernel private @kernel(%Q: !in, %K: !in, %O: !out, %L: !row, %n: index,
    %block: index) attributes {schedule = #attn.schedule<block_q = 64, rows = 64,
    block_k = 64, overlap = none, block_v = 512>} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %row = arith.muli %block, %c64 : index
  %init = tile.fill %zero : f32 -> !tile.tile<64x512xf32>
  %rows = tile.fill %zero : f32 -> !tile.tile<64x1xf32>
  %q = tile.load %Q[%c0, %row, %c0] : !in -> !tile.tile<64x576xf16>
  %o = scf.for %j = %c0 to %n step %c64 iter_args(%acc = %init) -> (!tile.tile<64x512xf32>) {
    %k = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x576xf16>
    %v = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x512xf16>
    %next = tile.rows 64 ins(%q : !tile.tile<64x576xf16>) outs(%acc : !tile.tile<64x512xf32>) {
    ^bb0(%first: index, %mine: !tile.tile<64x576xf16>, %old: !tile.tile<64x512xf32>):
      %s = tile.dot %mine, %k transpose_rhs : !tile.tile<64x576xf16>, !tile.tile<64x576xf16> -> !tile.tile<64x64xf32>
      %p = tile.map ins(%s : !tile.tile<64x64xf32>) {
      ^bb1(%r: i32, %c: i32, %x: f32):
        %y = arith.truncf %x : f32 to f16
        tile.yield %y : f16
      } -> !tile.tile<64x64xf16>
      %sum = tile.dot %p, %v acc %old : !tile.tile<64x64xf16>, !tile.tile<64x512xf16> -> !tile.tile<64x512xf32>
      // expected-note @below {{none of them can do its part of this}}
      %told = tile.map ins(%sum : !tile.tile<64x512xf32>) {
      ^bb1(%r: i32, %c: i32, %x: f32):
        %column = arith.sitofp %c : i32 to f32
        %y = arith.addf %x, %column : f32
        tile.yield %y : f32
      } -> !tile.tile<64x512xf32>
      tile.yield %told : !tile.tile<64x512xf32>
    } -> !tile.tile<64x512xf32>
    scf.yield %next : !tile.tile<64x512xf32>
  }
  tile.store %o, %O[%c0, %row, %c0] : !tile.tile<64x512xf32>, !out
  tile.store vector %rows, %L[%c0, %row] : !tile.tile<64x1xf32>, !row
  tile.return
}
func.func @f(%Q: !in, %K: !in, %O: !out, %L: !row, %n: index) attributes {tile.plan} {
  tile.launch @kernel grid(%n) args(%Q, %K, %O, %L, %n : !in, !in, !out, !row, index)
  return
}
}
