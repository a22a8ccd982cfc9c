// o = 1: after a barrier one warp writes a row of shared memory, after another
// one the other warp reads it.
!vec = !tile_gpu.vec<64xf32, col, warp>
!row = !tile_gpu.smem<1x64xf32>
module attributes {attn.target = "sm_80"} {
  func.func @phases(%x: memref<?x64xf32> {attn.arg = {name = "x", dims = ["n", "d"]}},
                    %o: memref<?x64xf32> {attn.arg = {name = "o", dims = ["n", "d"], output}})
      attributes {tile.plan} {
    %c1 = arith.constant 1 : index
    tile_gpu.launch @kernel grid(%c1) args(%o : memref<?x64xf32>)
    return
  }
  tile_gpu.kernel private @kernel(%o: memref<?x64xf32>) {
    %c0 = arith.constant 0 : i32
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %t = tile_gpu.smem.alloc : !row
    %both = tile_gpu.barrier.create warps(2)
    tile_gpu.role "reads" warps(1) {
    ^bb0(%warp: i32):
      tile_gpu.barrier.sync %both
      tile_gpu.barrier.sync %both
      %v = tile_gpu.vec.load %t[%c0] : !row -> !vec
      tile_gpu.global.store %v, %o[%c0, %c0] : !vec, memref<?x64xf32>
      tile_gpu.yield
    }
    tile_gpu.role "writes" warps(1) {
    ^bb0(%warp: i32):
      tile_gpu.barrier.sync %both
      %ones = tile_gpu.frag.fill %one : f32 -> !vec
      tile_gpu.vec.store %ones, %t[%c0] : !vec, !row
      tile_gpu.barrier.sync %both
      tile_gpu.yield
    }
    tile_gpu.return
  }
}
