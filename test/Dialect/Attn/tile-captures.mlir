// What scores read of each pair is a tile that is loaded with the keys of a step,
// where the schedule says `pairs = copied`.
//
// RUN: attn-opt %s --split-input-file --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-pipeline="target=sm_80 until-after=tile" | FileCheck %s --check-prefix=OTHER
// OTHER-NOT: memref.extract_aligned_pointer_as_index
// OTHER-NOT: pairs = copied

!rows = tensor<?x?x?x128xbf16>

// The bias of pairs by tensor copies, where it lies at multiples of 16 bytes; a
// kernel without them has the blocks elsewhere. Of the copied one the other plan
// sees no rows.
// CHECK-LABEL: func.func @pairs
// CHECK: memref.extract_strided_metadata %[[BIAS:.*]] :
// CHECK: memref.extract_aligned_pointer_as_index %[[BIAS]]
// CHECK: %[[FITS:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : index
// CHECK: arith.select %[[FITS]], %{{.*}}, %{{.*}} : index
// CHECK: %[[VIEW:.*]] = memref.reinterpret_cast %[[BIAS]]
// CHECK: tile.launch @pairs_kernel1 {{.*}}%[[VIEW]]
// CHECK: tile.launch @pairs_kernel0 {{.*}}%[[BIAS]]
// CHECK-LABEL: tile.kernel private @pairs_kernel0
// CHECK: memref.load
// CHECK-LABEL: tile.kernel private @pairs_kernel1
// CHECK-SAME: pairs = copied
// CHECK: %[[TILE:.*]] = tile.load %{{.*}} rows({{.*}} : memref<1x1x?x?xbf16, {{.*}} -> <128x128xbf16>
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.rows 64 ins(%{{.*}}, %[[TILE]] :
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK-NOT: memref.load
// CHECK: tile.store
func.func @pairs(%q: !rows, %k: !rows, %v: !rows, %bias: tensor<1x1x?x?xbf16>) -> !rows {
  %o = attn.attention queries(%q : !rows) keys(%k : !rows) values(%v : !rows) bias(%bias : tensor<1x1x?x?xbf16>) -> !rows
  return %o : !rows
}

// -----

!rows = tensor<?x?x?x128xbf16>

// Elements of 32 bits stay where they are.
// CHECK-LABEL: func.func @wide
// CHECK-NOT: memref.extract_aligned_pointer_as_index
// CHECK-LABEL: tile.kernel private @wide_kernel0
// CHECK: memref.load
func.func @wide(%q: !rows, %k: !rows, %v: !rows, %bias: tensor<1x1x?x?xf32>) -> !rows {
  %o = attn.attention queries(%q : !rows) keys(%k : !rows) values(%v : !rows) bias(%bias : tensor<1x1x?x?xf32>) -> !rows
  return %o : !rows
}

// -----

!rows = tensor<?x?x?x128xbf16>

// As the schedule says.
// CHECK-LABEL: func.func @loaded
// CHECK-NOT: memref.extract_aligned_pointer_as_index
// CHECK-LABEL: tile.kernel private @loaded_kernel0
// CHECK: memref.load
func.func @loaded(%q: !rows, %k: !rows, %v: !rows, %bias: tensor<1x1x?x?xbf16>) -> !rows {
  %o = attn.attention queries(%q : !rows) keys(%k : !rows) values(%v : !rows) bias(%bias : tensor<1x1x?x?xbf16>)
    {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, pairs = loaded>} -> !rows
  return %o : !rows
}
