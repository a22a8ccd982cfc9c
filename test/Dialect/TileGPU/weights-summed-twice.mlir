// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s

// An entropy sums weights twice. Where blocks copy keys for each other, these go
// back, and the product of the step before is waited for, amid such weights, too.

!t = tensor<?x?x?x128xbf16>
!r = tensor<?x?x?xf32>
// CHECK-LABEL: kernel private @entropy_kernel0
// CHECK: tile_gpu.role "compute"
// CHECK: scf.for
// CHECK: %[[S:.*]] = tile_gpu.mma.wait %{{.*}} pending(1)
// CHECK-NEXT: %[[M:.*]] = tile_gpu.reduce ins(%[[S]] :
// CHECK: %[[P:.*]]:2 = tile_gpu.map ins(%[[S]], %{{.*}} :
// CHECK: tile_gpu.ring.release %{{.*}} after(%[[M]], %[[P]]#0 :
// CHECK-NEXT: tile_gpu.mma.wait %{{.*}} pending(0)
// CHECK: tile_gpu.reduce ins(%[[P]]#0 :
// CHECK: tile_gpu.reduce ins(%[[P]]#1 :
func.func @entropy(%q: !t, %k: !t, %v: !t) -> (!t, !r, !r) {
  %o:3 = attn.attention queries(%q : !t) keys(%k : !t) values(%v : !t) {monoid = @softmax_entropy, schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 192, loop = peeled, cluster = 2>} -> !t, !r, !r
  return %o#0, %o#1, %o#2 : !t, !r, !r
}
