// RUN: attn-opt %s --split-input-file --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-pipeline="target=sm_90a" -o /dev/null
// RUN: attn-opt %s --split-input-file --attn-pipeline="target=sm_80 until-after=gpu" | FileCheck %s --check-prefix=PORTABLE
// RUN: attn-opt %s --split-input-file --attn-pipeline="target=sm_80" -o /dev/null

// Where the number of keys is known, a loop of one turn becomes a part of the
// block: two steps side by side use the same slots one after the other.

// CHECK-LABEL: tile_gpu.role "compute"
// CHECK:       tile_gpu.ring.wait %[[KEYS:.*]][%[[S:.*]]] : <{{.*}}, 128x64xbf16
// CHECK-NEXT:  tile_gpu.ring.wait %[[VALUES:.*]][%[[S]]] : <{{.*}}, 128x64xbf16
// CHECK:       tile_gpu.ring.release %[[KEYS]][%[[S]]]
// CHECK:       tile_gpu.ring.release %[[VALUES]][%[[S]]]
// CHECK:       %[[NEXT:.*]] = arith.addi %[[S]], %c1_i32
// CHECK:       tile_gpu.ring.wait %[[KEYS]][%[[NEXT]]]
// CHECK:       tile_gpu.ring.wait %[[VALUES]][%[[NEXT]]]
// CHECK:       tile_gpu.ring.release %[[KEYS]][%[[NEXT]]]
// CHECK:       tile_gpu.ring.release %[[VALUES]][%[[NEXT]]]
// CHECK-NOT:   tile_gpu.ring.wait
// PORTABLE-LABEL: kernel private @two_tiles_kernel0
// PORTABLE:    tile_gpu.ring.acquire
// PORTABLE:    tile_gpu.ring.wait
func.func @two_tiles(%q: tensor<1x4x200x64xbf16>, %k: tensor<1x4x256x64xbf16>,
                     %v: tensor<1x4x256x64xbf16>) -> tensor<1x4x200x64xbf16> {
  %o = attn.attention queries(%q : tensor<1x4x200x64xbf16>)
      keys(%k : tensor<1x4x256x64xbf16>) values(%v : tensor<1x4x256x64xbf16>)
      -> tensor<1x4x200x64xbf16>
  return %o : tensor<1x4x200x64xbf16>
}

// -----

// A step, a loop and a step.
// CHECK-LABEL: tile_gpu.role "compute"
// CHECK:       tile_gpu.ring.wait
// CHECK:       scf.for
// CHECK:       tile_gpu.ring.release
// CHECK:       scf.yield
// CHECK:       tile_gpu.ring.wait
// PORTABLE-LABEL: kernel private @ragged_kernel0
// PORTABLE:    scf.for
func.func @ragged(%q: tensor<1x4x200x64xbf16>, %k: tensor<1x4x700x64xbf16>,
                  %v: tensor<1x4x700x64xbf16>) -> tensor<1x4x200x64xbf16> {
  %o = attn.attention queries(%q : tensor<1x4x200x64xbf16>)
      keys(%k : tensor<1x4x700x64xbf16>) values(%v : tensor<1x4x700x64xbf16>)
      -> tensor<1x4x200x64xbf16>
  return %o : tensor<1x4x200x64xbf16>
}

// -----

// Two steps without roles: f32.
// CHECK-LABEL: kernel private @two_wide_tiles_kernel0
// CHECK:       tile_gpu.ring.acquire
// PORTABLE-LABEL: kernel private @two_wide_tiles_kernel0
// PORTABLE:    tile_gpu.ring.acquire
func.func @two_wide_tiles(%q: tensor<1x4x200x64xf32>, %k: tensor<1x4x100x64xf32>,
                          %v: tensor<1x4x100x64xf32>) -> tensor<1x4x200x64xf32> {
  %o = attn.attention queries(%q : tensor<1x4x200x64xf32>)
      keys(%k : tensor<1x4x100x64xf32>) values(%v : tensor<1x4x100x64xf32>)
      -> tensor<1x4x200x64xf32>
  return %o : tensor<1x4x200x64xf32>
}
