// RUN: attn-opt %s --attn-pipeline="until-after=tile target=cpu-avx512" | FileCheck %s

// A step on a CPU goes through the rows of its state: once for what the delta rule
// takes from it, and once to load, change and store them, 16 key channels each time.
// CHECK-LABEL: tile.kernel private @delta_kernel0(
// CHECK:         %[[KNOWN:.*]] = scf.for {{.*}} step %c16 iter_args(%[[SUM:.*]] = %{{.*}})
// CHECK:           %[[PART:.*]] = tile.load %[[POOL:[a-z0-9]+]][%{{[^]]*}}] : {{.*}} -> <16x32xf32>
// CHECK-NEXT:      tile.dot %{{.*}}, %[[PART]] acc %[[SUM]] : !tile.tile<1x16xf32>
// Other queries read the state as it was.
// CHECK:         scf.for {{.*}} step %c1 {
// CHECK:           scf.for {{.*}} step %c16
// CHECK:           tile.store %{{.*}} : <1x32xf32>
// CHECK:         scf.for {{.*}} step %c16 iter_args(%[[OUT:.*]] = %{{.*}})
// CHECK:           %[[OLD:.*]] = tile.load %[[POOL]][%{{[^]]*}}] : {{.*}} -> <16x32xf32>
// CHECK:           %[[NEW:.*]] = tile.dot %{{.*}}, %{{.*}} acc %[[OLD]] scale %{{.*}} transpose_lhs
// CHECK:           tile.dot %{{.*}}, %[[NEW]] acc %[[OUT]] : !tile.tile<1x16xf32>
// CHECK:           tile.store %[[NEW]], %[[POOL]]
func.func @delta(%q: tensor<?x?x1x64xf32>, %k: tensor<?x?x1x64xf32>, %v: tensor<?x?x1x32xf32>,
                 %g: tensor<?x?x?xf32>, %b: tensor<?x?x?xf32>, %S: tensor<?x?x64x32xf32>)
    -> tensor<?x?x1x32xf32> {
  %o = attn.scan queries(%q : tensor<?x?x1x64xf32>) keys(%k : tensor<?x?x1x64xf32>)
      values(%v : tensor<?x?x1x32xf32>) decay(%g : tensor<?x?x?xf32>)
      delta(%b : tensor<?x?x?xf32>) slots(%S : tensor<?x?x64x32xf32>) {chunk = 1}
      -> tensor<?x?x1x32xf32>
  return %o : tensor<?x?x1x32xf32>
}

// Where a slot may be none, there is a step without a state.
// CHECK-LABEL: tile.kernel private @slots_kernel0(
// CHECK:         scf.if
// CHECK:           tile.load %[[POOL:arg[0-9]+]][{{.*}} -> <16x32xf32>
// CHECK:           tile.store %{{.*}}, %[[POOL]][
// CHECK:         } else {
// CHECK-NOT:       %[[POOL]][
// CHECK:         tile.return
func.func @slots(%q: tensor<?x?x1x64xf32>, %k: tensor<?x?x1x64xf32>, %v: tensor<?x?x1x32xf32>,
                 %S: tensor<?x?x64x32xf32>, %i: tensor<?xi32>) -> tensor<?x?x1x32xf32> {
  %o = attn.scan queries(%q : tensor<?x?x1x64xf32>) keys(%k : tensor<?x?x1x64xf32>)
      values(%v : tensor<?x?x1x32xf32>) slots(%S : tensor<?x?x64x32xf32>)
      index(%i : tensor<?xi32>) {chunk = 1} -> tensor<?x?x1x32xf32>
  return %o : tensor<?x?x1x32xf32>
}

// What has a normaliser goes the way of chunks, of one token.
// CHECK-LABEL: tile.kernel private @normalized_kernel0(
// CHECK:         tile.load {{.*}} -> <64x32xf32>
// CHECK-NOT:     <16x32xf32>
func.func @normalized(%q: tensor<?x?x1x64xf32>, %k: tensor<?x?x1x64xf32>, %v: tensor<?x?x1x32xf32>,
                      %S: tensor<?x?x64x32xf32>, %z: tensor<?x?x64xf32>) -> tensor<?x?x1x32xf32> {
  %o = attn.scan queries(%q : tensor<?x?x1x64xf32>) keys(%k : tensor<?x?x1x64xf32>)
      values(%v : tensor<?x?x1x32xf32>) slots(%S, %z : tensor<?x?x64x32xf32>, tensor<?x?x64xf32>)
      {chunk = 1, normalize} -> tensor<?x?x1x32xf32>
  return %o : tensor<?x?x1x32xf32>
}
