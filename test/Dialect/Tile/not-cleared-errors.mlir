// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @no_bounds(%q: memref<?x64xf16>, %row: index) {
  %zero = arith.constant 0 : index
  // expected-error@+1 {{expected not_cleared with bounds, and without live}}
  %x = tile.load %q[%row, %zero] {not_cleared} : memref<?x64xf16> -> <16x64xf16>
  return
}

// -----

func.func @live(%q: memref<?x64xf16>, %row: index, %end: index, %live: !tile.tile<1x16xi1>) {
  %zero = arith.constant 0 : index
  // expected-error@+1 {{expected not_cleared with bounds, and without live}}
  %x = tile.load %q[%row, %zero] rows(%zero to %end) live %live : !tile.tile<1x16xi1> {not_cleared} : memref<?x64xf16> -> <16x64xf16>
  return
}
