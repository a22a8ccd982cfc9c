// RUN: attn-opt %s --tile-gpu-specialize-warps=stages=2 --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-specialize-warps=stages=2 %tidy %verify_kernels | FileCheck %s

// Two warpgroups share the channels of the sums. A tile of 128 keys is two slots, of
// which each member computes the weights of one: they lie in the columns of its keys
// that no value has. Each member's values have a ring of their own.

!in = memref<?x?x576xbf16, strided<[?, ?, 1]>>
!out = memref<?x?x512xf32, strided<[?, ?, 1]>>
!rows = memref<?x?x1xf32, strided<[?, ?, 1]>>
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: tile_gpu.kernel private @kernel(
// CHECK: %[[A:.*]] = tile_gpu.ring.create tma consumers(8) : <2, 64x256xbf16 swizzle 128>
// CHECK: %[[B:.*]] = tile_gpu.ring.create tma consumers(8) : <2, 64x320xbf16 swizzle 128>
// CHECK: %[[MAX:.*]] = tile_gpu.smem.alloc : <64x2xf32>
// CHECK: %[[FACTOR:.*]] = tile_gpu.smem.alloc : <64x2xf32>
// CHECK: %[[SUM:.*]] = tile_gpu.smem.alloc : <64x2xf32>
// CHECK: %[[OWN:.*]] = tile_gpu.barrier.create warps(4)
// CHECK: %[[BOTH:.*]] = tile_gpu.barrier.create warps(8)
// CHECK: tile_gpu.role "load"
// CHECK: scf.for
// CHECK: %[[USE:.*]] = arith.muli %{{.*}}, %c2
// CHECK: tile_gpu.ring.acquire %[[A]][%[[USE]]]
// CHECK: tile_gpu.ring.acquire %[[B]][%[[USE]]]
// CHECK: %[[NEXT:.*]] = arith.addi %[[USE]], %c1
// CHECK: tile_gpu.ring.acquire %[[A]][%[[NEXT]]]
// CHECK: tile_gpu.ring.acquire %[[B]][%[[NEXT]]]
// CHECK: tile_gpu.role "compute" warpgroups(2)
// CHECK: ^bb0(%[[WG:.*]]: i32):
// The first slot of an item finds statistics of none, and a factor of 1.
// CHECK: scf.if
// CHECK: tile_gpu.vec.store %{{.*}}, %[[MAX]][%c1
// CHECK: tile_gpu.vec.store %{{.*}}, %[[FACTOR]][%c1
// CHECK: tile_gpu.barrier.sync %[[BOTH]] threads_only
// CHECK: scf.for
// CHECK: scf.if
// The first member: scores, and statistics from those that the other has left.
// CHECK: tile_gpu.ring.wait %[[A]]
// CHECK: tile.dot {{.*}} transpose_rhs : {{.*}}<64x256xbf16>{{.*}} -> !tile.tile<64x64xf32>
// CHECK: tile_gpu.ring.wait %[[B]]
// CHECK: tile.dot {{.*}} transpose_rhs : {{.*}}<64x320xbf16>{{.*}} -> !tile.tile<64x64xf32>
// All of its warps are done with the columns that weights come to.
// CHECK: tile_gpu.barrier.sync %[[OWN]] threads_only
// CHECK: tile_gpu.vec.load %[[MAX]][%c1
// CHECK: tile_gpu.vec.load %[[FACTOR]][%c1
// CHECK: tile_gpu.vec.store %{{.*}}, %[[MAX]][%c0
// CHECK: tile_gpu.vec.store %{{.*}}, %[[FACTOR]][%c0
// CHECK: tile_gpu.frag.store
// CHECK: tile_gpu.barrier.sync %[[BOTH]]{{$}}
// CHECK: tile_gpu.ring.release %[[B]]
// Sums are scaled where a row of the warp has another factor than 1.
// CHECK: %[[ANY:.*]] = tile.any %{{.*}} by_rows
// CHECK: scf.if %[[ANY]]
// CHECK: tile.dot {{.*}} -> !tile.tile<64x256xf32>
// CHECK: tile_gpu.ring.release %[[A]]
// Its second sum, by the other's weights.
// CHECK: tile_gpu.barrier.sync %[[BOTH]]{{$}}
// CHECK: tile_gpu.vec.load %[[FACTOR]][%c1
// CHECK: tile.dot {{.*}} -> !tile.tile<64x256xf32>
// CHECK: tile_gpu.ring.release %[[A]]
// CHECK: tile_gpu.ring.release %[[B]]
// The second member: scores; what has been the first one's values alone goes back.
// CHECK: } else {
// CHECK: tile.dot {{.*}} transpose_rhs : {{.*}}<64x320xbf16>{{.*}} -> !tile.tile<64x64xf32>
// CHECK: tile_gpu.ring.release %[[A]]
// CHECK: tile_gpu.ring.release %[[A]]
// CHECK: tile_gpu.barrier.sync %[[BOTH]]{{$}}
// CHECK: tile_gpu.vec.load %[[MAX]][%c0
// CHECK: tile_gpu.vec.load %[[FACTOR]][%c0
// Its first sum runs beside its weights.
// CHECK: %[[SUM0:.*]] = tile_gpu.mma.issue
// CHECK: tile_gpu.vec.store %{{.*}}, %[[MAX]][%c1
// CHECK: tile_gpu.vec.store %{{.*}}, %[[FACTOR]][%c1
// CHECK: tile_gpu.frag.store
// CHECK: tile_gpu.barrier.sync %[[BOTH]]{{$}}
// CHECK: tile_gpu.mma.wait %[[SUM0]] pending(0)
// CHECK: tile_gpu.ring.release %[[B]]
// CHECK: tile.dot {{.*}} -> !tile.tile<64x256xf32>
// CHECK: tile_gpu.ring.release %[[B]]
// Behind the last step the statistics are those of the second slot, by whose factor
// the first member's own sums are off.
// CHECK: tile_gpu.vec.load %[[MAX]][%c1
// CHECK: tile_gpu.vec.load %[[FACTOR]][%c1
// CHECK: tile_gpu.vec.store %{{.*}}, %[[SUM]][%[[WG]]]
tile.kernel private @kernel(%Q: !in, %K: !in, %O: !out, %L: !rows, %M: !rows,
                            %n: index, %block: index)
    attributes {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 128,
                                          overlap = none, block_v = 512>} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %ninf = arith.constant 0xFF800000 : f32
  %row = arith.muli %block, %c64 : index
  %init = tile.fill %zero : f32 -> !tile.tile<64x512xf32>
  %l0 = tile.fill %zero : f32 -> !tile.tile<64x1xf32>
  %m0 = tile.fill %ninf : f32 -> !tile.tile<64x1xf32>
  %q = tile.load %Q[%c0, %row, %c0] : !in -> !tile.tile<64x576xbf16>
  %r:3 = scf.for %j = %c0 to %n step %c128 iter_args(%m = %m0, %l = %l0, %acc = %init)
      -> (!tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x512xf32>) {
    %k = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<128x576xbf16>
    %v = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<128x512xbf16>
    %next:3 = tile.rows 64 ins(%q : !tile.tile<64x576xbf16>)
        outs(%m, %l, %acc : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x512xf32>) {
    ^bb0(%first: index, %mine: !tile.tile<64x576xbf16>, %before: !tile.tile<64x1xf32>,
         %sum: !tile.tile<64x1xf32>, %old: !tile.tile<64x512xf32>):
      %s = tile.dot %mine, %k transpose_rhs : !tile.tile<64x576xbf16>, !tile.tile<128x576xbf16> -> !tile.tile<64x128xf32>
      %t = tile.reduce ins(%s : !tile.tile<64x128xf32>) identity(%ninf : f32) {
      ^bb1(%a: f32, %b: f32):
        %x = arith.maximumf %a, %b : f32
        tile.yield %x : f32
      } -> !tile.tile<64x1xf32>
      %most, %factor = tile.map ins(%before, %t : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>) {
      ^bb1(%i: i32, %c: i32, %a: f32, %b: f32):
        %x = arith.maximumf %a, %b : f32
        %y = arith.subf %a, %x : f32
        tile.yield %x, %y : f32, f32
      } -> !tile.tile<64x1xf32>, !tile.tile<64x1xf32>
      %p = tile.map ins(%s, %most : !tile.tile<64x128xf32>, !tile.tile<64x1xf32>) {
      ^bb1(%i: i32, %c: i32, %a: f32, %b: f32):
        %x = arith.subf %a, %b : f32
        tile.yield %x : f32
      } -> !tile.tile<64x128xf32>
      %w = tile.map ins(%p : !tile.tile<64x128xf32>) {
      ^bb1(%i: i32, %c: i32, %a: f32):
        %x = arith.truncf %a : f32 to bf16
        tile.yield %x : bf16
      } -> !tile.tile<64x128xbf16>
      %share = tile.reduce ins(%p : !tile.tile<64x128xf32>) identity(%zero : f32) {
      ^bb1(%a: f32, %b: f32):
        %x = arith.addf %a, %b : f32
        tile.yield %x : f32
      } -> !tile.tile<64x1xf32>
      %o = tile.dot %w, %v acc %old scale %factor : !tile.tile<64x128xbf16>, !tile.tile<128x512xbf16> -> !tile.tile<64x512xf32>
      %more = tile.map ins(%sum, %factor, %share : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x1xf32>) {
      ^bb1(%i: i32, %c: i32, %a: f32, %b: f32, %d: f32):
        %x = math.fma %a, %b, %d : f32
        tile.yield %x : f32
      } -> !tile.tile<64x1xf32>
      tile.yield %most, %more, %o : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x512xf32>
    } -> !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x512xf32>
    scf.yield %next#0, %next#1, %next#2 : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x512xf32>
  }
  tile.store %r#2, %O[%c0, %row, %c0] : !tile.tile<64x512xf32>, !out
  tile.store %r#0, %M[%c0, %row, %c0] : !tile.tile<64x1xf32>, !rows
  tile.store %r#1, %L[%c0, %row, %c0] : !tile.tile<64x1xf32>, !rows
  tile.return
}
}
