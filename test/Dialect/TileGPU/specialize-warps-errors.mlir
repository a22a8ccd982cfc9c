// RUN: attn-opt %s --attn-pipeline="until-after=tile target=sm_90a" | not attn-opt --tile-expand-stream --tile-expand-sources --canonicalize --cse --tile-gpu-specialize-warps -o /dev/null 2>&1 | FileCheck %s

// One slot for keys would have to be filled and read at once.
// CHECK: 'tile.kernel' op expected 2 stages or more for warpgroups, whose products overlap with copies, but got 1
module attributes {attn.target = "sm_90a"} {
func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
             %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64, stages = 1>}
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}
