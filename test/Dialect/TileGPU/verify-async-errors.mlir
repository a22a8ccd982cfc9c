// RUN: attn-opt %s --tile-gpu-verify-async --split-input-file --verify-diagnostics

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @never_waited(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-error @below {{has a token that is never waited for; expected one mma.wait}}
    %t = tile_gpu.mma.issue %s, %s : !half, !half -> !t
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

tile_gpu.kernel @waited_twice(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-error @below {{has a token with several uses; expected one, by an mma.wait or a loop that carries it}}
    %t = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    %r = tile_gpu.mma.wait %t pending(0) : !t
    %q = tile_gpu.mma.wait %t pending(0) : !t
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

// ptxas deletes a product whose accumulator nobody reads.
tile_gpu.kernel @never_read(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %t = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    // expected-error @below {{gives an accumulator that is never read; expected a use (the assembler deletes such products)}}
    %r = tile_gpu.mma.wait %t pending(0) : !t
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

tile_gpu.kernel @accumulator_in_flight(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-note @below {{product issued here}}
    %t = tile_gpu.mma.issue %s, %s acc(%f) : !half, !half -> !t
    // expected-error @below {{uses an accumulator that a product has taken; expected the result of its mma.wait}}
    tile_gpu.global.store %f, %m[%c0, %c0] : !c, memref<?x?xf32>
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

// The wait gives new values to the same registers: the old ones are gone.
tile_gpu.kernel @accumulator_after_wait(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-note @below {{product issued here}}
    %t = tile_gpu.mma.issue %s, %s acc(%f) : !half, !half -> !t
    %r = tile_gpu.mma.wait %t pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    // expected-error @below {{uses an accumulator that a product has taken; expected the result of its mma.wait}}
    tile_gpu.global.store %f, %m[%c0, %c0] : !c, memref<?x?xf32>
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

tile_gpu.kernel @fragment_in_flight(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %a = tile_gpu.frag.convert %f : !c -> !a
    // expected-note @below {{product issued here}}
    %t = tile_gpu.mma.issue %a, %s : !a, !half -> !t
    // expected-error @below {{uses an A fragment that a product in flight reads; expected the product's mma.wait before}}
    tile_gpu.frag.store %a, %s : !a, !half
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

// P of the next tile packed before P V of this one has ended: it gets the
// registers that the product reads (C7513).
tile_gpu.kernel @next_fragment_too_early(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %a0 = tile_gpu.frag.convert %f : !c -> !a
    %z = arith.constant 0.0 : f32
    %o0 = tile_gpu.frag.fill %z : f32 -> !c
    %o:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %a0, %acc = %o0) -> (!a, !c) : i32 {
      // expected-note @below {{product issued here}}
      %t = tile_gpu.mma.issue %a, %s acc(%acc) : !a, !half -> !t
      // expected-error @below {{computes the next iteration's A fragment while a product reads this one's; expected it after the product's mma.wait}}
      %a1 = tile_gpu.frag.convert %f : !c -> !a
      %acc1 = tile_gpu.mma.wait %t pending(0) : !t
      scf.yield %a1, %acc1 : !a, !c
    }
    tile_gpu.global.store %o#1, %m[%c0, %c0] : !c, memref<?x?xf32>
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

// The scores of the next tile in flight over the back edge (C7514).
tile_gpu.kernel @fresh_over_back_edge(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %t0 = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    %tn = scf.for %i = %c0 to %n step %c1 iter_args(%tk = %t0) -> (!t) : i32 {
      %r = tile_gpu.mma.wait %tk pending(0) : !t
      tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
      // expected-error @below {{starts from zero and is in flight across the end of the loop body; expected its mma.wait before the end (the assembler serialises such products)}}
      %t1 = tile_gpu.mma.issue %s, %s : !half, !half -> !t
      scf.yield %t1 : !t
    }
    %r = tile_gpu.mma.wait %tn pending(0) : !t
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

tile_gpu.kernel @too_many_pending(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %x = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    %y = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    // expected-error @below {{expected at most 1 pending, the products issued after the last one waited for here, but got 2}}
    %r = tile_gpu.mma.wait %x pending(2) : !t
    %r2 = tile_gpu.mma.wait %y pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.global.store %r2, %m[%c0, %c0] : !c, memref<?x?xf32>
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

// Products end in order: one pending may be the very one waited for.
tile_gpu.kernel @wait_for_the_younger(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %x = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    %y = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    // expected-error @below {{expected at most 0 pending, the products issued after the last one waited for here, but got 1}}
    %r = tile_gpu.mma.wait %y pending(1) : !t
    %r2 = tile_gpu.mma.wait %x pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.global.store %r2, %m[%c0, %c0] : !c, memref<?x?xf32>
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

tile_gpu.kernel @open_at_loop_end(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    scf.for %i = %c0 to %n step %c1 : i32 {
      // expected-error @below {{has a token that is never waited for; expected one mma.wait}}
      %x = tile_gpu.mma.issue %s, %s acc(%f) : !half, !half -> !t
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

tile_gpu.kernel @wait_inside_loop(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %x = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    scf.for %i = %c0 to %n step %c1 : i32 {
      // expected-error @below {{waits for a product issued outside this loop or branch; expected the loop to carry the token, or the wait outside}}
      %r = tile_gpu.mma.wait %x pending(0) : !t
      tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
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

tile_gpu.kernel @wait_in_one_branch(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %x = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    %some = arith.cmpi sgt, %n, %c0 : i32
    scf.if %some {
      // expected-error @below {{waits for a product issued outside this loop or branch; expected the loop to carry the token, or the wait outside}}
      %r = tile_gpu.mma.wait %x pending(0) : !t
      tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
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

tile_gpu.kernel @accumulator_from_outside(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    scf.for %i = %c0 to %n step %c1 : i32 {
      // expected-error @below {{takes an accumulator from outside the loop in every iteration; expected the loop to carry it}}
      %x = tile_gpu.mma.issue %s, %s acc(%f) : !half, !half -> !t
      %r = tile_gpu.mma.wait %x pending(0) : !t
      tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
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

tile_gpu.kernel @unstructured_loop(%f: !c, %n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    scf.while : () -> () {
      // expected-error @below {{expected asynchronous products in scf.for, scf.if and tile_gpu.foreach only, but got scf.while}}
      %x = tile_gpu.mma.issue %s, %s : !half, !half -> !t
      %r = tile_gpu.mma.wait %x pending(0) : !t
      tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
      %some = arith.cmpi sgt, %n, %c0 : i32
      scf.condition(%some)
    } do {
      scf.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @branch_gives_token(%p: i1, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected products to be waited for in the branch that issued them}}
    %t = scf.if %p -> (!t) {
      %a = tile_gpu.mma.issue %s, %s : !half, !half -> !t
      scf.yield %a : !t
    } else {
      %b = tile_gpu.mma.issue %s, %s : !half, !half -> !t
      scf.yield %b : !t
    }
    %r = tile_gpu.mma.wait %t pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @over_blocks(%m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %s = tile_gpu.smem.alloc : !half
  // expected-error @below {{expected the product to be waited for before the kernel ends}}
  %t = tile_gpu.mma.issue %s, %s : !half, !half -> !t
  cf.br ^bb1
^bb1:
  %r = tile_gpu.mma.wait %t pending(0) : !t
  tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @issued_outside(%m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %s = tile_gpu.smem.alloc : !half
  %t = tile_gpu.mma.issue %s, %s : !half, !half -> !t
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected the token of a product in flight here}}
    %r = tile_gpu.mma.wait %t pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @argument(%t: !t, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected the token of a product in flight here}}
    %r = tile_gpu.mma.wait %t pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// A branch gives a token on.
tile_gpu.kernel @branch(%k: !half, %p: i1, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %t = tile_gpu.mma.issue %k, %k : !half, !half -> !t
    %u = scf.if %p -> !t {
      // expected-error @below {{uses a token; expected mma.wait or a loop that carries it}}
      scf.yield %t : !t
    } else {
      %other = tile_gpu.mma.issue %k, %k : !half, !half -> !t
      scf.yield %other : !t
    }
    %s = tile_gpu.mma.wait %u pending(0) : !t
    tile_gpu.global.store %s, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
