// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Kernels, roles, schedules, barriers and the host plan.

func.func @role_outside_kernel() {
  // expected-error @below {{expects parent op 'tile_gpu.kernel'}}
  tile_gpu.role "a" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  return
}

// -----

tile_gpu.kernel @role_registers() {
  // expected-error @below {{expected registers to be a multiple of 8 from 24 on, but got 25}}
  tile_gpu.role "a" warps(1) registers(25) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @role_argument() {
  // expected-error @below {{expected one block argument of type i32, the number of the warp or warpgroup}}
  tile_gpu.role "a" warps(1) {
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

// expected-error @below {{expected a kernel to have no results, but got 1}}
tile_gpu.kernel private @kernel_results() -> i32

// -----

tile_gpu.kernel @scheduler_tickets(%n: i32) {
  // expected-error @below {{expected tickets(...) with a dynamic schedule}}
  %s = tile_gpu.scheduler dynamic in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @skip_grid(%n: i32, %none: i1) {
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    // expected-error @below {{expected a dynamic schedule without clusters, whose items one warp draws for others}}
    tile_gpu.skip %none
    tile_gpu.yield %n, %n : i32, i32
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @draw_paths(%s: !tile_gpu.schedule, %c: i1) {
  // expected-error @below {{expected tile_gpu.draw_next once on every path through the body, or nowhere}}
  tile_gpu.foreach %s {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
    scf.if %c {
      tile_gpu.draw_next
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @draw_often(%s: !tile_gpu.schedule, %n: i32) {
  // expected-error @below {{expected tile_gpu.draw_next once on every path through the body, or nowhere}}
  tile_gpu.foreach %s {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
    scf.for %i = %lo to %hi step %n : i32 {
      tile_gpu.draw_next
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @draw_lead(%s: !tile_gpu.schedule) {
  tile_gpu.foreach %s lead {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
    // expected-error @below {{expected to be in a loop over a schedule whose items another role draws}}
    tile_gpu.draw_next
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @draw_static(%n: i32) {
  %s = tile_gpu.scheduler static in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  tile_gpu.foreach %s {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
    // expected-error @below {{expected a dynamic schedule, whose items are drawn, but got a static one}}
    tile_gpu.draw_next
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @scheduler_more(%n: i32, %x: f64) {
  // expected-error @below {{expected to yield values of i1, i32, i64, index or f32, but got 'f64'}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %y: i32):
    tile_gpu.yield %n, %n, %x : i32, i32, f64
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @foreach_more(%n: i32, %wide: i64) {
  // expected-note @below {{schedule defined here}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %y: i32):
    tile_gpu.yield %n, %n, %wide : i32, i32, i64
  }
  // expected-error @below {{expected 3 block arguments for what the schedule yields, of its types}}
  tile_gpu.foreach %s {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32, %lo: i32, %hi: i32, %more: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

func.func @foreach_few(%s: !tile_gpu.schedule, %c: i32) {
  // expected-error @below {{expected 4 block arguments for the item and 1 for the initial values, but got 4}}
  %r = tile_gpu.foreach %s iter_args(%c : i32) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32):
    tile_gpu.yield %c : i32
  } -> i32
  return
}

// -----

func.func @foreach_carried(%s: !tile_gpu.schedule, %c: i32) {
  // expected-error @below {{expected initial values, carried block arguments, yielded values and results of the same types}}
  %r = tile_gpu.foreach %s iter_args(%c : i32) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32, %lo: i32, %hi: i32, %k: i32):
    tile_gpu.yield
  } -> i32
  return
}

// -----

func.func @foreach_arguments(%s: !tile_gpu.schedule) {
  // expected-error @below {{expected i32 block arguments (tile, head, batch, split)}}
  tile_gpu.foreach %s {
  ^bb0(%t: i32):
    tile_gpu.yield
  }
  return
}

// -----

func.func @map_stride(%m: memref<?x?xbf16, strided<[?, 2]>>) {
  // expected-error @below {{expected unit stride in the last dimension}}
  %t = tile_gpu.tensor_map %m : memref<?x?xbf16, strided<[?, 2]>> -> !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
  return
}

// -----

func.func private @not_a_kernel()
func.func @launch(%n: index) {
  // expected-error @below {{expected 'not_a_kernel' to be a tile_gpu.kernel in this module}}
  tile_gpu.launch @not_a_kernel grid(%n) args(%n : index)
  return
}

// -----

func.func @keep_layout(%n: index) {
  // expected-error @below {{expected a memref without layout, but got 'memref<?xi32, strided<[2]>>'}}
  %m, %new = tile_gpu.keep 0(%n) key() : memref<?xi32, strided<[2]>>
  return
}

// -----

func.func @keep_sizes(%n: index) {
  // expected-error @below {{expected 2 sizes, one for each dynamic dimension of 'memref<?x?xi32>', but got 1}}
  %m, %new = tile_gpu.keep 0(%n) key() : memref<?x?xi32>
  return
}

// -----

func.func @tickets() {
  // expected-error @below {{expected a static number of counters, but got 'memref<?xi32>'}}
  %t = tile_gpu.tickets : memref<?xi32>
  return
}

// -----

// expected-error @below {{expected tile_gpu.launch to be a #tile_gpu.launch<...> of a function, but got 3 : i64}}
func.func private @launch_of_number() attributes {tile_gpu.launch = 3 : i64}

// -----

// expected-error @below {{expected threads and shared_bytes of 0 or more, but got -1 and 0}}
tile_gpu.kernel private @launch_sizes() attributes {launch = #tile_gpu.launch<threads = -1, shared_bytes = 0>}

// -----

// expected-error @below {{expected no attribute "tile_gpu.kernel", which the tile_gpu dialect does not define}}
module attributes {tile_gpu.kernel} {
}

// -----

tile_gpu.kernel @role_scope() {
  // expected-error @below {{expected warps(n) or warpgroups(n), but got 'threads'}}
  tile_gpu.role "a" threads(1) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @role_count() {
  // expected-error @below {{expected 1 warp or warpgroup or more, but got 0}}
  tile_gpu.role "a" warpgroups(0) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @role_yield() {
  // expected-error @below {{expected the body to yield nothing}}
  tile_gpu.role "a" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.yield %w : i32
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @role_end() {
  // expected-error @below {{expected the body to end with tile_gpu.yield}}
  tile_gpu.role "a" warps(1) {
  ^bb0(%w: i32):
    llvm.unreachable
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @scheduler_grid_tickets(%n: i32, %t: memref<1xi32>) {
  // expected-error @below {{expected tickets(...) with a dynamic schedule only}}
  %s = tile_gpu.scheduler grid in_order tickets(%t : memref<1xi32>) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %h: i32, %b: i32, %x: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @scheduler_cluster(%n: i32, %t: memref<1xi32>) {
  // expected-error @below {{expected clusters of 2 to 8 blocks, but got 16}}
  %s = tile_gpu.scheduler dynamic in_order tickets(%t : memref<1xi32>) cluster(16) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @scheduler_grid_cluster(%n: i32) {
  // expected-error @below {{expected cluster(...) with a dynamic schedule only}}
  %s = tile_gpu.scheduler grid in_order cluster(2) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @ring_release_all() {
  // expected-error @below {{expected release_all on a tma ring with cluster(...) only}}
  %k = tile_gpu.ring.create tma consumers(4) release_all : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  tile_gpu.return
}

// -----

tile_gpu.kernel @scheduler_by_parts(%n: i32, %t: memref<1xi32>) {
  // expected-error @below {{expected by_parts beside cluster(...) and splits(...) only}}
  %s = tile_gpu.scheduler dynamic in_order tickets(%t : memref<1xi32>) cluster(2) by_parts tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @scheduler_section(%n: i32) {
  %none = arith.constant 0 : i32
  // expected-error @below {{expected a section of 1 head or more, but got 0}}
  %s = tile_gpu.scheduler grid in_order section(%none) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @scheduler_few_arguments(%n: i32) {
  // expected-error @below {{expected i32 block arguments (tile, head, batch, split)}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @scheduler_many_arguments(%n: i32) {
  // expected-error @below {{expected 4 block arguments, but got 5}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32, %y: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @scheduler_empty(%n: i32) {
  // expected-error @below {{expects a non-empty block}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32):
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @barrier_warps() {
  // expected-error @below {{expected 1 warp and 1 barrier or more, but got 0 and 1}}
  %b = tile_gpu.barrier.create warps(0)
  tile_gpu.return
}

// -----

tile_gpu.kernel @barrier_each() {
  // expected-error @below {{expected 1 warp and 1 barrier or more, but got 4 and -1}}
  %b = tile_gpu.barrier.create warps(4) each(-1)
  tile_gpu.return
}

// -----

func.func @map_rank(%m: memref<?xbf16>) {
  // expected-error @below {{expected a tensor of rank 2 to 4, but got 1}}
  %t = tile_gpu.tensor_map %m : memref<?xbf16> -> !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @map_element(%m: memref<?x?xf16>) {
  // expected-error @below {{expected boxes of 'f16', but got 'bf16'}}
  %t = tile_gpu.tensor_map %m : memref<?x?xf16> -> !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
  return
}

// -----

tile_gpu.kernel private @kernel(index)
func.func @launch_arguments(%n: index, %x: i32) {
  // expected-error @below {{expected arguments of the types of 'kernel'}}
  tile_gpu.launch @kernel grid(%n) args(%x : i32)
  return
}

// -----

func.func @tickets_none() {
  // expected-error @below {{expected a static number of counters, but got 'memref<0xi32>'}}
  %t = tile_gpu.tickets : memref<0xi32>
  return
}

// -----

tile_gpu.kernel @role_large() {
  // expected-error @below {{expected at most 1048576 warps or warpgroups, but got 4611686018427387904}}
  tile_gpu.role "a" warpgroups(4611686018427387904) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @barrier_large() {
  // expected-error @below {{expected at most 1048576 warps and barriers, but got 4 and 4611686018427387904}}
  %b = tile_gpu.barrier.create warps(4) each(4611686018427387904)
  tile_gpu.return
}

// -----

// expected-error @+1 {{expected launch to be a #tile_gpu.launch<...>, but got unit}}
tile_gpu.kernel private @launch_of_nothing() attributes {launch}

// -----

tile_gpu.kernel @holds_nothing() {
  // expected-error @below {{expected a value or more to wait behind, but got none}}
  "tile_gpu.hold"() : () -> ()
  tile_gpu.return
}
