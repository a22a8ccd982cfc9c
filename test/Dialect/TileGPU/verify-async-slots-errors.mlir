// RUN: attn-opt %s --tile-gpu-verify-async --split-input-file --verify-diagnostics

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @release_in_flight(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %k = tile_gpu.ring.wait %ring[%c0] : !ring
    // expected-note @below {{product issued here}}
    %t = tile_gpu.mma.issue %k, %k : !half, !half -> !t
    // expected-error @below {{releases a slot that a product in flight reads; expected the product's mma.wait before}}
    tile_gpu.ring.release %ring[%c0] : !ring
    %r = tile_gpu.mma.wait %t pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @release_unwaited(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected a ring.wait or ring.view of the same counter before}}
    tile_gpu.ring.release %ring[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @read_after_release(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %k = tile_gpu.ring.wait %ring[%c0] : !ring
    // expected-note @below {{released here}}
    tile_gpu.ring.release %ring[%c0] : !ring
    // expected-error @below {{expected no use of a slot after its release}}
    %t = tile_gpu.mma.issue %k, %k : !half, !half -> !t
    %r = tile_gpu.mma.wait %t pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// mbarrier.arrive overtakes ldmatrix: a race that only repeats show.
tile_gpu.kernel @release_overtakes_ldmatrix(%z: !tile_gpu.frag<16x8xf32, acc, warp>, %q: !tile_gpu.frag<64x8xbf16, b, warp>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "four" warps(4) {
  ^bb0(%wg: i32):
    %tile = tile_gpu.ring.wait %ring[%c0] : !ring
    %k = tile_gpu.smem.slice %tile[%c0, %c0] : !half -> !tile_gpu.smem<16x64xbf16 swizzle 128 pitch 64>
    // expected-note @below {{read here}}
    %s = tile_gpu.mma.sync %k, %q, %z : !tile_gpu.smem<16x64xbf16 swizzle 128 pitch 64>, !tile_gpu.frag<64x8xbf16, b, warp> -> !tile_gpu.frag<16x8xf32, acc, warp>
    // expected-error @below {{may overtake a read of the slot into registers; expected after(...) to name a value computed from it}}
    tile_gpu.ring.release %ring[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// Naming a value that the read does not reach is no dependence.
tile_gpu.kernel @release_after_another(%z: !tile_gpu.frag<16x8xf32, acc, warp>, %q: !tile_gpu.frag<64x8xbf16, b, warp>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "four" warps(4) {
  ^bb0(%wg: i32):
    %tile = tile_gpu.ring.wait %ring[%c0] : !ring
    %k = tile_gpu.smem.slice %tile[%c0, %c0] : !half -> !tile_gpu.smem<16x64xbf16 swizzle 128 pitch 64>
    // expected-note @below {{read here}}
    %s = tile_gpu.mma.sync %k, %q, %z : !tile_gpu.smem<16x64xbf16 swizzle 128 pitch 64>, !tile_gpu.frag<64x8xbf16, b, warp> -> !tile_gpu.frag<16x8xf32, acc, warp>
    // expected-error @below {{may overtake a read of the slot into registers; expected after(...) to name a value computed from it}}
    tile_gpu.ring.release %ring[%c0] after(%z : !tile_gpu.frag<16x8xf32, acc, warp>) : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @release_under_copy(%m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %dq = tile_gpu.ring.create warps producers(4) consumers(1) : !tile_gpu.ring<1, 64x64xf32>
  tile_gpu.role "reduce" warps(1) {
  ^bb0(%wg: i32):
    %d = tile_gpu.ring.wait %dq[%c0] : !tile_gpu.ring<1, 64x64xf32>
    // expected-note @below {{copy started here}}
    tile_gpu.bulk.reduce %d, %m[%c0, %c0] : !tile_gpu.smem<64x64xf32>, memref<?x?xf32>
    // expected-error @below {{releases a slot that a bulk copy reads; expected bulk.wait before}}
    tile_gpu.ring.release %dq[%c0] : !tile_gpu.ring<1, 64x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// Shared memory is another block's when this one has ended.
tile_gpu.kernel @end_under_copy(%o: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>) {
  %c0 = arith.constant 0 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-error @below {{may still read its tile when the role ends; expected bulk.wait before}}
    tile_gpu.bulk.store %s, %o[%c0, %c0] : !half, !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// Without the branch's copy the first is the last.
tile_gpu.kernel @write_past_a_branch(%f: !a, %c: i1, %o: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>) {
  %c0 = arith.constant 0 : i32
  %s = tile_gpu.smem.alloc : !half
  %s2 = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-note @below {{copy started here}}
    tile_gpu.bulk.store %s, %o[%c0, %c0] : !half, !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
    scf.if %c {
      tile_gpu.bulk.store %s2, %o[%c0, %c0] : !half, !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
    }
    tile_gpu.bulk.wait pending(1)
    // expected-error @below {{writes a tile that a bulk copy reads; expected bulk.wait before}}
    tile_gpu.frag.store %f, %s : !a, !half
    tile_gpu.bulk.wait pending(0)
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// The copy of one iteration and the store of the next.
tile_gpu.kernel @write_under_copy(%f: !a, %n: i32, %o: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    scf.for %i = %c0 to %n step %c1 : i32 {
      // expected-error @below {{writes a tile that a bulk copy reads; expected bulk.wait before}}
      tile_gpu.frag.store %f, %s : !a, !half
      // expected-note @below {{copy started here}}
      tile_gpu.bulk.store %s, %o[%c0, %c0] : !half, !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @write_under_product(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-note @below {{product issued here}}
    %t = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    // expected-error @below {{writes a tile that a product in flight reads; expected its mma.wait before}}
    tile_gpu.smem.clear_rows %s from(%n) : !half
    %r = tile_gpu.mma.wait %t pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @exchange_too_early(%f: !a, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ds = tile_gpu.ring.create exchange producers(4) : !ring
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.exchange %f, %ds[%c0] at(%c0, %c0) : !a, !ring
    %s = tile_gpu.ring.wait %ds[%c0] : !ring
    %t = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    // expected-error @below {{expected at most 0 product(s) in flight that read this ring of 2 slots, but got 1; wait for them first, or give the ring more slots}}
    tile_gpu.exchange %f, %ds[%c1] at(%c0, %c0) : !a, !ring
    %r = tile_gpu.mma.wait %t pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// The part may be stored, but the others must not read it yet.
tile_gpu.kernel @exchange_committed_too_early(%f: !a, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ds = tile_gpu.ring.create exchange producers(4) : !ring
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.exchange %f, %ds[%c0] at(%c0, %c0) : !a, !ring
    %s = tile_gpu.ring.wait %ds[%c0] : !ring
    %t = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    tile_gpu.exchange %f, %ds[%c1] at(%c0, %c0) uncommitted : !a, !ring
    // expected-error @below {{expected at most 0 product(s) in flight that read this ring of 2 slots, but got 1; wait for them first, or give the ring more slots}}
    tile_gpu.ring.commit %ds[%c1] : !ring
    %r = tile_gpu.mma.wait %t pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// The empty barrier would wait for ever.
tile_gpu.kernel @arrivals(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-error @below {{expected the roles that release it to have 8 warps, but got 4}}
  %ring = tile_gpu.ring.create tma consumers(8) : !ring
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %k = tile_gpu.ring.wait %ring[%c0] : !ring
    tile_gpu.ring.release %ring[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>

// The full barrier would wait for ever.
tile_gpu.kernel @commits() {
  %c0 = arith.constant 0 : i32
  // expected-error @below {{expected the roles that fill it to have 4 warps, but got 2}}
  %ring = tile_gpu.ring.create warps producers(4) consumers(4) : !ring
  tile_gpu.role "fill" warps(2) {
  ^bb0(%w: i32):
    %k = tile_gpu.ring.acquire %ring[%c0] : !ring
    tile_gpu.ring.commit %ring[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.role "read" warpgroups(1) {
  ^bb0(%wg: i32):
    %k = tile_gpu.ring.wait %ring[%c0] : !ring
    tile_gpu.ring.release %ring[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>

// Both warpgroups would wait for the first one's rows.
tile_gpu.kernel @members(%n: i32) {
  %c2 = arith.constant 2 : i32
  %ring = tile_gpu.ring.create tma consumers(4) members(2) : !ring
  tile_gpu.role "two" warpgroups(2) {
  ^bb0(%wg: i32):
    %use = arith.muli %n, %c2 : i32
    %k = tile_gpu.ring.wait %ring[%use] : !ring
    // expected-error @below {{expected a role of 2 members, and the use x * 2 + number of the member, of a ring that they take in turn}}
    tile_gpu.ring.release %ring[%use] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x64xbf16 swizzle 128>

// Each waits for its own rows, and reads the first one's.
tile_gpu.kernel @member_view(%n: i32) {
  %c2 = arith.constant 2 : i32
  %ring = tile_gpu.ring.create tma consumers(4) members(2) : !ring
  tile_gpu.role "two" warpgroups(2) {
  ^bb0(%wg: i32):
    %first = arith.muli %n, %c2 : i32
    %use = arith.addi %first, %wg : i32
    %k = tile_gpu.ring.wait %ring[%use] : !ring
    // expected-error @below {{expected a role of 2 members, and the use x * 2 + number of the member, of a ring that they take in turn}}
    %v = tile_gpu.ring.view %ring[%first] : !ring
    tile_gpu.ring.release %ring[%use] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!ring = !tile_gpu.ring<3, 64x64xbf16 swizzle 128>

// Uses of three members, taken by two.
tile_gpu.kernel @member_count(%n: i32) {
  %c3 = arith.constant 3 : i32
  // expected-error @below {{expected the roles that release it to have 12 warps, but got 8}}
  %ring = tile_gpu.ring.create tma consumers(4) members(3) : !ring
  tile_gpu.role "two" warpgroups(2) {
  ^bb0(%wg: i32):
    %first = arith.muli %n, %c3 : i32
    %use = arith.addi %first, %wg : i32
    %k = tile_gpu.ring.wait %ring[%use] : !ring
    tile_gpu.ring.release %ring[%use] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @two_leads(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-error @below {{expected one foreach of this schedule to lead, but got 2}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32):
    tile_gpu.yield %c0, %n : i32, i32
  }
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%t: i32, %h: i32, %b: i32, %x: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.foreach %s lead {
    ^bb0(%t: i32, %h: i32, %b: i32, %x: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!kv = !tile_gpu.smem<16x16xbf16 swizzle 32>
!ring = !tile_gpu.ring<1, 16x16xbf16 swizzle 32>
!b = !tile_gpu.frag<16x16xbf16, b, warp>

// The next copy may overtake another warp's read: nothing lets it wait.
tile_gpu.kernel @group_refilled(%m: memref<?x?xbf16>, %n: i32, %out: memref<?x?xbf16>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = tile_gpu.ring.create cp_group producers(4) : !ring
  tile_gpu.role "one" warps(4) {
  ^bb0(%warp: i32):
    scf.for %i = %c0 to %n step %c1 : i32 {
      // expected-error @below {{may fill a slot that other warps still read; expected ring.wait or barrier.sync after the last read}}
      %to = tile_gpu.ring.acquire %ring[%i] : !ring
      tile_gpu.ring.load %m[%i, %c0], %to : memref<?x?xbf16>, !kv
      tile_gpu.ring.commit %ring[%i] : !ring
      // expected-note @below {{read from here}}
      %t = tile_gpu.ring.wait %ring[%i] : !ring
      %f = tile_gpu.frag.load %t : !kv -> !b
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!kv = !tile_gpu.smem<16x16xbf16 swizzle 32>
!ring = !tile_gpu.ring<2, 16x16xbf16 swizzle 32>
!b = !tile_gpu.frag<16x16xbf16, b, warp>

// With two slots the copy of the next use is free once all wait for this one;
// that of the use after it is not.
tile_gpu.kernel @group_too_far(%m: memref<?x?xbf16>, %n: i32, %far: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = tile_gpu.ring.create cp_group producers(4) : !ring
  tile_gpu.role "one" warps(4) {
  ^bb0(%warp: i32):
    %first = tile_gpu.ring.acquire %ring[%c0] : !ring
    tile_gpu.ring.load %m[%c0, %c0], %first : memref<?x?xbf16>, !kv
    tile_gpu.ring.commit %ring[%c0] : !ring
    scf.for %i = %c0 to %n step %c1 : i32 {
      // expected-note @below {{read from here}}
      %t = tile_gpu.ring.wait %ring[%i] : !ring
      %f = tile_gpu.frag.load %t : !kv -> !b
      %next = arith.addi %i, %c1 : i32
      %to = tile_gpu.ring.acquire %ring[%next] : !ring
      tile_gpu.ring.load %m[%next, %c0], %to : memref<?x?xbf16>, !kv
      tile_gpu.ring.commit %ring[%next] : !ring
      %second = arith.addi %i, %c2 : i32
      // expected-error @below {{may fill a slot that other warps still read; expected ring.wait or barrier.sync after the last read}}
      %too = tile_gpu.ring.acquire %ring[%second] : !ring
      tile_gpu.ring.load %m[%second, %c0], %too : memref<?x?xbf16>, !kv
      tile_gpu.ring.commit %ring[%second] : !ring
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>

tile_gpu.kernel @fillers(%m: memref<?x?xbf16>) {
  %c0 = arith.constant 0 : i32
  // expected-error @below {{expected the roles that fill it to have 8 warps, but got 4}}
  %r = tile_gpu.ring.create cp_async producers(8) consumers(4) : !ring
  tile_gpu.role "load" warps(4) {
  ^bb0(%w: i32):
    %s = tile_gpu.ring.acquire %r[%c0] : !ring
    tile_gpu.ring.load %m[%c0, %c0], %s : memref<?x?xbf16>, !tile_gpu.smem<64x64xbf16 swizzle 128>
    tile_gpu.ring.commit %r[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.role "read" warps(4) {
  ^bb0(%w: i32):
    %s = tile_gpu.ring.wait %r[%c0] : !ring
    tile_gpu.ring.release %r[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}
