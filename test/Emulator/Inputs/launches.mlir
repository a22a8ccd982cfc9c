// o = x, then p = x beside it, then q = o once both have ended.
!vec = !tile_gpu.vec<16xf32, row, warp>
module attributes {attn.target = "sm_90a"} {
  func.func @launches(%x: memref<?xf32> {attn.arg = {name = "x", dims = ["n"]}},
                      %o: memref<?xf32> {attn.arg = {name = "o", dims = ["n"], output}},
                      %p: memref<?xf32> {attn.arg = {name = "p", dims = ["n"], output}},
                      %q: memref<?xf32> {attn.arg = {name = "q", dims = ["n"], output}})
      attributes {tile.plan} {
    %c1 = arith.constant 1 : index
    tile_gpu.launch @first grid(%c1) args(%x, %o : memref<?xf32>, memref<?xf32>)
    tile_gpu.launch @second grid(%c1) args(%x, %p : memref<?xf32>, memref<?xf32>) programmatic
    tile_gpu.launch @third grid(%c1) args(%o, %q : memref<?xf32>, memref<?xf32>)
    return
  }
  tile_gpu.kernel private @first(%from: memref<?xf32>, %to: memref<?xf32>) {
    %c0 = arith.constant 0 : i32
    tile_gpu.role "copy" warps(1) {
    ^bb0(%warp: i32):
      tile_gpu.dependents.launch
      %v = tile_gpu.global.load %from[%c0] : memref<?xf32> -> !vec
      tile_gpu.global.store %v, %to[%c0] : !vec, memref<?xf32>
      tile_gpu.yield
    }
    tile_gpu.return
  }
  tile_gpu.kernel private @second(%from: memref<?xf32>, %to: memref<?xf32>) {
    %c0 = arith.constant 0 : i32
    tile_gpu.role "copy" warps(1) {
    ^bb0(%warp: i32):
      tile_gpu.dependents.launch
      %v = tile_gpu.global.load %from[%c0] : memref<?xf32> -> !vec
      tile_gpu.global.store %v, %to[%c0] : !vec, memref<?xf32>
      tile_gpu.yield
    }
    tile_gpu.return
  }
  tile_gpu.kernel private @third(%from: memref<?xf32>, %to: memref<?xf32>) {
    %c0 = arith.constant 0 : i32
    tile_gpu.role "copy" warps(1) {
    ^bb0(%warp: i32):
      tile_gpu.dependencies.wait
      %v = tile_gpu.global.load %from[%c0] : memref<?xf32> -> !vec
      tile_gpu.global.store %v, %to[%c0] : !vec, memref<?xf32>
      tile_gpu.yield
    }
    tile_gpu.return
  }
}
