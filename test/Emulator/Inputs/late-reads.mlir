// o = x + x, of rows of 64: one warp copies, two others read into registers.
!row = !tile_gpu.smem<1x64xf32>
!ring = !tile_gpu.ring<2, 1x64xf32>
!vec = !tile_gpu.vec<64xf32, col, warp>
module attributes {attn.target = "sm_90a"} {
  func.func @double(%x: memref<?x64xf32> {attn.arg = {name = "x", dims = ["n", "d"]}},
                    %o: memref<?x64xf32> {attn.arg = {name = "o", dims = ["n", "d"], output}})
      attributes {tile.plan} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = memref.dim %x, %c0 : memref<?x64xf32>
    %rows = arith.index_cast %n : index to i32
    tile_gpu.launch @kernel grid(%c1) args(%x, %o, %rows : memref<?x64xf32>, memref<?x64xf32>, i32)
    return
  }
  tile_gpu.kernel private @kernel(%x: memref<?x64xf32>, %o: memref<?x64xf32>, %rows: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %ring = tile_gpu.ring.create tma consumers(1) : !ring
    tile_gpu.role "load" warps(1) {
    ^bb0(%warp: i32):
      scf.for %i = %c0 to %rows step %c1 : i32 {
        %t = tile_gpu.ring.acquire %ring[%i] : !ring
        tile_gpu.ring.load %x[%i, %c0], %t : memref<?x64xf32>, !row
      }
      tile_gpu.yield
    }
    tile_gpu.role "compute" warps(1) {
    ^bb0(%warp: i32):
      scf.for %i = %c0 to %rows step %c1 : i32 {
        %t = tile_gpu.ring.wait %ring[%i] : !ring
        %v = tile_gpu.vec.load %t : !row -> !vec
        %w = tile_gpu.map ins(%v : !vec) {
        ^bb0(%r: i32, %c: i32, %e: f32):
          %s = arith.addf %e, %e : f32
          tile_gpu.yield %s : f32
        } -> !vec
        tile_gpu.ring.release %ring[%i] after(%w : !vec) : !ring
        tile_gpu.global.store %w, %o[%i, %c0] : !vec, memref<?x64xf32>
      }
      tile_gpu.yield
    }
    tile_gpu.return
  }
}
