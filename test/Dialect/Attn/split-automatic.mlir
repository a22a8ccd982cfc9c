// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-split | FileCheck %s

// As many parts as there are multiprocessors for the key heads, whose rows are
// packed, of 128 keys or more.
// CHECK-LABEL: func.func @automatic(
// CHECK-SAME:    %[[Q:.*]]: tensor<?x?x?x64xbf16>, %[[K:.*]]: tensor<?x?x?x64xbf16>,
// CHECK:         %[[KEY_HEADS:.*]] = arith.maxui
// CHECK:         %[[TILES:.*]] = arith.ceildivui
// CHECK:         %[[HEADS:.*]] = arith.muli %{{.*}}, %[[KEY_HEADS]]
// CHECK:         %[[BLOCKS:.*]] = arith.muli %[[HEADS]], %[[TILES]]
// CHECK:         %[[AT_ONCE:.*]] = arith.constant 132 : index
// CHECK:         %[[SOME:.*]] = arith.maxui %[[BLOCKS]]
// CHECK:         %[[WANTED:.*]] = arith.divui %[[AT_ONCE]], %[[SOME]]
// CHECK:         %[[KEYS:.*]] = tensor.dim %[[K]]
// CHECK:         %[[LEAST:.*]] = arith.constant 128 : index
// CHECK:         %[[ALL:.*]] = arith.divui %[[KEYS]], %[[LEAST]]
// CHECK:         %[[SIXTEEN:.*]] = arith.constant 16 : index
// CHECK:         %[[SHORT:.*]] = arith.minui %[[ALL]], %[[SIXTEEN]]
// CHECK:         %[[LONG:.*]] = arith.constant 512 : index
// CHECK:         %[[MORE:.*]] = arith.divui %[[KEYS]], %[[LONG]]
// CHECK:         %[[MOST:.*]] = arith.maxui %[[SHORT]], %[[MORE]]
// CHECK:         %[[FEW:.*]] = arith.minui %[[WANTED]], %[[MOST]]
// CHECK:         %[[N:.*]] = arith.maxui %[[FEW]]
// CHECK:         %[[P:.*]]:3 = attn.partial @softmax
// CHECK-SAME:      parts(%[[N]] : index)
// CHECK-NOT:       splits = 0
// CHECK:           -> tensor<?x?x?x?xf32>, tensor<?x?x?x?x64xf32>, tensor<?x?x?x?xf32>
// CHECK:         attn.combine @softmax(%[[P]]#0, %[[P]]#1, %[[P]]#2
module attributes {attn.target = "sm_90a"} {
  func.func @automatic(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                       %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
    %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
        keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
        {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64,
                                   splits = automatic, pack_heads = true>}
        -> tensor<?x?x?x64xbf16>
    return %o : tensor<?x?x?x64xbf16>
  }
}
