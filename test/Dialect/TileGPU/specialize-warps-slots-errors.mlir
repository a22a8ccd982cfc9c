// RUN: attn-opt %s --attn-pipeline="until-after=tile target=sm_90a" | not attn-opt --tile-expand-stream --tile-expand-sources --canonicalize --cse --tile-gpu-specialize-warps -o /dev/null 2>&1 | FileCheck %s

// Six slots of 64 keys and as many values take what the queries leave.
// CHECK: 'tile.kernel' op expected at most 6 stages of keys and values beside the queries in 232448 bytes of shared memory, but got 7
module attributes {attn.target = "sm_90a"} {
func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
             %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64, stages = 7>}
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}
