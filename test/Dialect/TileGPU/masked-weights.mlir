// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s

// The mask of listed key tiles acts on weights. So a tested step has the order of a
// whole one: keys go back and the product of the step before is waited for amid the
// weights, which read the ids of rows and keys beside the scores.

!t = tensor<?x?x?x128xbf16>
// CHECK-LABEL: kernel private @documents_kernel0
// CHECK: tile_gpu.role "compute"
// CHECK: scf.for
// CHECK: %[[ROWS:.*]] = tile_gpu.map {
// CHECK: } -> !tile_gpu.vec<64xi32, row>
// CHECK: %[[KEYS:.*]] = tile_gpu.map {
// CHECK: } -> !tile_gpu.vec<128xi32, col>
// CHECK: %[[S:.*]] = tile_gpu.mma.wait %{{.*}} pending(1)
// CHECK-NEXT: %[[M:.*]] = tile_gpu.reduce ins(%[[S]] :
// CHECK: %[[P:.*]] = tile_gpu.map ins(%[[S]], %{{.*}}, %[[ROWS]], %[[KEYS]] :
// CHECK: arith.cmpi eq
// CHECK: math.exp2
// CHECK: arith.select
// CHECK: tile_gpu.ring.release %{{.*}} after(%[[M]], %[[P]] :
// CHECK-NEXT: tile_gpu.mma.wait %{{.*}} pending(0)
// CHECK: tile_gpu.reduce ins(%[[P]] :
func.func @documents(%q: !t, %k: !t, %v: !t, %ids: tensor<?x?xi32>) -> !t {
  %o = attn.attention queries(%q : !t) keys(%k : !t) values(%v : !t)
      captures(%ids : tensor<?x?xi32>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xi32>):
        %bb = arith.index_cast %b : i32 to index
        %ii = arith.index_cast %i : i32 to index
        %jj = arith.index_cast %j : i32 to index
        %x = tensor.extract %t[%bb, %ii] : tensor<?x?xi32>
        %y = tensor.extract %t[%bb, %jj] : tensor<?x?xi32>
        %e = arith.cmpi eq, %x, %y : i32
        attn.yield %e : i1
      } -> !t
  return %o : !t
}
