// RUN: attn-opt %s --split-input-file --tile-gpu-read-ahead | FileCheck %s
// RUN: attn-opt %s --split-input-file --tile-gpu-read-ahead --tile-gpu-read-ahead | FileCheck %s

!acc = !tile_gpu.frag<64x64xf32, acc>
!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!k = !tile_gpu.smem<64x64xbf16 swizzle 128>
!words = !tile_gpu.vec<64xi32, row>

// What a list's number says is read for the next step behind the map that takes
// it, and before the loop for the first.
// CHECK-LABEL: kernel @listed
// CHECK: %[[FIRST:.*]] = tile_gpu.map {
// CHECK: memref.load %[[BITS:.*]][%[[N0:.*]], %{{.*}}]
// CHECK: scf.for {{.*}} iter_args(%[[N:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %[[W:.*]] = %[[FIRST]])
// CHECK: %[[NEXT:.*]] = memref.load %{{.*}}[%{{.*}}] : memref<?xi32>
// CHECK-NOT: tile_gpu.map {
// CHECK: tile_gpu.mma.wait
// CHECK: tile_gpu.map ins(%{{.*}}, %[[W]] :
// CHECK: %[[AT:.*]] = arith.index_cast %[[NEXT]]
// CHECK: %[[AHEAD:.*]] = tile_gpu.map {
// CHECK: memref.load %[[BITS]][%[[AT]], %{{.*}}]
// CHECK: scf.yield %[[NEXT]], %{{.*}}, %[[AHEAD]]
tile_gpu.kernel @listed(%list: memref<?xi32>, %bits: memref<?x64xi32>, %out: memref<?x?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c0_i32 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %q = tile_gpu.smem.alloc : !q
  %k = tile_gpu.smem.alloc : !k
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %f = tile_gpu.frag.fill %zero : f32 -> !acc
    %t = tile_gpu.smem.transpose %k : !k
    %t0 = memref.load %list[%c0] : memref<?xi32>
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%number = %t0, %old = %f) -> (i32, !acc) {
      %next = memref.load %list[%i] : memref<?xi32>
      %at = arith.index_cast %number : i32 to index
      %words = tile_gpu.map {
      ^bb1(%row: i32, %col: i32):
        %row_index = arith.index_cast %row : i32 to index
        %word = memref.load %bits[%at, %row_index] : memref<?x64xi32>
        tile_gpu.yield %word : i32
      } -> !words
      %token = tile_gpu.mma.issue %q, %t : !q, !tile_gpu.smem<64x64xbf16 swizzle 128 transposed> -> !tile_gpu.token<64x64xf32>
      %s = tile_gpu.mma.wait %token pending(0) : !tile_gpu.token<64x64xf32>
      %p = tile_gpu.map ins(%s, %words : !acc, !words) {
      ^bb1(%row: i32, %col: i32, %x: f32, %word: i32):
        %live = arith.cmpi ne, %word, %c0_i32 : i32
        %y = arith.select %live, %x, %zero : f32
        tile_gpu.yield %y : f32
      } -> !acc
      scf.yield %next, %p : i32, !acc
    }
    tile_gpu.global.store %r#1, %out[%c0_i32, %c0_i32] : !acc, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!acc = !tile_gpu.frag<64x64xf32, acc>
!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!k = !tile_gpu.smem<64x64xbf16 swizzle 128>
!words = !tile_gpu.vec<64xi32, row>

// The counter of the loop says nothing of the turn behind the last one.
// CHECK-LABEL: kernel @counted
// CHECK: scf.for {{.*}} iter_args(%{{[^,]*}} = %{{[^,]*}}) ->
// CHECK: tile_gpu.map {
tile_gpu.kernel @counted(%bits: memref<?x64xi32>, %out: memref<?x?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c0_i32 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %q = tile_gpu.smem.alloc : !q
  %k = tile_gpu.smem.alloc : !k
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %f = tile_gpu.frag.fill %zero : f32 -> !acc
    %t = tile_gpu.smem.transpose %k : !k
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%old = %f) -> (!acc) {
      %words = tile_gpu.map {
      ^bb1(%row: i32, %col: i32):
        %row_index = arith.index_cast %row : i32 to index
        %word = memref.load %bits[%i, %row_index] : memref<?x64xi32>
        tile_gpu.yield %word : i32
      } -> !words
      %token = tile_gpu.mma.issue %q, %t : !q, !tile_gpu.smem<64x64xbf16 swizzle 128 transposed> -> !tile_gpu.token<64x64xf32>
      %s = tile_gpu.mma.wait %token pending(0) : !tile_gpu.token<64x64xf32>
      %p = tile_gpu.map ins(%s, %words : !acc, !words) {
      ^bb1(%row: i32, %col: i32, %x: f32, %word: i32):
        %live = arith.cmpi ne, %word, %c0_i32 : i32
        %y = arith.select %live, %x, %zero : f32
        tile_gpu.yield %y : f32
      } -> !acc
      scf.yield %p : !acc
    }
    tile_gpu.global.store %r, %out[%c0_i32, %c0_i32] : !acc, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!tile = !tile_gpu.smem<32x64xbf16 swizzle 128>
!vec = !tile_gpu.vec<16xf32, row, warp>

// What rows have is asked for before the first tile is waited for: not where a
// sum of the tiles says where, nor what the kernel writes.
// CHECK-LABEL: kernel @rows
// CHECK: tile_gpu.ring.commit
// CHECK-NEXT: %[[EARLY:.*]] = tile_gpu.map {
// CHECK-NEXT: ^bb0(%[[ROW:.*]]: i32, %{{.*}}: i32):
// CHECK-NEXT: %[[AT:.*]] = arith.index_cast %[[ROW]]
// CHECK-NEXT: memref.load %arg0[%[[AT]]]
// CHECK-NEXT: tile_gpu.yield
// CHECK-NEXT: } -> !tile_gpu.vec<16xf32, row, warp>
// CHECK-NEXT: tile_gpu.ring.wait
// CHECK: scf.for
// CHECK: tile_gpu.map ins(%{{.*}}, %[[EARLY]] :
// CHECK-NOT: memref.load
// CHECK: tile_gpu.map ins
// CHECK: memref.load %arg1
// CHECK: memref.load %arg0
tile_gpu.kernel @rows(%m: memref<?xf32>, %o: memref<?xf32>, %x: memref<?x?x?x64xbf16>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %ring = tile_gpu.ring.create cp_group producers(2) : <1, 32x64xbf16 swizzle 128>
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(2) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      %slot = tile_gpu.ring.acquire %ring[%c0] : <1, 32x64xbf16 swizzle 128>
      tile_gpu.ring.load %x[%batch, %head, %tile, %c0], %slot rows(%n) : memref<?x?x?x64xbf16>, !tile
      tile_gpu.ring.commit %ring[%c0] : <1, 32x64xbf16 swizzle 128>
      %in = tile_gpu.ring.wait %ring[%c0] : <1, 32x64xbf16 swizzle 128>
      %start = tile_gpu.frag.fill %zero : f32 -> !vec
      %sum = scf.for %i = %c0 to %n step %c1 iter_args(%old = %start) -> (!vec) : i32 {
        %new = tile_gpu.map ins(%old : !vec) {
        ^bb1(%row: i32, %col: i32, %v: f32):
          %z = arith.addf %v, %v : f32
          tile_gpu.yield %z : f32
        } -> !vec
        scf.yield %new : !vec
      }
      %y = tile_gpu.map ins(%sum : !vec) {
      ^bb1(%row: i32, %col: i32, %v: f32):
        %at = arith.index_cast %row : i32 to index
        %w = memref.load %m[%at] : memref<?xf32>
        %z = arith.addf %v, %w : f32
        tile_gpu.yield %z : f32
      } -> !vec
      tile_gpu.global.store %y, %o[%c0] rows(%n) : !vec, memref<?xf32>
      %late = tile_gpu.map ins(%y : !vec) {
      ^bb1(%row: i32, %col: i32, %v: f32):
        %k = arith.fptosi %v : f32 to i32
        %at = arith.index_cast %k : i32 to index
        %w = memref.load %o[%at] : memref<?xf32>
        %u = memref.load %m[%at] : memref<?xf32>
        %z = arith.addf %u, %w : f32
        tile_gpu.yield %z : f32
      } -> !vec
      tile_gpu.global.store %late, %o[%c0] rows(%n) : !vec, memref<?xf32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!keys = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!ids = !tile_gpu.vec<64xi32, col>
!rows = !tile_gpu.vec<64xi32, row>

// A tile of keys is waited for behind the ids of its keys, and not behind what
// rows alone have, nor behind what the kernel writes.
// CHECK-LABEL: kernel @ids
// CHECK: tile_gpu.map {
// CHECK: memref.load %arg0
// CHECK: -> !tile_gpu.vec<64xi32, col>
// CHECK-NEXT: tile_gpu.ring.wait %[[RING:.*]][%c0_i32]
// CHECK-NEXT: tile_gpu.map {
// CHECK: -> !tile_gpu.vec<64xi32, row>
// CHECK: tile_gpu.mma.issue
// CHECK: tile_gpu.ring.wait %[[RING]][%c1_i32]
// CHECK-NEXT: tile_gpu.map {
// CHECK: memref.load %arg1
tile_gpu.kernel @ids(%of_keys: memref<?xi32>, %written: memref<?xi32>, %out: memref<?x?xf32>) {
  %first = arith.constant 0 : index
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %q = tile_gpu.smem.alloc : !q
  %ring = tile_gpu.ring.create tma consumers(4) : !keys
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %k = tile_gpu.ring.wait %ring[%c0] : !keys
    %of_key = tile_gpu.map {
    ^bb1(%row: i32, %col: i32):
      %at = arith.index_cast %col : i32 to index
      %id = memref.load %of_keys[%at] : memref<?xi32>
      tile_gpu.yield %id : i32
    } -> !ids
    %of_row = tile_gpu.map {
    ^bb1(%row: i32, %col: i32):
      %at = arith.index_cast %row : i32 to index
      %id = memref.load %of_keys[%at] : memref<?xi32>
      tile_gpu.yield %id : i32
    } -> !rows
    %t = tile_gpu.smem.transpose %k : !q
    %token = tile_gpu.mma.issue %q, %t : !q, !tile_gpu.smem<64x64xbf16 swizzle 128 transposed> -> !tile_gpu.token<64x64xf32>
    %s = tile_gpu.mma.wait %token pending(0) : !tile_gpu.token<64x64xf32>
    tile_gpu.ring.release %ring[%c0] : !keys
    %p = tile_gpu.map ins(%s, %of_row, %of_key : !tile_gpu.frag<64x64xf32, acc>, !rows, !ids) {
    ^bb1(%row: i32, %col: i32, %x: f32, %a: i32, %b: i32):
      %live = arith.cmpi eq, %a, %b : i32
      %y = arith.select %live, %x, %zero : f32
      tile_gpu.yield %y : f32
    } -> !tile_gpu.frag<64x64xf32, acc>
    memref.store %c1, %written[%first] : memref<?xi32>
    %k1 = tile_gpu.ring.wait %ring[%c1] : !keys
    %late = tile_gpu.map {
    ^bb1(%row: i32, %col: i32):
      %at = arith.index_cast %col : i32 to index
      %id = memref.load %written[%at] : memref<?xi32>
      tile_gpu.yield %id : i32
    } -> !ids
    %t1 = tile_gpu.smem.transpose %k1 : !q
    %token1 = tile_gpu.mma.issue %q, %t1 acc(%p) : !q, !tile_gpu.smem<64x64xbf16 swizzle 128 transposed> -> !tile_gpu.token<64x64xf32>
    %s1 = tile_gpu.mma.wait %token1 pending(0) : !tile_gpu.token<64x64xf32>
    tile_gpu.ring.release %ring[%c1] : !keys
    %r = tile_gpu.map ins(%s1, %late : !tile_gpu.frag<64x64xf32, acc>, !ids) {
    ^bb1(%row: i32, %col: i32, %x: f32, %b: i32):
      %live = arith.cmpi eq, %b, %c0 : i32
      %y = arith.select %live, %x, %zero : f32
      tile_gpu.yield %y : f32
    } -> !tile_gpu.frag<64x64xf32, acc>
    tile_gpu.global.store %r, %out[%c0, %c0] : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
