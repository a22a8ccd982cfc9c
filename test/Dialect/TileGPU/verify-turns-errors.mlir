// RUN: attn-opt %s --tile-verify-async --split-input-file --verify-diagnostics

func.func @never_passed(%n: i32) attributes {tile_gpu.kernel} {
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
  return
}

// -----

func.func @never_taken() attributes {tile_gpu.kernel} {
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected a turn.wait of the same barrier before it in its block}}
    tile_gpu.turn.pass %turns[%wg]
    tile_gpu.yield
  }
  return
}

// -----

func.func @taken_twice() attributes {tile_gpu.kernel} {
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
  return
}

// -----

func.func @within(%n: i32) attributes {tile_gpu.kernel} {
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
  return
}

// -----

func.func @too_few_barriers() attributes {tile_gpu.kernel} {
  // expected-note @below {{barrier made here}}
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(3) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected a barrier of warps(8) each(3), for the warps of who passes the turn and who takes it}}
    tile_gpu.turn.wait %turns[%wg]
    tile_gpu.turn.pass %turns[%wg]
    tile_gpu.yield
  }
  return
}

// -----

func.func @alone() attributes {tile_gpu.kernel} {
  %turns = tile_gpu.barrier.create warps(8)
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected a role of two warpgroups or more, which take turns, but got 1 warpgroup}}
    tile_gpu.turn.wait %turns[%wg]
    tile_gpu.turn.pass %turns[%wg]
    tile_gpu.yield
  }
  return
}

// -----

func.func @warps() attributes {tile_gpu.kernel} {
  %turns = tile_gpu.barrier.create warps(8)
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    // expected-error @below {{expected a role of two warpgroups or more, which take turns, but got 4 warps}}
    tile_gpu.turn.wait %turns[%warp]
    tile_gpu.turn.pass %turns[%warp]
    tile_gpu.yield
  }
  return
}

// -----

func.func @also_synced() attributes {tile_gpu.kernel} {
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
  return
}

// -----

func.func @not_the_member() attributes {tile_gpu.kernel} {
  %c1 = arith.constant 1 : i32
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected the role's own number as the member}}
    tile_gpu.turn.wait %turns[%c1]
    tile_gpu.turn.pass %turns[%wg]
    tile_gpu.yield
  }
  return
}

// -----

// A member with fewer rounds leaves the others waiting.
func.func @own_rounds(%n: i32) attributes {tile_gpu.kernel} {
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
  return
}

// -----

// The loop behind takes two turns a round.
func.func @other_turns(%n: i32) attributes {tile_gpu.kernel} {
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
  return
}

// -----

// The bound that is made up for is the member's own as well.
func.func @own_bound(%n: i32) attributes {tile_gpu.kernel} {
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
  return
}

// -----

func.func @own_condition() attributes {tile_gpu.kernel} {
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
  return
}

// -----

func.func @another_loop() attributes {tile_gpu.kernel} {
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
  return
}
