// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @prefetch_rank(%m: memref<4x64x64xbf16>, %c: index) {
  // expected-error @below {{expected an index for each of 2 dimensions or more, but got 2 for 'memref<4x64x64xbf16>'}}
  tile.prefetch %m[%c, %c] rows(32) columns(64) : memref<4x64x64xbf16>
  return
}

// -----

func.func @prefetch_vector(%m: memref<64xbf16>, %c: index) {
  // expected-error @below {{expected an index for each of 2 dimensions or more, but got 1 for 'memref<64xbf16>'}}
  tile.prefetch %m[%c] rows(32) columns(64) : memref<64xbf16>
  return
}

// -----

func.func @prefetch_apart(%m: memref<64x64xf32, strided<[1, 64]>>, %c: index) {
  // expected-error @below {{expected elements of a row behind each other, but got 'memref<64x64xf32, strided<[1, 64]>>'}}
  tile.prefetch %m[%c, %c] rows(32) columns(64) : memref<64x64xf32, strided<[1, 64]>>
  return
}

// -----

func.func @prefetch_nothing(%m: memref<64x64xf32>, %c: index) {
  // expected-error @below {{attribute 'rows' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  tile.prefetch %m[%c, %c] rows(0) columns(64) : memref<64x64xf32>
  return
}
