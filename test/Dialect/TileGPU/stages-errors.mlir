// RUN: attn-opt %s --split-input-file --verify-diagnostics

// What runs when has to agree with what is read.
!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>

func.func @kind(%s: !s) {
  // expected-error@+1 {{expected tile_gpu.stage to be a #tile_gpu.stage<stage, order>, but got 1 : i64}}
  %p = tile_gpu.frag.convert %s {tile_gpu.stage = 1} : !s -> !p
  return
}

// -----

!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>

func.func @stage(%s: !s) {
  // expected-error@+1 {{expected stage 0 or 1, but got 2}}
  %p = tile_gpu.frag.convert %s {tile_gpu.stage = #tile_gpu.stage<2, 0>} : !s -> !p
  return
}

// -----

!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>

func.func @negative(%s: !s) {
  // expected-error@+1 {{expected an order of 0 or more, but got -1}}
  %p = tile_gpu.frag.convert %s {tile_gpu.stage = #tile_gpu.stage<0, -1>} : !s -> !p
  return
}

// -----

!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>

func.func @twice(%s: !s) {
  %p = tile_gpu.frag.convert %s {tile_gpu.stage = #tile_gpu.stage<0, 3>} : !s -> !p
  // expected-error@+1 {{expected an order of its own within the block, but got 3 again}}
  %q = tile_gpu.frag.convert %s {tile_gpu.stage = #tile_gpu.stage<1, 3>} : !s -> !p
  return
}

// -----

func.func @end() {
  // expected-error@+1 {{expected no stage on the end of a block}}
  return {tile_gpu.stage = #tile_gpu.stage<0, 3>}
}

// -----

!s = !tile_gpu.frag<64x64xf32, acc>

func.func @order(%s: !s) {
  // expected-note@+1 {{made here}}
  %p = tile_gpu.frag.copy %s {tile_gpu.stage = #tile_gpu.stage<0, 3>} : !s
  // expected-error@+1 {{of stage 0 and order 2 runs before what it reads is made; expected a later stage or order than #tile_gpu.stage<0, 3>}}
  %q = tile_gpu.frag.copy %p {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !s
  return
}

// -----

!s = !tile_gpu.frag<64x64xf32, acc>

func.func @back(%s: !s) {
  // expected-note@+1 {{made here}}
  %p = tile_gpu.frag.copy %s {tile_gpu.stage = #tile_gpu.stage<1, 0>} : !s
  // expected-error@+1 {{of stage 0 and order 2 runs before what it reads is made}}
  %q = tile_gpu.frag.copy %p {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !s
  return
}

// -----

!s = !tile_gpu.frag<64x64xf32, acc>

// In the turn in which stage 1 of a step runs, so does stage 0 of the next.
func.func @carried(%s: !s, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %s) -> (!s) : i32 {
    // expected-error@+1 {{of stage 0 and order 1 runs before what it reads is made; expected a later stage or order than #tile_gpu.stage<1, 2>}}
    %p = tile_gpu.frag.copy %x {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !s
    // expected-note@+1 {{made here}}
    %q = tile_gpu.frag.copy %p {tile_gpu.stage = #tile_gpu.stage<1, 2>} : !s
    scf.yield %q : !s
  }
  return
}
