// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @prefetch_rank(%m: memref<4x64x64xbf16>, %c: i32) {
  // expected-error @below {{expected an index for each of 2 dimensions or more, but got 2 for 'memref<4x64x64xbf16>'}}
  tile_gpu.global.prefetch %m[%c, %c] rows(32) columns(64) : memref<4x64x64xbf16>
  return
}

// -----

func.func @prefetch_vector(%m: memref<64xbf16>, %c: i32) {
  // expected-error @below {{expected an index for each of 2 dimensions or more, but got 1 for 'memref<64xbf16>'}}
  tile_gpu.global.prefetch %m[%c] rows(32) columns(64) : memref<64xbf16>
  return
}

// -----

func.func @prefetch_apart(%m: memref<64x64xf32, strided<[1, 64]>>, %c: i32) {
  // expected-error @below {{expected elements of a row behind each other, but got 'memref<64x64xf32, strided<[1, 64]>>'}}
  tile_gpu.global.prefetch %m[%c, %c] rows(32) columns(64) : memref<64x64xf32, strided<[1, 64]>>
  return
}

// -----

func.func @prefetch_nothing(%m: memref<64x64xf32>, %c: i32) {
  // expected-error @below {{attribute 'rows' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  tile_gpu.global.prefetch %m[%c, %c] rows(0) columns(64) : memref<64x64xf32>
  return
}

// -----

func.func @prefetch_boxes(%m: memref<?x?x64x128xbf16>, %t: memref<?x?xi32>, %c: i32) {
  // expected-error @below {{expected table(...) and boxes(...) together, and with them alone before(...)}}
  tile_gpu.global.prefetch %m[%c, %c, %c, %c] rows(64) columns(128) table(%t : memref<?x?xi32>) : memref<?x?x64x128xbf16>
  return
}

// -----

func.func @prefetch_before(%m: memref<?x?x64x128xbf16>, %c: i32) {
  // expected-error @below {{expected table(...) and boxes(...) together, and with them alone before(...)}}
  tile_gpu.global.prefetch %m[%c, %c, %c, %c] rows(64) columns(128) before(%c) : memref<?x?x64x128xbf16>
  return
}

// -----

func.func @prefetch_pages(%m: memref<?x?x?x128xbf16>, %t: memref<?x?xi32>, %c: i32) {
  // expected-error @below {{expected pages of a known number of rows, [pages, heads, rows, columns], but got 'memref<?x?x?x128xbf16>'}}
  tile_gpu.global.prefetch %m[%c, %c, %c, %c] rows(64) columns(128) table(%t : memref<?x?xi32>) boxes(16) : memref<?x?x?x128xbf16>
  return
}

// -----

func.func @prefetch_part(%m: memref<?x?x64x128xbf16>, %t: memref<?x?xi32>, %c: i32) {
  // expected-error @below {{expected boxes of rows that divide a page of 64 and the 96 rows, but got 64}}
  tile_gpu.global.prefetch %m[%c, %c, %c, %c] rows(96) columns(128) table(%t : memref<?x?xi32>) boxes(64) : memref<?x?x64x128xbf16>
  return
}
