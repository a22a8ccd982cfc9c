// RUN: attn-opt %s --convert-tile-to-tile-gpu -split-input-file -verify-diagnostics

tile_gpu.kernel @rows(%z: f32) {
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-error @+1 {{expected the rows of a warpgroup acc fragment to be a multiple of 64, but got 96}}
    %o = tile.fill %z : f32 -> !tile.tile<96x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @outside(%z: f32) {
  // expected-error @+1 {{expected tile ops inside of a tile_gpu.role}}
  %o = tile.fill %z : f32 -> !tile.tile<64x64xf32>
  tile_gpu.return
}

// -----

tile_gpu.kernel @rows_left(%n: index) {
  %z = arith.constant 0.0 : f32
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %o = tile.fill %z : f32 -> !tile.tile<64x64xf32>
    // expected-error @+1 {{expected tiles in tile ops of one member's rows, scf.for, scf.if and tile_gpu.foreach only}}
    %r = tile.rows 16 outs(%o : !tile.tile<64x64xf32>) {
    ^bb0(%i: index, %x: !tile.tile<16x64xf32>):
      tile.yield %x : !tile.tile<16x64xf32>
    } -> !tile.tile<64x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @right_operand(%q: !tile_gpu.frag<16x64xbf16, a, warp>, %V: memref<?x64xbf16>) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %a = builtin.unrealized_conversion_cast %q : !tile_gpu.frag<16x64xbf16, a, warp> to !tile.tile<16x64xbf16>
    %v = tile.load %V[%c0, %c0] : memref<?x64xbf16> -> !tile.tile<64x64xbf16>
    // expected-error @+1 {{expected a right operand in shared memory, but got '!tile_gpu.frag<64x64xbf16, a, warp>'}}
    %s = tile.dot %a, %v : !tile.tile<16x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<16x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @f32_on_warpgroup(%q: !tile_gpu.smem<64x64xf32 swizzle 128>, %k: !tile_gpu.smem<64x64xf32 swizzle 128>) {
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %a = builtin.unrealized_conversion_cast %q : !tile_gpu.smem<64x64xf32 swizzle 128> to !tile.tile<64x64xf32>
    %b = builtin.unrealized_conversion_cast %k : !tile_gpu.smem<64x64xf32 swizzle 128> to !tile.tile<64x64xf32>
    // expected-error @+1 {{expected operands of bf16 or f16 on a warpgroup, but got 'f32'}}
    %s = tile.dot %a, %b transpose_rhs : !tile.tile<64x64xf32>, !tile.tile<64x64xf32> -> !tile.tile<64x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @live(%V: memref<?x64xf32>, %v: !tile_gpu.vec<16xi1, col, warp>) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %live = builtin.unrealized_conversion_cast %v : !tile_gpu.vec<16xi1, col, warp> to !tile.tile<1x16xi1>
    // expected-error @+1 {{expected live rows with tiles in shared memory only}}
    %t = tile.load %V[%c0, %c0] live %live : !tile.tile<1x16xi1> : memref<?x64xf32> -> !tile.tile<16x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @cast(%z: f32) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %t = tile.fill %z : f32 -> !tile.tile<16x64xf32>
    // expected-error @+1 {{expected a cast to '!tile_gpu.frag<16x64xf32, acc, warp>', which holds the tile}}
    %f = builtin.unrealized_conversion_cast %t : !tile.tile<16x64xf32> to !tile_gpu.frag<16x64xbf16, acc, warp>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @mapped_memory(%q: !tile_gpu.smem<16x32xf32 swizzle 128>) {
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %t = builtin.unrealized_conversion_cast %q : !tile_gpu.smem<16x32xf32 swizzle 128> to !tile.tile<16x32xf32>
    // expected-error @+1 {{expected tiles in registers, of one row, or of 16 bits, but got '!tile_gpu.smem<16x32xf32 swizzle 128>'}}
    %m = tile.map ins(%t : !tile.tile<16x32xf32>) {
    ^bb0(%i: i32, %j: i32, %x: f32):
      tile.yield %x : f32
    } -> !tile.tile<16x32xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @stored_memory(%q: !tile_gpu.smem<16x64xbf16 swizzle 128>, %O: memref<?x64xbf16>) {
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %c0 = arith.constant 0 : index
    %t = builtin.unrealized_conversion_cast %q : !tile_gpu.smem<16x64xbf16 swizzle 128> to !tile.tile<16x64xbf16>
    // expected-error @+1 {{expected a tile in registers, but got '!tile_gpu.smem<16x64xbf16 swizzle 128>'}}
    tile.store %t, %O[%c0, %c0] : !tile.tile<16x64xbf16>, memref<?x64xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @any_of_memory(%q: !tile_gpu.smem<16x64xi32>) {
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %t = builtin.unrealized_conversion_cast %q : !tile_gpu.smem<16x64xi32> to !tile.tile<16x64xi1>
    // expected-error @+1 {{expected a tile in registers, but got '!tile_gpu.smem<16x64xi32>'}}
    %a = tile.any %t : !tile.tile<16x64xi1>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @rounded_row(%z: f32) {
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %o = tile.fill %z : f32 -> !tile.tile<16x1xf32>
    // expected-error @+1 {{expected vectors of f32, i1 or i32, but got '!tile.tile<16x1xbf16>'}}
    %m = tile.map ins(%o : !tile.tile<16x1xf32>) {
    ^bb0(%i: i32, %j: i32, %x: f32):
      %y = arith.truncf %x : f32 to bf16
      tile.yield %y : bf16
    } -> !tile.tile<16x1xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @another_cast(%z: f32) {
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %o = tile.fill %z : f32 -> !tile.tile<16x64xf32>
    // expected-error @+1 {{expected a cast to '!tile_gpu.frag<16x64xf32, acc, warp>', which holds the tile, but got '!tile_gpu.vec<16xf32, row, warp>'}}
    %c = builtin.unrealized_conversion_cast %o : !tile.tile<16x64xf32> to !tile_gpu.vec<16xf32, row, warp>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @left_operand(%q: !tile_gpu.frag<16x64xbf16, acc, warp>, %v: !tile_gpu.smem<64x64xbf16 swizzle 128>) {
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %a = builtin.unrealized_conversion_cast %q : !tile_gpu.frag<16x64xbf16, acc, warp> to !tile.tile<16x64xbf16>
    %b = builtin.unrealized_conversion_cast %v : !tile_gpu.smem<64x64xbf16 swizzle 128> to !tile.tile<64x64xbf16>
    // expected-error @+1 {{expected a left operand in shared memory, or made by tile.map or tile.load, but got '!tile_gpu.frag<16x64xbf16, acc, warp>'}}
    %s = tile.dot %a, %b : !tile.tile<16x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<16x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @reduced_row(%z: f32) {
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %t = tile.fill %z : f32 -> !tile.tile<1x64xf32>
    // expected-error @+1 {{expected tiles of several rows and columns in registers, but got '!tile_gpu.vec<64xf32, col, warp>'}}
    %r = tile.reduce ins(%t : !tile.tile<1x64xf32>) identity(%z : f32) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } -> !tile.tile<1x1xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @scanned_memory(%q: !tile_gpu.smem<16x64xf32>, %z: f32) {
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %t = builtin.unrealized_conversion_cast %q : !tile_gpu.smem<16x64xf32> to !tile.tile<16x64xf32>
    // expected-error @+1 {{expected tiles of several rows and columns in registers, but got '!tile_gpu.smem<16x64xf32>'}}
    %r = tile.scan ins(%t : !tile.tile<16x64xf32>) identity(%z : f32) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } -> !tile.tile<16x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @fold_on_warpgroups(%s: f32) {
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %t = tile.fill %s : f32 -> !tile.tile<64x64xf32>
    %m = tile.fill %s : f32 -> !tile.tile<64x1xf32>
    // expected-error @+1 {{expected a role of warps}}
    %r = tile.fold scores(%t : !tile.tile<64x64xf32>) states(%m : !tile.tile<64x1xf32>) {
    ^bb0(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tile.yield %z : f32
    } -> !tile.tile<64x1xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @fold_scores(%q: !tile_gpu.smem<16x64xf32>, %s: f32) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%w: i32):
    %t = builtin.unrealized_conversion_cast %q : !tile_gpu.smem<16x64xf32> to !tile.tile<16x64xf32>
    %m = tile.fill %s : f32 -> !tile.tile<16x1xf32>
    // expected-error @+1 {{expected f32 scores in registers, but got '!tile_gpu.smem<16x64xf32>'}}
    %r = tile.fold scores(%t : !tile.tile<16x64xf32>) states(%m : !tile.tile<16x1xf32>) {
    ^bb0(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tile.yield %z : f32
    } -> !tile.tile<16x1xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @fold_values(%s: f32) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%w: i32):
    %t = tile.fill %s : f32 -> !tile.tile<16x64xf32>
    %v = tile.fill %s : f32 -> !tile.tile<64x64xf32>
    %m = tile.fill %s : f32 -> !tile.tile<16x64xf32>
    // expected-error @+1 {{expected f32 values in shared memory, but got '!tile_gpu.frag<64x64xf32, acc, warp>' for elements of 'f32'}}
    %r = tile.fold scores(%t : !tile.tile<16x64xf32>) values(%v : !tile.tile<64x64xf32>) states(%m : !tile.tile<16x64xf32>) {
    ^bb0(%i: i32, %j: i32, %x: f32, %y: f32, %u: f32):
      %z = arith.addf %x, %y : f32
      tile.yield %z : f32
    } -> !tile.tile<16x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @fold_states(%q: !tile_gpu.smem<16x64xf32>, %s: f32) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%w: i32):
    %t = tile.fill %s : f32 -> !tile.tile<16x64xf32>
    %m = builtin.unrealized_conversion_cast %q : !tile_gpu.smem<16x64xf32> to !tile.tile<16x1xf32>
    // expected-error @+1 {{expected states in registers, but got '!tile_gpu.smem<16x64xf32>'}}
    %r = tile.fold scores(%t : !tile.tile<16x64xf32>) states(%m : !tile.tile<16x1xf32>) {
    ^bb0(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tile.yield %z : f32
    } -> !tile.tile<16x1xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @load_column(%V: memref<?x64xf32>) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    // expected-error @+1 {{expected a vector load of a tile of one column}}
    %t = tile.load %V[%c0, %c0] : memref<?x64xf32> -> !tile.tile<16x1xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @load_row(%V: memref<?x64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    // expected-error @+1 {{expected no bounds on a tile of one row}}
    %t = tile.load %V[%c0, %c0] rows(%c0 to %n) : memref<?x64xf32> -> !tile.tile<1x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @load_lower(%V: memref<?x64xbf16>, %lo: index, %n: index) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    // expected-error @+1 {{expected a 16-bit tile to start at its first row, but got a lower bound beyond}}
    %t = tile.load %V[%c0, %c0] rows(%lo to %n) : memref<?x64xbf16> -> !tile.tile<16x64xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @store_column(%O: memref<?x64xf32>, %z: f32) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %t = tile.fill %z : f32 -> !tile.tile<16x1xf32>
    // expected-error @+1 {{expected a vector store of a tile of one column}}
    tile.store %t, %O[%c0, %c0] : !tile.tile<16x1xf32>, memref<?x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @store_lower(%O: memref<?x64xf32>, %z: f32, %lo: index, %n: index) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %t = tile.fill %z : f32 -> !tile.tile<16x64xf32>
    // expected-error @+1 {{expected the lower bound of the rows to be at most the first row of the tile}}
    tile.store %t, %O[%c0, %c0] rows(%lo to %n) : !tile.tile<16x64xf32>, memref<?x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @carried(%q: !tile_gpu.smem<16x64xf32>, %z: f32, %n: i32) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %t = tile.fill %z : f32 -> !tile.tile<16x64xf32>
    %s = builtin.unrealized_conversion_cast %q : !tile_gpu.smem<16x64xf32> to !tile.tile<16x64xf32>
    %r = scf.for %i = %n to %n step %n iter_args(%x = %t) -> (!tile.tile<16x64xf32>) : i32 {
      // expected-error @+1 {{expected to yield '!tile_gpu.frag<16x64xf32, acc, warp>', but got '!tile_gpu.smem<16x64xf32>'}}
      scf.yield %s : !tile.tile<16x64xf32>
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @pad(%z: f16) {
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %p = tile.fill %z : f16 -> !tile.tile<64x64xf16>
    // expected-error@+1 {{expected tiles of f32 in registers, but got '!tile_gpu.frag<64x64xf16, acc>'}}
    %w = tile.pad %p first 64 : !tile.tile<64x64xf16> -> !tile.tile<64x128xf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @bits_of_group(%m: memref<64x2xi32>, %c: index) {
  %no = arith.constant false
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %o = tile.fill %no : i1 -> !tile.tile<64x64xi1>
    // expected-error @+1 {{expected a tile in the registers of one warp, but got '!tile_gpu.frag<64x64xi1, acc>'}}
    tile.store_bits %o, %m[] row(%c) column(%c) : !tile.tile<64x64xi1>, memref<64x2xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @transposed_fragment(%p: !tile_gpu.frag<64x64xbf16, a>, %k: !tile_gpu.smem<64x64xbf16 swizzle 128>) {
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %a = builtin.unrealized_conversion_cast %p : !tile_gpu.frag<64x64xbf16, a> to !tile.tile<64x64xbf16>
    %b = builtin.unrealized_conversion_cast %k : !tile_gpu.smem<64x64xbf16 swizzle 128> to !tile.tile<64x64xbf16>
    // expected-error @+1 {{expected a transposed left operand in shared memory, but got '!tile_gpu.frag<64x64xbf16, a>'; a warpgroup's threads hold rows of it: compute the transposed of what it is made of instead}}
    %s = tile.dot %a, %b transpose_lhs : !tile.tile<64x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<64x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @sum_from_within(%X: memref<?x64xf32>, %lower: index, %upper: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile.fill %zero : f32 -> !tile.tile<16x64xf32>
    // expected-error @+1 {{expected the lower bound of the rows to be at most the first row of the tile}}
    tile.accumulate %x, %X[%c0, %c0] rows(%lower to %upper) : !tile.tile<16x64xf32>, memref<?x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @transposed_row(%X: memref<?x1xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %x = tile.fill %zero : f32 -> !tile.tile<1x64xf32>
    // expected-error @+1 {{expected a transposed store of a tile of several rows and columns}}
    tile.store transposed %x, %X[%c0, %c0] : !tile.tile<1x64xf32>, memref<?x1xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

tile_gpu.kernel @exact_parts(%z: bf16, %w: f32) {
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %x = tile.fill %z : bf16 -> !tile.tile<16x32xbf16>
    %y = tile.fill %w : f32 -> !tile.tile<32x16xf32>
    // expected-error @+1 {{expected sides of one type on GPUs, but got '!tile.tile<16x32xbf16>' and '!tile.tile<32x16xf32>'}}
    %o = tile.dot %x, %y : !tile.tile<16x32xbf16>, !tile.tile<32x16xf32> -> !tile.tile<16x16xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
