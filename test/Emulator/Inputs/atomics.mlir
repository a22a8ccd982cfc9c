// Three warps add to the same sums, of which the order decides.
!vec = !tile_gpu.vec<16xf32, row, warp>
module attributes {attn.target = "sm_80"} {
  func.func @sums(%x: memref<?xf32> {attn.arg = {name = "x", dims = ["n"]}},
                  %o: memref<?xf32> {attn.arg = {name = "o", dims = ["n"], output}})
      attributes {tile.plan} {
    %c1 = arith.constant 1 : index
    tile_gpu.reset %o : memref<?xf32>
    tile_gpu.launch @kernel grid(%c1) args(%o : memref<?xf32>)
    return
  }
  tile_gpu.kernel private @kernel(%o: memref<?xf32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %one = arith.constant 1.0 : f32
    %large = arith.constant 1.0e+08 : f32
    %small = arith.constant -1.0e+08 : f32
    tile_gpu.role "add" warps(3) {
    ^bb0(%warp: i32):
      %isFirst = arith.cmpi eq, %warp, %c0 : i32
      %isSecond = arith.cmpi eq, %warp, %c1 : i32
      %rest = arith.select %isSecond, %small, %one : f32
      %value = arith.select %isFirst, %large, %rest : f32
      %v = tile_gpu.frag.fill %value : f32 -> !vec
      tile_gpu.global.reduce %v, %o[%c0] : !vec, memref<?xf32>
      tile_gpu.yield
    }
    tile_gpu.return
  }
}
