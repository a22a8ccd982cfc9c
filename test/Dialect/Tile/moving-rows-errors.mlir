// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @moves(%x: !tile.tile<16x64xf32>, %y: !tile.tile<64x32xf32>) {
  // expected-error@+1 {{expected tile.moves to be a unit attribute of tile.load}}
  %z = tile.dot %x, %y {tile.moves} : !tile.tile<16x64xf32>, !tile.tile<64x32xf32> -> !tile.tile<16x32xf32>
  return
}

// -----

func.func @number(%q: memref<?x64xf16>, %row: index, %zero: index) {
  // expected-error@+1 {{expected tile.moves to be a unit attribute of tile.load}}
  %x = tile.load %q[%row, %zero] {tile.moves = 1 : i64} : memref<?x64xf16> -> <16x64xf16>
  return
}
