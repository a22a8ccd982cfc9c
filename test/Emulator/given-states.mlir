// States of 16 bits that the caller gives, on CPUs and both paths of GPUs.
// RUN: attn-run %s --sizes splits=3,b=1,hq=2,sq=70 --check | FileCheck %s
// RUN: attn-run %s --sizes splits=3,b=1,hq=2,sq=70 --check --device emulator:sm_90a | FileCheck %s
// RUN: attn-run %s --sizes splits=12,b=2,hq=1,sq=5 --check --device emulator:sm_80 | FileCheck %s
// CHECK: ok

func.func @merge(%m: tensor<?x?x?x?xf32>, %acc: tensor<?x?x?x?x80xbf16>, %l: tensor<?x?x?x?xf32>)
    -> tensor<?x?x?x80xbf16> {
  %c:3 = attn.combine @softmax(%m, %acc, %l : tensor<?x?x?x?xf32>, tensor<?x?x?x?x80xbf16>, tensor<?x?x?x?xf32>)
      -> tensor<?x?x?xf32>, tensor<?x?x?x80xf32>, tensor<?x?x?xf32>
  %o = attn.finalize @softmax(%c#0, %c#1, %c#2 : tensor<?x?x?xf32>, tensor<?x?x?x80xf32>, tensor<?x?x?xf32>)
      -> tensor<?x?x?x80xbf16>
  return %o : tensor<?x?x?x80xbf16>
}
