// Keys of bf16 beside values and a state of f32. AMX multiplies them by three
// parts of bf16, which have all bits of an f32, in the same sums; other CPUs
// widen the keys.
// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-amx | FileCheck %s --check-prefix=AMX
// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx512-bf16 | FileCheck %s --check-prefix=FMA

!rows = memref<?x64xbf16, strided<[?, 1]>>
!wide = memref<?x64xf32, strided<[?, 1]>>

// AMX-LABEL: tile.kernel @parts
// The first part has the upper halves; of what is not finite nothing is left.
// The others are the upper halves of what is left, and of what that leaves.
// AMX-NOT: cvtne2ps2bf16
// AMX: %[[HIGH:.*]] = arith.shrui
// AMX: %[[FIRST:.*]] = arith.ori %[[HIGH]],
// AMX: %[[PAIR:.*]] = vector.bitcast %[[FIRST]] : vector<16xi32> to vector<32xbf16>
// AMX: %[[LEFT:.*]] = arith.subf
// AMX: llvm.call_intrinsic "llvm.x86.avx512.mask.fixupimm.ps.512"(%[[LEFT]], %[[LEFT]],
// AMX: %[[LOW:.*]] = arith.shrui
// AMX: %[[BOTH:.*]] = arith.ori %[[LOW]],
// AMX: %[[SECOND:.*]] = vector.bitcast %[[BOTH]] : vector<16xi32> to vector<32xbf16>
// AMX: %[[LOWER:.*]] = arith.shrui
// AMX: %[[REST:.*]] = arith.ori %[[LOWER]],
// AMX: %[[THIRD:.*]] = vector.bitcast %[[REST]] : vector<16xi32> to vector<32xbf16>
// AMX: vector.store %[[PAIR]], %[[ROUNDED:.*]][%{{.*}}] : memref<1024xbf16>, vector<32xbf16>
// AMX: vector.store %[[SECOND]], %[[OTHERS:.*]][%{{.*}}] : memref<2048xbf16>, vector<32xbf16>
// AMX: vector.store %[[THIRD]], %[[OTHERS]][%{{.*}}] : memref<2048xbf16>, vector<32xbf16>
// AMX-NOT: cvtne2ps2bf16
// The three of a block follow each other, with the same sums and rows.
// AMX-COUNT-4: "llvm.x86.tilezero"
// AMX-COUNT-4: "llvm.x86.tileloadd64"
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// AMX-COUNT-2: "llvm.x86.tileloadd64"
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// AMX-COUNT-2: "llvm.x86.tileloadd64"
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// Then they are added to rows of the state, which are scaled: a third each while
// the next block computes a part, those of the last one behind it.
// AMX-COUNT-4: "llvm.x86.tilestored64"
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// AMX-COUNT-20: math.fma
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// AMX-COUNT-22: math.fma
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// AMX-COUNT-22: math.fma
// AMX-COUNT-4: "llvm.x86.tilestored64"
// AMX-COUNT-64: math.fma
// AMX-NOT: math.fma
// FMA-LABEL: tile.kernel @parts
// FMA: arith.extf %{{.*}} : {{.*}}bf16{{.*}} to {{.*}}f32
// FMA: math.fma {{.*}} : vector<16xf32>
tile.kernel @parts(%K: !rows, %V: !wide, %S: !wide, %x: f32, %block: index) {
  %c0 = arith.constant 0 : index
  %k = tile.load %K[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %v = tile.load %V[%c0, %c0] : !wide -> !tile.tile<32x64xf32>
  %acc = tile.load %S[%c0, %c0] : !wide -> !tile.tile<64x64xf32>
  %scale = tile.fill %x : f32 -> !tile.tile<64x1xf32>
  %s = tile.dot %k, %v acc %acc scale %scale transpose_lhs
      : !tile.tile<32x64xbf16>, !tile.tile<32x64xf32> -> !tile.tile<64x64xf32>
  tile.store %s, %S[%c0, %c0] : !tile.tile<64x64xf32>, !wide
  tile.return
}

// What is rounded for products alone is packed as it is read; the first of its
// parts is the same, and rounded.
// AMX-LABEL: tile.kernel @rounded
// AMX-COUNT-2: cvtne2ps2bf16
// AMX-NOT: cvtne2ps2bf16
// AMX-NOT: arith.truncf
// AMX: tile.return
tile.kernel @rounded(%K: !rows, %V: !wide, %S: !wide, %T: !wide, %block: index) {
  %c0 = arith.constant 0 : index
  %k = tile.load %K[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %v = tile.load %V[%c0, %c0] : !wide -> !tile.tile<64x64xf32>
  %exact = tile.dot %k, %v : !tile.tile<32x64xbf16>, !tile.tile<64x64xf32> -> !tile.tile<32x64xf32>
  %narrow = tile.map ins(%v : !tile.tile<64x64xf32>) {
  ^bb0(%r: i32, %c: i32, %x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } -> !tile.tile<64x64xbf16>
  %rough = tile.dot %k, %narrow : !tile.tile<32x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<32x64xf32>
  tile.store %exact, %S[%c0, %c0] : !tile.tile<32x64xf32>, !wide
  tile.store %rough, %T[%c0, %c0] : !tile.tile<32x64xf32>, !wide
  tile.return
}

// A state that a product reads rounded, and changes behind that, is rounded by
// it, two tiles of columns at a time: nothing else is in its pairs.
// AMX-LABEL: tile.kernel @rounded_state
// AMX: scf.for %[[COL:.*]] = %c0 to %c64 step %c32
// AMX: llvm.call_intrinsic "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
// AMX: vector.store %{{.*}} : memref<2048xbf16>, vector<32xbf16>
// AMX: "llvm.x86.tdpbf16ps"
// Where nothing reads it behind the product it may be written over: it is packed
// where it is rounded.
// AMX-LABEL: tile.kernel @rounded_last
// AMX: llvm.call_intrinsic "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
// AMX: vector.store %{{.*}} : memref<4096xbf16>, vector<32xbf16>
tile.kernel @rounded_state(%Q: !rows, %K: !rows, %V: !rows, %S: !wide, %T: !wide, %block: index) {
  %c0 = arith.constant 0 : index
  %q = tile.load %Q[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %k = tile.load %K[%c0, %c0] : !rows -> !tile.tile<64x64xbf16>
  %v = tile.load %V[%c0, %c0] : !rows -> !tile.tile<64x64xbf16>
  %s = tile.load %S[%c0, %c0] : !wide -> !tile.tile<64x64xf32>
  %narrow = tile.map ins(%s : !tile.tile<64x64xf32>) {
  ^bb0(%r: i32, %c: i32, %x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } -> !tile.tile<64x64xbf16>
  %o = tile.dot %q, %narrow : !tile.tile<32x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<32x64xf32>
  %next = tile.dot %k, %v acc %s : !tile.tile<64x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<64x64xf32>
  tile.store %o, %T[%c0, %c0] : !tile.tile<32x64xf32>, !wide
  tile.store %next, %S[%c0, %c0] : !tile.tile<64x64xf32>, !wide
  tile.return
}
tile.kernel @rounded_last(%Q: !rows, %S: !wide, %T: !wide, %block: index) {
  %c0 = arith.constant 0 : index
  %q = tile.load %Q[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %s = tile.load %S[%c0, %c0] : !wide -> !tile.tile<64x64xf32>
  %narrow = tile.map ins(%s : !tile.tile<64x64xf32>) {
  ^bb0(%r: i32, %c: i32, %x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } -> !tile.tile<64x64xbf16>
  %o = tile.dot %q, %narrow : !tile.tile<32x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<32x64xf32>
  tile.store %o, %T[%c0, %c0] : !tile.tile<32x64xf32>, !wide
  tile.return
}

// Values times a column, which one product reads, are multiplied as it packs
// them: of bf16 from the pairs that another product has of them.
// AMX-LABEL: tile.kernel @scaled
// AMX-NOT: arith.extf
// AMX: arith.shli
// AMX: arith.andi
// AMX-COUNT-2: arith.mulf
// AMX: arith.shrui
// AMX: "llvm.x86.avx512.mask.fixupimm.ps.512"
// AMX-NOT: arith.extf
// AMX: tile.return
// FMA-LABEL: tile.kernel @scaled
// FMA: arith.extf
// FMA: arith.mulf
tile.kernel @scaled(%K: !rows, %V: !rows, %G: memref<?xf32>, %S: !wide, %T: !wide, %block: index) {
  %c0 = arith.constant 0 : index
  %k = tile.load %K[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %w = tile.load %K[%c0, %c0] : !rows -> !tile.tile<32x32xbf16>
  %v = tile.load %V[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %g = tile.load vector %G[%c0] : memref<?xf32> -> !tile.tile<32x1xf32>
  %o = tile.dot %w, %v : !tile.tile<32x32xbf16>, !tile.tile<32x64xbf16> -> !tile.tile<32x64xf32>
  %scaled = tile.map ins(%v, %g : !tile.tile<32x64xbf16>, !tile.tile<32x1xf32>) {
  ^bb0(%r: i32, %c: i32, %x: bf16, %y: f32):
    %wide = arith.extf %x : bf16 to f32
    %z = arith.mulf %wide, %y : f32
    tile.yield %z : f32
  } -> !tile.tile<32x64xf32>
  %s = tile.dot %k, %scaled transpose_lhs
      : !tile.tile<32x64xbf16>, !tile.tile<32x64xf32> -> !tile.tile<64x64xf32>
  tile.store %o, %T[%c0, %c0] : !tile.tile<32x64xf32>, !wide
  tile.store %s, %S[%c0, %c0] : !tile.tile<64x64xf32>, !wide
  tile.return
}

// Rows that lie in memory are as far apart as those of the tensor.
// AMX-LABEL: tile.kernel @in_memory
// AMX: %[[BYTES:.*]] = arith.muli %strides{{.*}}#0, %c4
// AMX-NEXT: %[[STRIDE:.*]] = arith.index_cast %[[BYTES]]
// AMX: "llvm.x86.tileloadd64"(%{{.*}}, %{{.*}}, %[[STRIDE]])
tile.kernel @in_memory(%K: !rows, %V: !wide, %S: !wide, %block: index) {
  %c0 = arith.constant 0 : index
  %k = tile.load %K[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %v = tile.load %V[%c0, %c0] : !wide -> !tile.tile<32x64xf32>
  %acc = tile.load %S[%c0, %c0] : !wide -> !tile.tile<64x64xf32>
  %s = tile.dot %k, %v acc %acc transpose_lhs
      : !tile.tile<32x64xbf16>, !tile.tile<32x64xf32> -> !tile.tile<64x64xf32>
  tile.store %s, %S[%c0, %c0] : !tile.tile<64x64xf32>, !wide
  tile.return
}

// Products whose readers all select 0 right of the diagonal: a block on it has three
// tiles, blocks above it none.
// AMX-LABEL: tile.kernel @below_diagonal
// AMX-COUNT-3: "llvm.x86.tilezero"
// AMX-NOT: "llvm.x86.tilezero"
// AMX-COUNT-3: "llvm.x86.tdpbf16ps"
// AMX-NOT: "llvm.x86.tdpbf16ps"
// AMX-COUNT-3: "llvm.x86.tilestored64"
// AMX-NOT: "llvm.x86.tilestored64"
// AMX: %[[LEFT:.*]] = arith.subi %c64,
// AMX: scf.for %{{.*}} = %c0 to %[[LEFT]] step %c32
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
tile.kernel @below_diagonal(%Q: !rows, %K: !rows, %W: !rows, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %q = tile.load %Q[%c0, %c0] : !rows -> !tile.tile<64x64xbf16>
  %k = tile.load %K[%c0, %c0] : !rows -> !tile.tile<64x64xbf16>
  %s = tile.dot %q, %k transpose_rhs : !tile.tile<64x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<64x64xf32>
  %w = tile.map ins(%s : !tile.tile<64x64xf32>) {
  ^bb0(%r: i32, %c: i32, %x: f32):
    %isUpTo = arith.cmpi sle, %c, %r : i32
    %y = arith.select %isUpTo, %x, %zero : f32
    %z = arith.truncf %y : f32 to bf16
    tile.yield %z : bf16
  } -> !tile.tile<64x64xbf16>
  tile.store %w, %W[%c0, %c0] : !tile.tile<64x64xbf16>, !rows
  tile.return
}

// The sum of two products, of which one's rows are scaled, goes to memory block by
// block: no tile of either is anywhere. Keys are turned round from the pairs that
// queries meet, two halves of words at a time, so that their rows are not there.
// AMX-LABEL: tile.kernel @written
// AMX: scf.for %{{.*}} = %c0 to %c64 step %c32
// AMX-COUNT-4: "llvm.x86.tilezero"
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// AMX-COUNT-4: "llvm.x86.tilestored64"
// AMX-COUNT-4: "llvm.x86.tilezero"
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// AMX-COUNT-4: "llvm.x86.tilestored64"
// AMX: %[[BEGIN:.*]] = arith.maxsi
// AMX: %[[END:.*]] = arith.minsi
// AMX: arith.remsi
// AMX: %[[WHOLE:.*]] = arith.subi %[[END]],
// AMX: scf.for %{{.*}} = %[[BEGIN]] to %[[WHOLE]] step %c4
// AMX: %[[LEFT:.*]] = math.fma
// AMX: %[[RIGHT:.*]] = math.fma
// AMX: %[[ROUNDED:.*]] = llvm.call_intrinsic "llvm.x86.avx512bf16.cvtne2ps2bf16.512"(%[[RIGHT]], %[[LEFT]])
// AMX: vector.store %[[ROUNDED]], %{{.*}} : memref<?x64xbf16, strided<[?, 1]>>, vector<32xbf16>
// AMX: scf.for %{{.*}} = %[[WHOLE]] to %[[END]] step %c1
// AMX-LABEL: tile.kernel @turned
// AMX: vector.shuffle %{{.*}} [0, 2, 4, 6,
// AMX-NEXT: vector.store
// AMX-NEXT: vector.shuffle %{{.*}} [1, 3, 5, 7,
tile.kernel @written(%Q: !rows, %K: !rows, %W: !rows, %S: !rows, %O: !rows,
                     %x: f32, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %q = tile.load %Q[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %k = tile.load %K[%c0, %c0] : !rows -> !tile.tile<64x64xbf16>
  %w = tile.load %W[%c0, %c0] : !rows -> !tile.tile<32x32xbf16>
  %v = tile.load %S[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %scale = tile.fill %x : f32 -> !tile.tile<32x1xf32>
  %one = tile.dot %q, %k : !tile.tile<32x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<32x64xf32>
  %sum = tile.dot %w, %v acc %one scale %scale
      : !tile.tile<32x32xbf16>, !tile.tile<32x64xbf16> -> !tile.tile<32x64xf32>
  tile.store %sum, %O[%c0, %c0] rows(%c0 to %n) : !tile.tile<32x64xf32>, !rows
  tile.return
}
tile.kernel @turned(%Q: !rows, %K: !rows, %V: !wide, %S: !wide, %T: !rows, %block: index) {
  %c0 = arith.constant 0 : index
  %q = tile.load %Q[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %k = tile.load %K[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %v = tile.load %V[%c0, %c0] : !wide -> !tile.tile<32x64xf32>
  %w = tile.dot %q, %k transpose_rhs : !tile.tile<32x64xbf16>, !tile.tile<32x64xbf16> -> !tile.tile<32x32xf32>
  %s = tile.dot %k, %v transpose_lhs : !tile.tile<32x64xbf16>, !tile.tile<32x64xf32> -> !tile.tile<64x64xf32>
  tile.store %w, %T[%c0, %c0] : !tile.tile<32x32xf32>, !rows
  tile.store %s, %S[%c0, %c0] : !tile.tile<64x64xf32>, !wide
  tile.return
}
