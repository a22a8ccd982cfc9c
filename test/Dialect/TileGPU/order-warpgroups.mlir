// RUN: attn-opt %s --split-input-file --tile-gpu-order-warpgroups --tile-gpu-verify-async | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-order-warpgroups %tidy %verify_kernels | FileCheck %s

!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!kt = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!kv = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!acc = !tile_gpu.frag<64x64xf32, acc>
!a = !tile_gpu.frag<64x64xbf16, a>
!token = !tile_gpu.token<64x64xf32>

// Scores and the products of the step before are one turn. A member that ends
// with its own rows takes the turns of the steps that it leaves out.
// CHECK-LABEL: kernel @products
// CHECK: %[[TURNS:.*]] = tile_gpu.barrier.create warps(8) each(3)
// CHECK: tile_gpu.role "compute"
// CHECK-NEXT: ^bb0(%[[WG:.*]]: i32):
// CHECK-NOT: turn.
// CHECK: scf.for
// CHECK: tile_gpu.ring.wait
// CHECK: tile_gpu.turn.wait %[[TURNS]][%[[WG]]]
// CHECK-NEXT: tile_gpu.mma.issue
// CHECK: tile_gpu.mma.issue
// CHECK-NEXT: tile_gpu.turn.pass %[[TURNS]][%[[WG]]]
// CHECK-NEXT: tile_gpu.mma.wait
// CHECK-NOT: turn.
// CHECK: scf.yield
// CHECK-NOT: turn.
// CHECK: scf.for
// CHECK-NEXT: tile_gpu.turn.wait %[[TURNS]][%[[WG]]]
// CHECK-NEXT: tile_gpu.turn.pass %[[TURNS]][%[[WG]]]
// CHECK-NEXT: tile_gpu.ring.wait
tile_gpu.kernel @products(%q: !q, %n: i32, %out: memref<?x?xf32>)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, turns = products>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(12) : !kv
  %v = tile_gpu.ring.create tma consumers(12) : !kv
  tile_gpu.role "compute" warpgroups(3) {
  ^bb0(%wg: i32):
    %o0 = tile_gpu.frag.fill %zero : f32 -> !acc
    %k0 = tile_gpu.ring.wait %k[%c0] : !kv
    %t0 = tile_gpu.smem.transpose %k0 : !q
    %q0 = tile_gpu.mma.issue %q, %t0 : !q, !kt -> !token
    %s0 = tile_gpu.mma.wait %q0 pending(0) : !token
    %p0 = tile_gpu.frag.convert %s0 : !acc -> !a
    tile_gpu.ring.release %k[%c0] : !kv
    %own = arith.subi %n, %wg : i32
    %r:4 = scf.for %i = %c1 to %own step %c1
        iter_args(%c = %c1, %o = %o0, %p = %p0, %before = %c0) -> (i32, !acc, !a, i32) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !kv
      %kT = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kT : !q, !kt -> !token
      %vs = tile_gpu.ring.wait %v[%before] : !kv
      %pv = tile_gpu.mma.issue %p, %vs acc(%o) : !a, !q -> !token
      %s = tile_gpu.mma.wait %qk pending(1) : !token
      tile_gpu.ring.release %k[%c] : !kv
      %on = tile_gpu.mma.wait %pv pending(0) : !token
      tile_gpu.ring.release %v[%before] : !kv
      %pn = tile_gpu.frag.convert %s : !acc -> !a
      %next = arith.addi %c, %c1 : i32
      scf.yield %next, %on, %pn, %c : i32, !acc, !a, i32
    }
    %vl = tile_gpu.ring.wait %v[%r#3] : !kv
    %pvl = tile_gpu.mma.issue %r#2, %vl acc(%r#1) : !a, !q -> !token
    %ol = tile_gpu.mma.wait %pvl pending(0) : !token
    tile_gpu.ring.release %v[%r#3] : !kv
    scf.for %c = %r#0 to %n step %c1 : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !kv
      %vs = tile_gpu.ring.wait %v[%c] : !kv
      tile_gpu.ring.release %k[%c] : !kv
      tile_gpu.ring.release %v[%c] : !kv
    }
    tile_gpu.global.store %ol, %out[%c0, %c0] : !acc, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!kt = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!kv = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!acc = !tile_gpu.frag<64x64xf32, acc>
!a = !tile_gpu.frag<64x64xbf16, a>
!token = !tile_gpu.token<64x64xf32>

// Products that are waited for at once: two turns a step. Of softmax it is one,
// from scores to weights.
// CHECK-LABEL: kernel @waits
// CHECK: scf.for
// CHECK: tile_gpu.turn.wait
// CHECK-NEXT: tile_gpu.mma.issue
// CHECK-NEXT: tile_gpu.turn.pass
// CHECK-NEXT: tile_gpu.mma.wait
// CHECK: tile_gpu.frag.convert
// CHECK: tile_gpu.turn.wait
// CHECK-NEXT: tile_gpu.mma.issue
// CHECK-NEXT: tile_gpu.turn.pass
// CHECK-NEXT: tile_gpu.mma.wait
// CHECK-LABEL: kernel @softmax
// CHECK: scf.for
// CHECK: tile_gpu.mma.issue
// CHECK-NEXT: tile_gpu.turn.wait
// CHECK-NEXT: %[[S:.*]] = tile_gpu.mma.wait
// CHECK-NEXT: tile_gpu.ring.release
// CHECK-NEXT: tile_gpu.frag.convert
// CHECK-NEXT: tile_gpu.turn.pass %{{.*}}[%{{.*}}] after(%[[S]] : !tile_gpu.frag<64x64xf32, acc>)
// CHECK-NEXT: tile_gpu.ring.wait
// CHECK-NEXT: tile_gpu.mma.issue
// CHECK-NEXT: tile_gpu.mma.wait
// CHECK-NOT: turn.
// One warpgroup has nobody to wait for.
// CHECK-LABEL: kernel @alone
// CHECK-NOT: turn.
tile_gpu.kernel @waits(%q: !q, %n: i32, %out: memref<?x?xf32>)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, turns = products>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(8) : !kv
  %v = tile_gpu.ring.create tma consumers(8) : !kv
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    %o0 = tile_gpu.frag.fill %zero : f32 -> !acc
    %r = scf.for %c = %c0 to %n step %c1 iter_args(%o = %o0) -> (!acc) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !kv
      %kT = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kT : !q, !kt -> !token
      %s = tile_gpu.mma.wait %qk pending(0) : !token
      tile_gpu.ring.release %k[%c] : !kv
      %p = tile_gpu.frag.convert %s : !acc -> !a
      %vs = tile_gpu.ring.wait %v[%c] : !kv
      %pv = tile_gpu.mma.issue %p, %vs acc(%o) : !a, !q -> !token
      %on = tile_gpu.mma.wait %pv pending(0) : !token
      tile_gpu.ring.release %v[%c] : !kv
      scf.yield %on : !acc
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !acc, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

tile_gpu.kernel @softmax(%q: !q, %n: i32, %out: memref<?x?xf32>)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, turns = softmax>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(8) : !kv
  %v = tile_gpu.ring.create tma consumers(8) : !kv
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    %o0 = tile_gpu.frag.fill %zero : f32 -> !acc
    %r = scf.for %c = %c0 to %n step %c1 iter_args(%o = %o0) -> (!acc) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !kv
      %kT = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kT : !q, !kt -> !token
      %s = tile_gpu.mma.wait %qk pending(0) : !token
      tile_gpu.ring.release %k[%c] : !kv
      %p = tile_gpu.frag.convert %s : !acc -> !a
      %vs = tile_gpu.ring.wait %v[%c] : !kv
      %pv = tile_gpu.mma.issue %p, %vs acc(%o) : !a, !q -> !token
      %on = tile_gpu.mma.wait %pv pending(0) : !token
      tile_gpu.ring.release %v[%c] : !kv
      scf.yield %on : !acc
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !acc, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

tile_gpu.kernel @alone(%q: !q, %n: i32) attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, turns = products>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %k = tile_gpu.ring.create tma consumers(4) : !kv
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    scf.for %c = %c0 to %n step %c1 : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !kv
      %qk = tile_gpu.mma.issue %q, %ks : !q, !q -> !token
      %s = tile_gpu.mma.wait %qk pending(0) : !token
      tile_gpu.ring.release %k[%c] after(%s : !acc) : !kv
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
