// States of 16 bits that the caller gives, on CPUs and both paths of GPUs.
// RUN: attn-run %s --sizes splits=3,b=1,hq=2,sq=70 --check | FileCheck %s
// RUN: attn-run %s --sizes splits=3,b=1,hq=2,sq=70 --check --device emulator:sm_90a | FileCheck %s
// RUN: attn-run %s --sizes splits=12,b=2,hq=1,sq=5 --check --device emulator:sm_80 | FileCheck %s
// More blocks than there are at once: heads are rows of one tile.
// RUN: attn-run %s --sizes splits=3,b=2,hq=100,sq=1 --check --device emulator:sm_90a | FileCheck %s
// RUN: attn-run %s --sizes splits=9,b=3,hq=61,sq=3 --check --device emulator:sm_80 | FileCheck %s
// RUN: attn-run --attention b=3,hq=96,hk=24,sq=1,sk=150,d=64,dtype=bf16,outputs=2,layout=bshd --schedule '#attn.schedule<block_q = 64, rows = 64, block_k = 64, splits = 2, loop = peeled, pack_heads = true>' --check --device emulator:sm_90a | FileCheck %s
// CHECK: ok

func.func @merge(%m: tensor<?x?x?x?xf32>, %acc: tensor<?x?x?x?x80xbf16>, %l: tensor<?x?x?x?xf32>)
    -> tensor<?x?x?x80xbf16> {
  %c:3 = attn.combine @softmax(%m, %acc, %l : tensor<?x?x?x?xf32>, tensor<?x?x?x?x80xbf16>, tensor<?x?x?x?xf32>)
      -> tensor<?x?x?xf32>, tensor<?x?x?x80xf32>, tensor<?x?x?xf32>
  %o = attn.finalize @softmax(%c#0, %c#1, %c#2 : tensor<?x?x?xf32>, tensor<?x?x?x80xf32>, tensor<?x?x?xf32>)
      -> tensor<?x?x?x80xbf16>
  return %o : tensor<?x?x?x80xbf16>
}
