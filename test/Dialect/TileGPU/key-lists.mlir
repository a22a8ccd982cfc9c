// RUN: attn-opt %s --tile-gpu-specialize-warps --tile-gpu-pipeline-copies --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --tile-gpu-specialize-warps --tile-gpu-pipeline-copies --canonicalize --cse --convert-tile-to-tile-gpu --tile-gpu-verify-async --tile-gpu-allocate-shared --tile-gpu-verify-budget -o /dev/null
// RUN: attn-opt %s %tidy --tile-gpu-specialize-warps %tidy --tile-gpu-pipeline-copies %tidy | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-specialize-warps %tidy --tile-gpu-pipeline-copies %tidy --convert-tile-to-tile-gpu %tidy %verify_kernels --tile-gpu-allocate-shared --tile-gpu-verify-budget -o /dev/null

// Listed key tiles: each warpgroup clears the rows of values that words say are
// dead, where there are any; the producer reads which tile is next.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel private @reduce(
// CHECK: tile_gpu.role "load"
// CHECK: scf.for
// CHECK: memref.load {{.*}} : memref<?xi32>
// CHECK: tile_gpu.ring.load
// CHECK-NOT: tile.
// CHECK: tile_gpu.role "compute" warpgroups(2)
// CHECK: scf.for
// CHECK: %[[A:.*]] = memref.load
// CHECK: %[[B:.*]] = memref.load
// CHECK: tile_gpu.ring.wait
// CHECK: %[[V:.*]] = tile_gpu.ring.wait
// CHECK: %[[ALL:.*]] = arith.andi %[[A]], %[[B]]
// CHECK: %[[SOME:.*]] = arith.cmpi ne, %[[ALL]], %c-1_i32
// CHECK: scf.if %[[SOME]]
// CHECK: tile_gpu.smem.clear_rows %[[V]] bits(%[[A]], %[[B]])
// CHECK-NOT: tile.truths
tile.kernel private @reduce(%Q: memref<?x64xf16, strided<[?, 1]>>, %K: memref<?x64xf16, strided<[?, 1]>>,
    %V: memref<?x64xf16, strided<[?, 1]>>, %O: memref<?x64xf16, strided<[?, 1]>>,
    %list: memref<?xi32>, %words: memref<?x2xi32>, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %i0 = arith.muli %block, %c128 : index
  %q = tile.load %Q[%i0, %c0] : memref<?x64xf16, strided<[?, 1]>> -> !tile.tile<128x64xf16>
  %a0 = tile.fill %zero : f32 -> !tile.tile<128x64xf32>
  %a = scf.for %t = %c0 to %n step %c1 iter_args(%acc = %a0) -> (!tile.tile<128x64xf32>) {
    %number = memref.load %list[%t] : memref<?xi32>
    %tile = arith.index_cast %number : i32 to index
    %j = arith.muli %tile, %c64 : index
    %w0 = memref.load %words[%t, %c0] : memref<?x2xi32>
    %w1 = memref.load %words[%t, %c1] : memref<?x2xi32>
    %live = tile.truths %w0, %w1 : !tile.tile<1x64xi1>
    %k = tile.load %K[%j, %c0] : memref<?x64xf16, strided<[?, 1]>> -> !tile.tile<64x64xf16>
    %v = tile.load %V[%j, %c0] live %live : !tile.tile<1x64xi1> : memref<?x64xf16, strided<[?, 1]>> -> !tile.tile<64x64xf16>
    %next = tile.rows 64 ins(%q : !tile.tile<128x64xf16>) outs(%acc : !tile.tile<128x64xf32>) {
    ^bb0(%row: index, %qr: !tile.tile<64x64xf16>, %ar: !tile.tile<64x64xf32>):
      %s = tile.dot %qr, %k transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
      %p = tile.map ins(%s : !tile.tile<64x64xf32>) {
      ^bb0(%r: i32, %c: i32, %x: f32):
        %y = arith.truncf %x : f32 to f16
        tile.yield %y : f16
      } -> !tile.tile<64x64xf16>
      %o = tile.dot %p, %v acc %ar : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
      tile.yield %o : !tile.tile<64x64xf32>
    } -> !tile.tile<128x64xf32>
    scf.yield %next : !tile.tile<128x64xf32>
  }
  tile.store %a, %O[%i0, %c0] : !tile.tile<128x64xf32>, memref<?x64xf16, strided<[?, 1]>>
  tile.return
}

// The kernel that makes such words: each warp's rows set bits of a tile with a
// column for each word, and all warps read all of them.
// CHECK-LABEL: kernel private @words(
// CHECK: %[[S:.*]] = tile_gpu.smem.alloc : <4x8xi32>
// CHECK: tile_gpu.role "compute" warps(4) {
// CHECK-NEXT: ^bb0(%[[W:.*]]: i32):
// CHECK: %[[T:.*]] = tile.map ins(%{{.*}} : !tile.tile<16x1xi1>)
// CHECK: arith.shrui
// CHECK: arith.shli
// CHECK: } -> !tile.tile<16x8xi32>
// CHECK: tile.reduce rows ins(%[[T]]
// CHECK: arith.ori
// CHECK: tile_gpu.barrier.sync
// CHECK: tile_gpu.vec.store %{{.*}}, %[[S]][%[[W]]]
// CHECK: tile_gpu.barrier.sync
// CHECK-COUNT-4: tile_gpu.vec.load %[[S]]
// CHECK: %[[E:.*]]:8 = tile_gpu.vec.elements
// CHECK: memref.store %[[E]]#0
// CHECK: memref.store %[[E]]#1
tile.kernel private @words(%ids: memref<?xi32>, %words: memref<?x2xi32>, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : i32
  %first = arith.index_cast %block : index to i32
  %base = arith.muli %first, %c64 : i32
  %least = arith.constant 2147483647 : i32
  %x = tile.map {
  ^bb0(%r: i32, %c: i32):
    %p = arith.addi %base, %r : i32
    %q = arith.addi %p, %c : i32
    %at = arith.index_cast %q : i32 to index
    %id = memref.load %ids[%at] : memref<?xi32>
    tile.yield %id : i32
  } -> !tile.tile<64x16xi32>
  %m = tile.reduce ins(%x : !tile.tile<64x16xi32>) identity(%least : i32) {
  ^bb0(%a: i32, %b: i32):
    %s = arith.minsi %a, %b : i32
    tile.yield %s : i32
  } -> !tile.tile<64x1xi32>
  %t = tile.map ins(%m : !tile.tile<64x1xi32>) {
  ^bb0(%r: i32, %c: i32, %a: i32):
    %s = arith.cmpi sgt, %a, %base : i32
    tile.yield %s : i1
  } -> !tile.tile<64x1xi1>
  %w:2 = tile.bits %t : !tile.tile<64x1xi1>
  memref.store %w#0, %words[%block, %c0] : memref<?x2xi32>
  memref.store %w#1, %words[%block, %c1] : memref<?x2xi32>
  tile.return
}

// Elements as bits: each warp writes those of its own rows.
// CHECK-LABEL: tile_gpu.kernel private @elements(
// CHECK-SAME: occupancy = 3
// CHECK: tile_gpu.role "compute" warps(4) {
// CHECK-NEXT: ^bb0(%[[W:.*]]: i32):
// CHECK: scf.for
// CHECK: %[[R:.*]] = arith.muli %[[W]], %c16
// CHECK: %[[X:.*]] = tile.map {
// CHECK: } -> !tile.tile<16x64xi1>
// CHECK: %[[ROW:.*]] = arith.index_cast %[[R]]
// CHECK: tile.store_bits %[[X]], %{{.*}}[%{{.*}}] row(%[[ROW]]) column(
tile.kernel private @elements(%ids: memref<?xi32>, %bits: memref<?x128x2xi32>, %block: index)
    attributes {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 128, occupancy = 3>} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  scf.for %first = %c0 to %c128 step %c64 {
    %x = tile.map {
    ^bb0(%r: i32, %c: i32):
      %at = arith.index_cast %r : i32 to index
      %id = memref.load %ids[%at] : memref<?xi32>
      %s = arith.cmpi sgt, %id, %c : i32
      tile.yield %s : i1
    } -> !tile.tile<64x64xi1>
    tile.store_bits %x, %bits[%block] row(%c0) column(%first) : !tile.tile<64x64xi1>, memref<?x128x2xi32>
  }
  tile.return
}

func.func @plan(%Q: memref<?x64xf16, strided<[?, 1]>>, %K: memref<?x64xf16, strided<[?, 1]>>,
    %V: memref<?x64xf16, strided<[?, 1]>>, %O: memref<?x64xf16, strided<[?, 1]>>,
    %list: memref<?xi32>, %ids: memref<?xi32>, %words: memref<?x2xi32>,
    %bits: memref<?x128x2xi32>, %n: index) attributes {tile.plan} {
  tile.launch @elements grid(%n) args(%ids, %bits : memref<?xi32>, memref<?x128x2xi32>)
  tile.launch @words grid(%n) args(%ids, %words : memref<?xi32>, memref<?x2xi32>)
  tile.launch @reduce grid(%n) args(%Q, %K, %V, %O, %list, %words, %n : memref<?x64xf16, strided<[?, 1]>>, memref<?x64xf16, strided<[?, 1]>>, memref<?x64xf16, strided<[?, 1]>>, memref<?x64xf16, strided<[?, 1]>>, memref<?xi32>, memref<?x2xi32>, index)
  return
}
}
