// RUN: attn-opt %s --tile-gpu-verify-async --split-input-file --verify-diagnostics

tile_gpu.kernel @never_passed(%n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    scf.for %i = %c0 to %n step %c1 : i32 {
      // expected-error @below {{expected a turn.pass of the same barrier behind it in its block; the others wait for it}}
      tile_gpu.turn.wait %turns[%wg]
    }
    tile_gpu.turn.pass %turns[%wg]
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @never_taken() {
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected a turn.wait of the same barrier before it in its block}}
    tile_gpu.turn.pass %turns[%wg]
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @taken_twice() {
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    // expected-note @below {{turn taken here}}
    tile_gpu.turn.wait %turns[%wg]
    // expected-error @below {{expected the turn before to be passed first}}
    tile_gpu.turn.wait %turns[%wg]
    tile_gpu.turn.pass %turns[%wg]
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @within(%n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    // expected-note @below {{turn taken here}}
    tile_gpu.turn.wait %turns[%wg]
    // expected-error @below {{takes turns within a turn; expected it behind the turn.pass}}
    scf.for %i = %c0 to %n step %c1 : i32 {
      tile_gpu.turn.wait %turns[%wg]
      tile_gpu.turn.pass %turns[%wg]
    }
    tile_gpu.turn.pass %turns[%wg]
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @too_few_barriers() {
  // expected-note @below {{barrier made here}}
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(3) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected a barrier of warps(8) each(3), for the warps of who passes the turn and who takes it}}
    tile_gpu.turn.wait %turns[%wg]
    tile_gpu.turn.pass %turns[%wg]
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @alone() {
  %turns = tile_gpu.barrier.create warps(8)
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected a role of two warpgroups or more, which take turns, but got 1 warpgroup}}
    tile_gpu.turn.wait %turns[%wg]
    tile_gpu.turn.pass %turns[%wg]
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @warps() {
  %turns = tile_gpu.barrier.create warps(8)
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    // expected-error @below {{expected a role of two warpgroups or more, which take turns, but got 4 warps}}
    tile_gpu.turn.wait %turns[%warp]
    tile_gpu.turn.pass %turns[%warp]
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @also_synced() {
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected a barrier that only the turns of this role use}}
    tile_gpu.turn.wait %turns[%wg]
    tile_gpu.turn.pass %turns[%wg]
    // expected-note @below {{used here}}
    tile_gpu.barrier.sync %turns[%wg]
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @not_the_member() {
  %c1 = arith.constant 1 : i32
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected the role's own number as the member}}
    tile_gpu.turn.wait %turns[%c1]
    tile_gpu.turn.pass %turns[%wg]
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

// A member with fewer rounds leaves the others waiting.
tile_gpu.kernel @own_rounds(%n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    %own = arith.subi %n, %wg : i32
    // expected-error @below {{takes turns, and may end earlier for one member than for another; expected a loop behind it that takes the turns left out}}
    scf.for %i = %c0 to %own step %c1 : i32 {
      tile_gpu.turn.wait %turns[%wg]
      tile_gpu.turn.pass %turns[%wg]
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

// The loop behind takes two turns a round.
tile_gpu.kernel @other_turns(%n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    %own = arith.subi %n, %wg : i32
    // expected-error @below {{may end earlier for one member than for another}}
    %r = scf.for %i = %c0 to %own step %c1 iter_args(%c = %c0) -> (i32) : i32 {
      tile_gpu.turn.wait %turns[%wg]
      tile_gpu.turn.pass %turns[%wg]
      %next = arith.addi %c, %c1 : i32
      scf.yield %next : i32
    }
    scf.for %i = %r to %n step %c1 : i32 {
      tile_gpu.turn.wait %turns[%wg]
      tile_gpu.turn.pass %turns[%wg]
      tile_gpu.turn.wait %turns[%wg]
      tile_gpu.turn.pass %turns[%wg]
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

// The bound that is made up for is the member's own as well.
tile_gpu.kernel @own_bound(%n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    %own = arith.subi %n, %wg : i32
    // expected-error @below {{may end earlier for one member than for another}}
    %r = scf.for %i = %c0 to %own step %c1 iter_args(%c = %c0) -> (i32) : i32 {
      tile_gpu.turn.wait %turns[%wg]
      tile_gpu.turn.pass %turns[%wg]
      %next = arith.addi %c, %c1 : i32
      scf.yield %next : i32
    }
    %end = arith.addi %own, %c1 : i32
    scf.for %i = %r to %end step %c1 : i32 {
      tile_gpu.turn.wait %turns[%wg]
      tile_gpu.turn.pass %turns[%wg]
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @own_condition() {
  %c0 = arith.constant 0 : i32
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    %first = arith.cmpi eq, %wg, %c0 : i32
    // expected-error @below {{takes turns under a condition that may differ between members; expected one that all have}}
    scf.if %first {
      tile_gpu.turn.wait %turns[%wg]
      tile_gpu.turn.pass %turns[%wg]
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @another_loop() {
  %true = arith.constant true
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected turns in scf.for, scf.if and tile_gpu.foreach only}}
    scf.while : () -> () {
      scf.condition(%true)
    } do {
      tile_gpu.turn.wait %turns[%wg]
      tile_gpu.turn.pass %turns[%wg]
      scf.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

// The others give their parts when they have had the turn.
tile_gpu.kernel @parts_within() {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %turns = tile_gpu.barrier.create warps(8) each(2)
  %ring = tile_gpu.ring.create exchange producers(8) : !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    %x = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.frag<64x64xf32, acc>
    %part = tile_gpu.frag.convert %x : !tile_gpu.frag<64x64xf32, acc> -> !tile_gpu.frag<64x64xbf16, a>
    %col = arith.muli %wg, %c64 : i32
    tile_gpu.turn.wait %turns[%wg]
    // expected-note @below {{own part given here}}
    tile_gpu.exchange %part, %ring[%c0] at(%c0, %col) transposed : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
    // expected-error @below {{waits within a turn for the parts of members that wait for it}}
    %all = tile_gpu.ring.wait %ring[%c0] : !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
    tile_gpu.turn.pass %turns[%wg]
    tile_gpu.yield
  }
  tile_gpu.return
}
