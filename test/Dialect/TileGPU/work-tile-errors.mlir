// RUN: attn-opt %s --split-input-file --tile-gpu-pipeline-copies --verify-diagnostics

!out = memref<?x?x64xf32, strided<[?, ?, 1]>>
module attributes {attn.target = "sm_80"} {
tile.kernel private @number(%out: !out, %sizes: memref<?xindex>, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %x = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  // expected-error @below {{expected no other use of the block's number in a kernel for GPUs, whose blocks take many}}
  %batch, %head, %tile, %part = tile.work_tile %block in_order batches(%n) heads(%n) tiles(%n) parts(%n)
  tile.store %x, %out[%head, %block, %c0] : !tile.tile<64x64xf32>, !out
  tile.return
}
}

// -----

!out = memref<?x?x64xf32, strided<[?, ?, 1]>>
module attributes {attn.target = "sm_80"} {
tile.kernel private @loaded(%out: !out, %sizes: memref<?xindex>, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %x = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  %some = memref.load %sizes[%n] : memref<?xindex>
  // expected-error @below {{expected sizes computed from the kernel's arguments alone, but got one that takes 'memref.load'}}
  %batch, %head, %tile, %part = tile.work_tile %block in_order batches(%n) heads(%some) tiles(%n) parts(%n)
  tile.store %x, %out[%head, %tile, %c0] : !tile.tile<64x64xf32>, !out
  tile.return
}
}
