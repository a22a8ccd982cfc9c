// RUN: attn-opt %s --attn-pipeline=until-after=tile --tile-expand-stream --tile-expand-sources --canonicalize --cse --tile-gpu-specialize-warps --canonicalize --cse | FileCheck %s --check-prefix=ROLES
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline=until-after=tile --tile-expand-stream --tile-expand-sources %tidy --tile-gpu-specialize-warps %tidy --tile-gpu-pipeline-copies %tidy --convert-tile-to-tile-gpu %tidy %verify_kernels --tile-gpu-allocate-shared --tile-gpu-verify-budget -o /dev/null

// A window: both ends of the keys are bounds of the rows. Each warpgroup finds
// out whether it sees the second half of its first tile alone, and the first half
// of its last one. Turns of products have no such steps.

!t = tensor<?x?x?x128xbf16>
module attributes {attn.target = "sm_90a"} {
// Two bits for each warpgroup, which picks its own.
// ROLES-LABEL: kernel private @window_kernel0
// ROLES: tile_gpu.role "compute" warpgroups(2)
// ROLES: ^bb0(%[[WG:.*]]: i32):
// ROLES: %[[TWICE:.*]] = arith.shli %[[WG]], %c1
// ROLES: %[[BITS:.*]] = arith.shrui %{{.*}}, %[[TWICE]]
// ROLES: arith.andi %[[BITS]], %c1
// ROLES: %[[STARTS:.*]] = arith.cmpi ne
// ROLES: arith.andi %[[BITS]], %c2
// ROLES: %[[ENDS:.*]] = arith.cmpi ne
// The first step in two forms: 64 keys at row 64 of the tile, columns counted
// from there, weights behind 64 zeros.
// ROLES: %[[K:.*]] = tile_gpu.ring.wait
// ROLES: scf.if %[[STARTS]] -> ({{.*}}!tile.tile<64x128xf32>
// ROLES: %[[PART:.*]] = tile_gpu.smem.slice %[[K]][%c64{{.*}}, %c0{{.*}}] : <128x128xbf16 swizzle 128> -> <64x128xbf16 swizzle 128 pitch 128>
// ROLES: %[[KEYS:.*]] = builtin.unrealized_conversion_cast %[[PART]] : {{.*}} to !tile.tile<64x128xbf16>
// ROLES: %[[S:.*]] = tile.dot %{{.*}}, %[[KEYS]] transpose_rhs {{.*}} -> !tile.tile<64x64xf32>
// ROLES: tile.map ins(%[[S]] : !tile.tile<64x64xf32>)
// ROLES-NEXT: ^bb0(%{{.*}}: i32, %[[COL:.*]]: i32, %{{.*}}: f32):
// ROLES: %[[MOVED:.*]] = arith.subi %{{.*}}, %c64_i32
// ROLES-NEXT: arith.cmpi slt, %[[COL]], %[[MOVED]]
// ROLES: tile.pad %{{.*}} first 64 : <64x64xf32> -> <64x128xf32>
// ROLES: } else {
// ROLES: tile.dot {{.*}} -> !tile.tile<64x128xf32>
// ROLES-NOT: tile.pad
// ROLES: arith.truncf
// ROLES: tile.dot {{.*}} acc
// The last step leaves the last loop for one on half of its tiles.
// ROLES: scf.for
// ROLES: scf.for
// ROLES: %[[END:.*]] = arith.select %[[ENDS]], %{{.*}}, %{{.*}} : index
// ROLES: %[[R:.*]]:4 = scf.for %{{.*}} = %{{.*}} to %[[END]]
// ROLES: scf.if %[[ENDS]]
// ROLES: tile_gpu.smem.slice %{{.*}}[%c0{{.*}}, %c0{{.*}}] : <128x128xbf16 swizzle 128> -> <64x128xbf16 swizzle 128 pitch 128>
// ROLES: tile.dot {{.*}} -> !tile.tile<64x64xf32>
// ROLES: tile.dot %{{.*}}, %{{.*}} acc {{.*}} : !tile.tile<64x64xbf16>, !tile.tile<64x128xbf16> -> !tile.tile<64x128xf32>
// ROLES: tile_gpu.ring.release
// ROLES: } else {
// ROLES-NEXT: scf.yield %[[R]]#0

// The bits come with the item, which is drawn ahead of the last whole tile's
// copies of the one before. Keys of the first tile go back behind the scores
// of either form. The half step runs beside the product of the step before, and
// its own is of 64 keys; without it the product before is the last. Row sums are
// completed behind both.
// CHECK-LABEL: kernel private @window_kernel0
// CHECK: tile_gpu.role "draw"
// CHECK: tile_gpu.foreach %{{.*}} lead {
// CHECK: tile_gpu.role "load"
// CHECK: scf.if
// CHECK-COUNT-2: scf.for
// CHECK: tile_gpu.draw_next
// CHECK-COUNT-2: scf.for
// CHECK: } else {
// CHECK: tile_gpu.draw_next
// CHECK: tile_gpu.role "compute"
// CHECK: scf.if
// CHECK: %[[K:.*]] = tile_gpu.ring.wait %[[RING:.*]][%[[STEP:.*]]] :
// CHECK: scf.if %{{.*}} -> (!tile_gpu.frag<64x128xf32, acc>
// CHECK: tile_gpu.mma.issue {{.*}} -> !tile_gpu.token<64x64xf32>
// CHECK-NEXT: tile_gpu.mma.wait
// CHECK-NEXT: tile_gpu.ring.release %[[RING]][%[[STEP]]]
// CHECK: tile_gpu.frag.pad %{{.*}} first 64
// CHECK: } else {
// CHECK: tile_gpu.mma.issue {{.*}} -> !tile_gpu.token<64x128xf32>
// CHECK-NEXT: tile_gpu.mma.wait
// CHECK-NEXT: tile_gpu.ring.release %[[RING]][%[[STEP]]]
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %[[R:.*]]:6 = scf.for
// CHECK: scf.if %{{.*}} -> (i32, !tile_gpu.frag<64x128xf32, acc>, !tile_gpu.vec<64xf32, row, partial>)
// CHECK: %[[SCORES:.*]] = tile_gpu.mma.issue {{.*}} -> !tile_gpu.token<64x64xf32>
// CHECK: %[[BEFORE:.*]] = tile_gpu.mma.issue %[[R]]#4, %{{.*}} acc(%[[R]]#2) : !tile_gpu.frag<64x128xbf16, a>
// CHECK-NEXT: tile_gpu.mma.wait %[[SCORES]] pending(1)
// CHECK: tile_gpu.mma.wait %[[BEFORE]] pending(0)
// CHECK: %[[OWN:.*]] = tile_gpu.mma.issue %{{.*}}, %{{.*}} acc(%{{.*}}) : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.smem<64x128xbf16 swizzle 128 pitch 128>
// CHECK-NEXT: tile_gpu.mma.wait %[[OWN]] pending(0)
// CHECK: } else {
// CHECK: tile_gpu.mma.issue %[[R]]#4, %{{.*}} acc(%[[R]]#2) : !tile_gpu.frag<64x128xbf16, a>
// CHECK-NEXT: tile_gpu.mma.wait
// CHECK: }
// CHECK: tile_gpu.reduce ins(%{{.*}} : !tile_gpu.vec<64xf32, row, partial>)
func.func @window(%q: !t, %k: !t, %v: !t, %w: i32) -> !t {
  %o = attn.attention queries(%q : !t) keys(%k : !t) values(%v : !t) window_left(%w)
      {causal = #attn.causal<bottom_right>,
       schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, loop = peeled, order = longest_first>} -> !t
  return %o : !t
}

// With one end alone warpgroups would wait for the one with the whole tile.
// ROLES-LABEL: kernel private @causal_kernel0
// ROLES-NOT: !tile.tile<64x64xf32>
// ROLES-NOT: tile.pad
func.func @causal(%q: !t, %k: !t, %v: !t) -> !t {
  %o = attn.attention queries(%q : !t) keys(%k : !t) values(%v : !t)
      {causal = #attn.causal<bottom_right>} -> !t
  return %o : !t
}
}
