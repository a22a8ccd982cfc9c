// One warp stores 16 rows of 64 floats to a tile, then reads two columns of it:
// tests count what the banks of shared memory take for that.
!tile = !tile_gpu.smem<16x64xf32>
!frag = !tile_gpu.frag<16x64xf32, acc, warp>
!vec = !tile_gpu.vec<16xf32, row, warp>
module attributes {attn.target = "sm_90a"} {
  func.func @conflicts(%x: memref<?x64xf32> {attn.arg = {name = "x", dims = ["n", "d"]}},
                       %o: memref<?xf32> {attn.arg = {name = "o", dims = ["n"], output}})
      attributes {tile.plan} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = memref.dim %x, %c0 : memref<?x64xf32>
    %rows = arith.index_cast %n : index to i32
    tile_gpu.launch @kernel grid(%c1) args(%x, %o, %rows : memref<?x64xf32>, memref<?xf32>, i32)
    return
  }
  tile_gpu.kernel private @kernel(%x: memref<?x64xf32>, %o: memref<?xf32>, %rows: i32) {
    %c0 = arith.constant 0 : i32
    %c5 = arith.constant 5 : i32
    %t = tile_gpu.smem.alloc : !tile
    %all = tile_gpu.barrier.create warps(1)
    tile_gpu.role "compute" warps(1) {
    ^bb0(%warp: i32):
      %f = tile_gpu.global.load %x[%c0, %c0] rows(%rows) : memref<?x64xf32> -> !frag
      tile_gpu.frag.store %f, %t : !frag, !tile
      tile_gpu.barrier.sync %all
      %a = tile_gpu.vec.load %t[%c0] : !tile -> !vec
      %b = tile_gpu.vec.load %t[%c5] : !tile -> !vec
      %s = tile_gpu.map ins(%a, %b : !vec, !vec) {
      ^bb0(%r: i32, %c: i32, %y: f32, %z: f32):
        %e = math.exp2 %y : f32
        %w = math.fma %e, %z, %z : f32
        tile_gpu.yield %w : f32
      } -> !vec
      tile_gpu.global.store %s, %o[%c0] rows(%rows) : !vec, memref<?xf32>
      tile_gpu.yield
    }
    tile_gpu.return
  }
}
