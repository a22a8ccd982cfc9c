// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Kernels, roles, schedules, barriers and the host plan.

func.func @role_outside_kernel() {
  // expected-error @below {{expected to be in a function with the attribute tile_gpu.kernel}}
  tile_gpu.role "a" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  return
}

// -----

func.func @role_registers() attributes {tile_gpu.kernel} {
  // expected-error @below {{expected registers to be a multiple of 8 from 24 on, but got 25}}
  tile_gpu.role "a" warps(1) registers(25) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  return
}

// -----

func.func @role_argument() attributes {tile_gpu.kernel} {
  // expected-error @below {{expected one block argument of type i32, the number of the warp or warpgroup}}
  tile_gpu.role "a" warps(1) {
    tile_gpu.yield
  }
  return
}

// -----

// expected-error @below {{expected a tile_gpu.kernel to have no results, but got 1}}
func.func private @kernel_results() -> i32 attributes {tile_gpu.kernel}

// -----

func.func @scheduler_tickets(%n: i32) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected tickets(...) with a dynamic schedule}}
  %s = tile_gpu.scheduler dynamic in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  return
}

// -----

func.func @skip_grid(%n: i32, %none: i1) attributes {tile_gpu.kernel} {
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    // expected-error @below {{expected a dynamic schedule, whose items one warp draws for others}}
    tile_gpu.skip %none
    tile_gpu.yield %n, %n : i32, i32
  }
  return
}

// -----

func.func @draw_paths(%s: !tile_gpu.schedule, %c: i1) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected tile_gpu.draw_next once on every path through the body, or nowhere}}
  tile_gpu.foreach %s {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
    scf.if %c {
      tile_gpu.draw_next
    }
    tile_gpu.yield
  }
  return
}

// -----

func.func @draw_often(%s: !tile_gpu.schedule, %n: i32) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected tile_gpu.draw_next once on every path through the body, or nowhere}}
  tile_gpu.foreach %s {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
    scf.for %i = %lo to %hi step %n : i32 {
      tile_gpu.draw_next
    }
    tile_gpu.yield
  }
  return
}

// -----

func.func @draw_lead(%s: !tile_gpu.schedule) attributes {tile_gpu.kernel} {
  tile_gpu.foreach %s lead {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
    // expected-error @below {{expected to be in a loop over a schedule whose items another role draws}}
    tile_gpu.draw_next
    tile_gpu.yield
  }
  return
}

// -----

func.func @draw_static(%n: i32) attributes {tile_gpu.kernel} {
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
  return
}

// -----

func.func @scheduler_keys(%n: i32) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected the body to yield the first key and the end of keys, both i32}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32):
    tile_gpu.yield %n : i32
  }
  return
}

// -----

func.func @scheduler_more(%n: i32, %x: f64) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected further values of i1, i32, i64, index or f32, but got 'f64'}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %y: i32):
    tile_gpu.yield %n, %n, %x : i32, i32, f64
  }
  return
}

// -----

func.func @foreach_more(%n: i32, %wide: i64) attributes {tile_gpu.kernel} {
  // expected-note @below {{schedule defined here}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %y: i32):
    tile_gpu.yield %n, %n, %wide : i32, i32, i64
  }
  // expected-error @below {{expected 1 block arguments for what the schedule yields beyond its keys, of its types}}
  tile_gpu.foreach %s {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32, %lo: i32, %hi: i32, %more: i32):
    tile_gpu.yield
  }
  return
}

// -----

func.func @foreach_few(%s: !tile_gpu.schedule, %c: i32) {
  // expected-error @below {{expected 6 block arguments for the item and 1 for the initial values, but got 6}}
  %r = tile_gpu.foreach %s iter_args(%c : i32) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32, %lo: i32, %hi: i32):
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
  // expected-error @below {{expected i32 block arguments (tile, head, batch, split, first key, end of keys)}}
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

func.func @tickets() {
  // expected-error @below {{expected a static number of counters, but got 'memref<?xi32>'}}
  %t = tile_gpu.tickets : memref<?xi32>
  return
}

// -----

// expected-error @below {{expected tile_gpu.kernel on a func.func}}
module attributes {tile_gpu.kernel} {
}

// -----

func.func @role_scope() attributes {tile_gpu.kernel} {
  // expected-error @below {{expected warps(n) or warpgroups(n), but got 'threads'}}
  tile_gpu.role "a" threads(1) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  return
}

// -----

func.func @role_count() attributes {tile_gpu.kernel} {
  // expected-error @below {{expected 1 warp or warpgroup or more, but got 0}}
  tile_gpu.role "a" warpgroups(0) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  return
}

// -----

func.func @role_yield() attributes {tile_gpu.kernel} {
  // expected-error @below {{expected the body to yield nothing}}
  tile_gpu.role "a" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.yield %w : i32
  }
  return
}

// -----

func.func @role_end() attributes {tile_gpu.kernel} {
  // expected-error @below {{expected the body to end with tile_gpu.yield}}
  tile_gpu.role "a" warps(1) {
  ^bb0(%w: i32):
    llvm.unreachable
  }
  return
}

// -----

func.func @scheduler_grid_tickets(%n: i32, %t: memref<1xi32>) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected tickets(...) with a dynamic schedule only}}
  %s = tile_gpu.scheduler grid in_order tickets(%t : memref<1xi32>) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %h: i32, %b: i32, %x: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  return
}

// -----

func.func @scheduler_cluster(%n: i32, %t: memref<1xi32>) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected clusters of 2 to 8 blocks, but got 16}}
  %s = tile_gpu.scheduler dynamic in_order tickets(%t : memref<1xi32>) cluster(16) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  return
}

// -----

func.func @scheduler_grid_cluster(%n: i32) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected cluster(...) with a dynamic schedule only}}
  %s = tile_gpu.scheduler grid in_order cluster(2) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  return
}

// -----

func.func @scheduler_section(%n: i32) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected a section of 1 head or more, but got 0}}
  %s = tile_gpu.scheduler grid in_order section(0) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  return
}

// -----

func.func @scheduler_few_arguments(%n: i32) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected i32 block arguments (tile, head, batch, split)}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  return
}

// -----

func.func @scheduler_many_arguments(%n: i32) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected 4 block arguments, but got 5}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32, %y: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  return
}

// -----

func.func @scheduler_empty(%n: i32) attributes {tile_gpu.kernel} {
  // expected-error @below {{expects a non-empty block}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32):
  }
  return
}

// -----

func.func @barrier_warps() attributes {tile_gpu.kernel} {
  // expected-error @below {{expected 1 warp and 1 barrier or more, but got 0 and 1}}
  %b = tile_gpu.barrier.create warps(0)
  return
}

// -----

func.func @barrier_each() attributes {tile_gpu.kernel} {
  // expected-error @below {{expected 1 warp and 1 barrier or more, but got 4 and -1}}
  %b = tile_gpu.barrier.create warps(4) each(-1)
  return
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

func.func private @kernel(index) attributes {tile_gpu.kernel}
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

func.func @role_large() attributes {tile_gpu.kernel} {
  // expected-error @below {{expected at most 1048576 warps or warpgroups, but got 4611686018427387904}}
  tile_gpu.role "a" warpgroups(4611686018427387904) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  return
}

// -----

func.func @barrier_large() attributes {tile_gpu.kernel} {
  // expected-error @below {{expected at most 1048576 warps and barriers, but got 4 and 4611686018427387904}}
  %b = tile_gpu.barrier.create warps(4) each(4611686018427387904)
  return
}
