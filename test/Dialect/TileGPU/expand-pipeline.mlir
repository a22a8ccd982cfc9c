// RUN: attn-opt %s --pass-pipeline='builtin.module(tile_gpu.kernel(tile-gpu-assign-stages,tile-gpu-expand-pipeline,tile-gpu-verify-async))' | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-assign-stages %tidy --tile-gpu-expand-pipeline %tidy %verify_kernels | FileCheck %s

// A first step and two loops. Scores of a step are issued before the products
// with the values of the step before, and waited for first; weights are packed
// after the wait of the product that reads the old ones; slots of keys are
// released after the scores, slots of values one step later.

!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!qT = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!kv = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!tok = !tile_gpu.token<64x64xf32>
!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>
!row = !tile_gpu.vec<64xf32, row>

// CHECK-LABEL: kernel @chain
tile_gpu.kernel @chain(%q: !q, %n: i32, %m: i32, %clear: i1, %a: !row, %out: memref<?x?xf32>, %sums: memref<?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  // CHECK: %[[K:.*]] = tile_gpu.ring.create
  %k = tile_gpu.ring.create tma consumers(4) : !kv
  // CHECK: %[[V:.*]] = tile_gpu.ring.create
  %v = tile_gpu.ring.create tma consumers(4) : !kv
  // CHECK: %[[QUERIES:.*]] = tile_gpu.ring.create
  %queries = tile_gpu.ring.create tma consumers(4) : !kv
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    // CHECK: %[[INIT:.*]] = tile_gpu.frag.fill
    %init = tile_gpu.frag.fill %zero : f32 -> !s
    %mine = tile_gpu.ring.wait %queries[%c0] : !kv
    %k0 = tile_gpu.ring.wait %k[%c0] : !kv
    %t0 = tile_gpu.smem.transpose %k0 : !q
    // CHECK: %[[S0:.*]] = tile_gpu.mma.wait %{{.*}} pending(0)
    // CHECK-NEXT: tile_gpu.ring.release %[[K]][%c0
    %q0 = tile_gpu.mma.issue %q, %t0 : !q, !qT -> !tok
    %s0 = tile_gpu.mma.wait %q0 pending(0) : !tok
    // CHECK: %[[P0:.*]] = tile_gpu.frag.convert %[[S0]]
    %p0 = tile_gpu.frag.convert %s0 : !s -> !p
    %v0 = tile_gpu.ring.wait %v[%c0] : !kv
    scf.if %clear {
      tile_gpu.smem.clear_rows %v0 from(%n) : !q
    }
    %pv0 = tile_gpu.mma.issue %p0, %v0 acc(%init) : !p, !q -> !tok
    %o0 = tile_gpu.mma.wait %pv0 pending(0) : !tok
    tile_gpu.ring.release %k[%c0] : !kv
    tile_gpu.ring.release %v[%c0] : !kv
    // The values are waited for late, where rows of them are cleared.
    // CHECK-NEXT: %[[V0:.*]] = tile_gpu.ring.wait %[[V]][%c0
    // CHECK-NEXT: scf.if
    // CHECK-NEXT: tile_gpu.smem.clear_rows %[[V0]]
    // CHECK-NEXT: }
    // CHECK-NEXT: %[[R:.*]]:3 = scf.for %[[C:.*]] = %{{.*}} iter_args(%[[O:.*]] = %[[INIT]], %[[P:.*]] = %[[P0]], %[[SLOT:.*]] = %c0
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!s) : i32 {
      // CHECK: %[[QK:.*]] = tile_gpu.mma.issue %{{.*}}, %{{.*}} : {{.*}} transposed>
      // CHECK: %[[VS:.*]] = tile_gpu.ring.wait %[[V]][%[[SLOT]]]
      // CHECK: %[[PV:.*]] = tile_gpu.mma.issue %[[P]], %[[VS]] acc(%[[O]])
      // CHECK: %[[S:.*]] = tile_gpu.mma.wait %[[QK]] pending(1)
      // CHECK: tile_gpu.ring.release %[[K]][%[[C]]]
      %ks = tile_gpu.ring.wait %k[%c] : !kv
      %kT = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kT : !q, !qT -> !tok
      %s = tile_gpu.mma.wait %qk pending(0) : !tok
      %p = tile_gpu.frag.convert %s : !s -> !p
      %vs = tile_gpu.ring.wait %v[%c] : !kv
      %scaled = tile_gpu.map ins(%o, %a : !s, !row) {
      ^bb0(%i: i32, %j: i32, %x: f32, %f: f32):
        %y = arith.mulf %x, %f : f32
        tile_gpu.yield %y : f32
      } -> !s
      // CHECK: %[[SUM:.*]] = tile_gpu.mma.wait %[[PV]] pending(0)
      // CHECK-NEXT: tile_gpu.ring.release %[[V]][%[[SLOT]]]
      // CHECK-NEXT: %[[SCALED:.*]] = tile_gpu.map ins(%[[SUM]],
      // CHECK: %[[NEXT:.*]] = tile_gpu.frag.convert %[[S]]
      // CHECK: scf.yield %[[SCALED]], %[[NEXT]], %[[C]]
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) : !p, !q -> !tok
      %on = tile_gpu.mma.wait %pv pending(0) : !tok
      tile_gpu.ring.release %k[%c] : !kv
      tile_gpu.ring.release %v[%c] : !kv
      scf.yield %on : !s
    }
    // Without a factor the sum itself is carried on.
    // CHECK: %[[R2:.*]]:3 = scf.for {{.*}} iter_args(%{{.*}} = %[[R]]#0, %{{.*}} = %[[R]]#1, %{{.*}} = %[[R]]#2)
    %r2 = scf.for %c = %n to %m step %c1 iter_args(%o = %r) -> (!s) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !kv
      %kT = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kT : !q, !qT -> !tok
      %s = tile_gpu.mma.wait %qk pending(0) : !tok
      %p = tile_gpu.frag.convert %s : !s -> !p
      // Where rows are reduced the keys go back behind that, which keeps the
      // wait for the product in flight there as well.
      // CHECK: %[[SUM:.*]] = tile_gpu.reduce
      // CHECK: tile_gpu.ring.release %[[K]][%{{.*}}] after(%[[SUM]] : !tile_gpu.vec<64xf32, row>)
      // CHECK: tile_gpu.mma.wait %{{.*}} pending(0)
      %sum = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      tile_gpu.global.store %sum, %sums[%c0] : !row, memref<?xf32>
      %vs = tile_gpu.ring.wait %v[%c] : !kv
      %pv = tile_gpu.mma.issue %p, %vs acc(%o) : !p, !q -> !tok
      %on = tile_gpu.mma.wait %pv pending(0) : !tok
      tile_gpu.ring.release %k[%c] : !kv
      tile_gpu.ring.release %v[%c] : !kv
      scf.yield %on : !s
    }
    tile_gpu.ring.release %queries[%c0] : !kv
    // CHECK: tile_gpu.ring.release %[[QUERIES]]
    // CHECK: %[[VL:.*]] = tile_gpu.ring.wait %[[V]][%[[R2]]#2]
    // CHECK: %[[LAST:.*]] = tile_gpu.mma.issue %[[R2]]#1, %[[VL]] acc(%[[R2]]#0)
    // CHECK: %[[OUT:.*]] = tile_gpu.mma.wait %[[LAST]] pending(0)
    // CHECK: tile_gpu.ring.release %[[V]][%[[R2]]#2]
    // CHECK: tile_gpu.global.store %[[OUT]]
    tile_gpu.global.store %r2, %out[%c0, %c0] : !s, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Keys and values of one slot: it is needed until the second product.
// CHECK-LABEL: kernel @shared_slot
// CHECK: scf.for
// CHECK: tile_gpu.mma.wait %{{.*}} pending(0)
// CHECK: tile_gpu.mma.issue {{.*}} acc
tile_gpu.kernel @shared_slot(%q: !q, %n: i32, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(4) : !kv
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %init = tile_gpu.frag.fill %zero : f32 -> !s
    %r = scf.for %c = %c0 to %n step %c1 iter_args(%o = %init) -> (!s) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !kv
      %kT = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kT : !q, !qT -> !tok
      %s = tile_gpu.mma.wait %qk pending(0) : !tok
      %p = tile_gpu.frag.convert %s : !s -> !p
      %pv = tile_gpu.mma.issue %p, %ks acc(%o) : !p, !q -> !tok
      %on = tile_gpu.mma.wait %pv pending(0) : !tok
      tile_gpu.ring.release %k[%c] : !kv
      scf.yield %on : !s
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !s, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Of d = 128: scores that take several operations have their slots given back
// behind the weights.

!k128 = !tile_gpu.smem<64x128xbf16 swizzle 128>
!k128T = !tile_gpu.smem<128x64xbf16 swizzle 128 transposed>
!kv128 = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!o128 = !tile_gpu.frag<64x128xf32, acc>
!tok128 = !tile_gpu.token<64x128xf32>

// CHECK-LABEL: kernel @several
// CHECK: scf.for
// CHECK: %[[W:.*]] = tile_gpu.map ins(%{{.*}} : !tile_gpu.frag<64x64xf32, acc>, !tile_gpu.vec<64xf32, row>)
// CHECK: tile_gpu.ring.release %{{.*}} after(%[[W]] : !tile_gpu.frag<64x64xf32, acc>)
tile_gpu.kernel @several(%q: !k128, %n: i32, %x: f32, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(4) : !kv128
  %v = tile_gpu.ring.create tma consumers(4) : !kv128
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %init = tile_gpu.frag.fill %zero : f32 -> !o128
    %k0 = tile_gpu.ring.wait %k[%c0] : !kv128
    %t0 = tile_gpu.smem.transpose %k0 : !k128
    %q0 = tile_gpu.mma.issue %q, %t0 : !k128, !k128T -> !tok
    %s0 = tile_gpu.mma.wait %q0 pending(0) : !tok
    %p0 = tile_gpu.frag.convert %s0 : !s -> !p
    %v0 = tile_gpu.ring.wait %v[%c0] : !kv128
    %pv0 = tile_gpu.mma.issue %p0, %v0 acc(%init) : !p, !k128 -> !tok128
    %o0 = tile_gpu.mma.wait %pv0 pending(0) : !tok128
    tile_gpu.ring.release %k[%c0] : !kv128
    tile_gpu.ring.release %v[%c0] : !kv128
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o128) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !kv128
      %kT = tile_gpu.smem.transpose %ks : !k128
      %qk = tile_gpu.mma.issue %q, %kT : !k128, !k128T -> !tok
      %s = tile_gpu.mma.wait %qk pending(0) : !tok
      %scores = tile_gpu.map ins(%s : !s) {
      ^bb0(%i: i32, %j: i32, %e: f32):
        %f = arith.sitofp %j : i32 to f32
        %g = arith.mulf %f, %x : f32
        %h = arith.addf %e, %g : f32
        tile_gpu.yield %h : f32
      } -> !s
      %max = tile_gpu.reduce ins(%scores : !s) identity(%zero : f32) {
      ^bb0(%a: f32, %b: f32):
        %m = arith.maxnumf %a, %b : f32
        tile_gpu.yield %m : f32
      } -> !row
      %w = tile_gpu.map ins(%scores, %max : !s, !row) {
      ^bb0(%i: i32, %j: i32, %e: f32, %m: f32):
        %d = arith.subf %e, %m : f32
        tile_gpu.yield %d : f32
      } -> !s
      %p = tile_gpu.frag.convert %w : !s -> !p
      %vs = tile_gpu.ring.wait %v[%c] : !kv128
      %pv = tile_gpu.mma.issue %p, %vs acc(%o) : !p, !k128 -> !tok128
      %on = tile_gpu.mma.wait %pv pending(0) : !tok128
      tile_gpu.ring.release %k[%c] : !kv128
      tile_gpu.ring.release %v[%c] : !kv128
      scf.yield %on : !o128
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o128, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
