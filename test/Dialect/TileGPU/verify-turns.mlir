// RUN: attn-opt %s --tile-gpu-verify-async | FileCheck %s
// RUN: attn-opt %s %tidy %verify_kernels | FileCheck %s

// Members end two loops with their own rows, one counter going through both;
// the last loop takes the turns that are left out. Conditions and bounds that
// all have in common are free.
// CHECK-LABEL: kernel @made_up
// CHECK-COUNT-5: tile_gpu.turn.wait
tile_gpu.kernel @made_up(%n: i32, %m: i32, %some: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %turns = tile_gpu.barrier.create warps(8) each(2)
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    %own = arith.subi %m, %wg : i32
    %first = arith.subi %own, %c1 : i32
    scf.if %some {
      %a = scf.for %i = %c0 to %first step %c1 iter_args(%c = %n) -> (i32) : i32 {
        tile_gpu.turn.wait %turns[%wg]
        tile_gpu.turn.pass %turns[%wg]
        %next = arith.addi %c, %c1 : i32
        scf.yield %next : i32
      }
      %b = scf.for %i = %first to %own step %c1 iter_args(%c = %a) -> (i32) : i32 {
        tile_gpu.turn.wait %turns[%wg]
        tile_gpu.turn.pass %turns[%wg]
        %next = arith.addi %c, %c1 : i32
        scf.yield %next : i32
      }
      %all = arith.addi %n, %m : i32
      scf.for %c = %b to %all step %c1 : i32 {
        tile_gpu.turn.wait %turns[%wg]
        tile_gpu.turn.pass %turns[%wg]
      }
    } else {
      tile_gpu.turn.wait %turns[%wg]
      tile_gpu.turn.pass %turns[%wg]
    }
    scf.for %i = %c0 to %n step %c1 : i32 {
      tile_gpu.turn.wait %turns[%wg]
      tile_gpu.turn.pass %turns[%wg]
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
