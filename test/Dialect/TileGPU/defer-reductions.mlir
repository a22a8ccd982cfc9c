// RUN: attn-opt %s --pass-pipeline='builtin.module(tile_gpu.kernel(tile-gpu-defer-reductions,tile-gpu-verify-async))' | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-defer-reductions %tidy %verify_kernels -o /dev/null

!s = !tile_gpu.frag<64x64xf32, acc>
!row = !tile_gpu.vec<64xf32, row>

// CHECK-LABEL: kernel @two_loops
tile_gpu.kernel @two_loops(%p: !s, %l0: !row, %f: !row, %n: i32, %out: memref<?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    // A quarter for each of the four threads of a row.
    // CHECK: %[[SHARE:.*]] = tile_gpu.map ins(%{{.*}} : !tile_gpu.vec<64xf32, row>)
    // CHECK: arith.constant 2.500000e-01
    // CHECK: -> !tile_gpu.vec<64xf32, row, partial>
    // CHECK: %[[A:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[SHARE]]) -> (!tile_gpu.vec<64xf32, row, partial>)
    // CHECK: tile_gpu.reduce {{.*}}
    // CHECK: -> !tile_gpu.vec<64xf32, row, partial>
    // CHECK: tile_gpu.map ins(%{{.*}} : !tile_gpu.vec<64xf32, row, partial>, !tile_gpu.vec<64xf32, row, partial>, !tile_gpu.vec<64xf32, row>)
    %a = scf.for %i = %c0 to %n step %c1 iter_args(%old = %l0) -> (!row) : i32 {
      %t = tile_gpu.reduce ins(%p : !s) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %next = tile_gpu.map ins(%old, %t, %f : !row, !row, !row) {
      ^bb0(%r: i32, %c: i32, %x: f32, %y: f32, %w: f32):
        %z = math.fma %x, %w, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      scf.yield %next : !row
    }
    // CHECK: %[[B:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[A]]) -> (!tile_gpu.vec<64xf32, row, partial>)
    %b = scf.for %i = %c0 to %n step %c1 iter_args(%old = %a) -> (!row) : i32 {
      %t = tile_gpu.reduce ins(%p : !s) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %next = tile_gpu.map ins(%old, %t : !row, !row) {
      ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      scf.yield %next : !row
    }
    // CHECK: %[[L:.*]] = tile_gpu.reduce ins(%[[B]] : !tile_gpu.vec<64xf32, row, partial>)
    // CHECK: -> !tile_gpu.vec<64xf32, row>
    // CHECK: tile_gpu.global.store %[[L]]
    tile_gpu.global.store %b, %out[%c0] : !row, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// A maximum, and a sum that another operation reads in the loop: whole.
// CHECK-LABEL: kernel @whole
// CHECK-NOT: partial
tile_gpu.kernel @whole(%p: !s, %l0: !row, %n: i32, %out: memref<?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %ninf = arith.constant 0xFF800000 : f32
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %b:2 = scf.for %i = %c0 to %n step %c1 iter_args(%m = %l0, %old = %l0) -> (!row, !row) : i32 {
      %t = tile_gpu.reduce ins(%p : !s) identity(%ninf : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %mn = tile_gpu.map ins(%m, %t : !row, !row) {
      ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %u = tile_gpu.reduce ins(%p : !s) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %next = tile_gpu.map ins(%old, %u : !row, !row) {
      ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      tile_gpu.global.store %next, %out[%c0] : !row, memref<?xf32>
      scf.yield %mn, %next : !row, !row
    }
    tile_gpu.global.store %b#1, %out[%c0] : !row, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// One map updates a sum and a maximum: shares and whole values do not mix.
// CHECK-LABEL: kernel @one_map
// CHECK-NOT: partial
tile_gpu.kernel @one_map(%p: !s, %l0: !row, %m0: !row, %n: i32, %out: memref<?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %a:2 = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %l0, %max = %m0) -> (!row, !row) : i32 {
      %t = tile_gpu.reduce ins(%p : !s) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %u = tile_gpu.reduce ins(%p : !s) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %next:2 = tile_gpu.map ins(%sum, %t, %max, %u : !row, !row, !row, !row) {
      ^bb0(%r: i32, %c: i32, %x: f32, %y: f32, %v: f32, %w: f32):
        %z = arith.addf %x, %y : f32
        %m = arith.maximumf %v, %w : f32
        tile_gpu.yield %z, %m : f32, f32
      } -> !row, !row
      scf.yield %next#0, %next#1 : !row, !row
    }
    tile_gpu.global.store %a#0, %out[%c0] : !row, memref<?xf32>
    tile_gpu.global.store %a#1, %out[%c0] : !row, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Of two sums one takes some of the other in, times what all threads of a row
// know: shares go through both. Nor is the second one whole where the first is.

// CHECK-LABEL: tile_gpu.kernel @mixed
// CHECK: %[[LOOP:.*]]:2 = scf.for {{.*}} -> (!tile_gpu.vec<64xf32, row, partial>, !tile_gpu.vec<64xf32, row, partial>)
// CHECK: %[[NEXT:.*]]:2 = tile_gpu.map
// CHECK: } -> !tile_gpu.vec<64xf32, row, partial>, !tile_gpu.vec<64xf32, row, partial>
// CHECK: scf.yield %[[NEXT]]#0, %[[NEXT]]#1
tile_gpu.kernel @mixed(%p: !s, %l0: !row, %f: !row, %n: i32, %out: memref<?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %b:2 = scf.for %i = %c0 to %n step %c1 iter_args(%l = %l0, %e = %l0) -> (!row, !row) : i32 {
      %t = tile_gpu.reduce ins(%p : !s) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %u = tile_gpu.reduce ins(%p : !s) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %next:2 = tile_gpu.map ins(%l, %t, %e, %u, %f : !row, !row, !row, !row, !row) {
      ^bb0(%r: i32, %c: i32, %old: f32, %more: f32, %sum: f32, %parts: f32, %factor: f32):
        %z = math.fma %old, %factor, %more : f32
        %mixed = math.fma %old, %factor, %sum : f32
        %w = math.fma %mixed, %factor, %parts : f32
        tile_gpu.yield %z, %w : f32, f32
      } -> !row, !row
      scf.yield %next#0, %next#1 : !row, !row
    }
    tile_gpu.global.store %b#0, %out[%c0] : !row, memref<?xf32>
    tile_gpu.global.store %b#1, %out[%c0] : !row, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// What is mixed in is no sum of the loop.
// CHECK-LABEL: tile_gpu.kernel @whole_mixed
// CHECK-NOT: partial
tile_gpu.kernel @whole_mixed(%p: !s, %l0: !row, %f: !row, %n: i32, %out: memref<?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %b = scf.for %i = %c0 to %n step %c1 iter_args(%e = %l0) -> (!row) : i32 {
      %u = tile_gpu.reduce ins(%p : !s) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %next = tile_gpu.map ins(%e, %u, %f : !row, !row, !row) {
      ^bb0(%r: i32, %c: i32, %sum: f32, %parts: f32, %factor: f32):
        %mixed = math.fma %factor, %factor, %sum : f32
        %w = math.fma %mixed, %factor, %parts : f32
        tile_gpu.yield %w : f32
      } -> !row
      scf.yield %next : !row
    }
    tile_gpu.global.store %b, %out[%c0] : !row, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

!t = !tile_gpu.frag<16x8xf32, acc, warp>
!col = !tile_gpu.vec<8xf32, col, warp>

// Where rows are columns of a warp's fragments, eight threads hold one.
// CHECK-LABEL: kernel @columns
tile_gpu.kernel @columns(%p: !t, %l0: !col, %n: i32, %out: memref<?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    // CHECK: arith.constant 1.250000e-01
    // CHECK: -> !tile_gpu.vec<8xf32, col, warp, partial>
    // CHECK: %[[A:.*]] = scf.for {{.*}} -> (!tile_gpu.vec<8xf32, col, warp, partial>)
    %a = scf.for %i = %c0 to %n step %c1 iter_args(%old = %l0) -> (!col) : i32 {
      %s = tile_gpu.reduce ins(%p : !t) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !col
      %next = tile_gpu.map ins(%old, %s : !col, !col) {
      ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !col
      scf.yield %next : !col
    }
    // CHECK: tile_gpu.reduce ins(%[[A]] : !tile_gpu.vec<8xf32, col, warp, partial>)
    tile_gpu.global.store %a, %out[%c0] : !col, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
