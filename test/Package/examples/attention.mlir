// Grouped-query causal attention: eight query heads on two key heads.
func.func @attention(%q: tensor<1x8x128x64xf32>, %k: tensor<1x2x192x64xf32>,
                     %v: tensor<1x2x192x64xf32>) -> tensor<1x8x128x64xf32> {
  %o = attn.attention queries(%q : tensor<1x8x128x64xf32>)
      keys(%k : tensor<1x2x192x64xf32>) values(%v : tensor<1x2x192x64xf32>)
      {causal = #attn.causal<bottom_right>} -> tensor<1x8x128x64xf32>
  return %o : tensor<1x8x128x64xf32>
}
