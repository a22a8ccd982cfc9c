// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @no_bounds(%q: memref<?x64xf16>, %row: index) {
  %zero = arith.constant 0 : index
  // expected-error@+1 {{expected tile.not_cleared to be a unit attribute of a tile.load with bounds alone}}
  %x = tile.load %q[%row, %zero] {tile.not_cleared} : memref<?x64xf16> -> <16x64xf16>
  return
}

// -----

func.func @a_number(%q: memref<?x64xf16>, %row: index, %end: index) {
  %zero = arith.constant 0 : index
  // expected-error@+1 {{expected tile.not_cleared to be a unit attribute of a tile.load with bounds alone}}
  %x = tile.load %q[%row, %zero] rows(%zero to %end) {tile.not_cleared = 1 : i64} : memref<?x64xf16> -> <16x64xf16>
  return
}
