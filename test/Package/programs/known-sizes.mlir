// Sizes that are known: the loop over keys has one turn, and lies open, or there
// is a step on each side of it.
func.func @two_tiles(%q: tensor<1x4x200x64xbf16>, %k: tensor<1x4x130x64xbf16>,
                     %v: tensor<1x4x130x64xbf16>) -> tensor<1x4x200x64xbf16> {
  %o = attn.attention queries(%q : tensor<1x4x200x64xbf16>)
      keys(%k : tensor<1x4x130x64xbf16>) values(%v : tensor<1x4x130x64xbf16>)
      -> tensor<1x4x200x64xbf16>
  return %o : tensor<1x4x200x64xbf16>
}

func.func @ragged(%q: tensor<1x4x200x64xbf16>, %k: tensor<1x4x700x64xbf16>,
                  %v: tensor<1x4x700x64xbf16>) -> tensor<1x4x200x64xbf16> {
  %o = attn.attention queries(%q : tensor<1x4x200x64xbf16>)
      keys(%k : tensor<1x4x700x64xbf16>) values(%v : tensor<1x4x700x64xbf16>)
      -> tensor<1x4x200x64xbf16>
  return %o : tensor<1x4x200x64xbf16>
}

func.func @two_wide_tiles(%q: tensor<1x4x200x64xf32>, %k: tensor<1x4x100x64xf32>,
                          %v: tensor<1x4x100x64xf32>) -> tensor<1x4x200x64xf32> {
  %o = attn.attention queries(%q : tensor<1x4x200x64xf32>)
      keys(%k : tensor<1x4x100x64xf32>) values(%v : tensor<1x4x100x64xf32>)
      -> tensor<1x4x200x64xf32>
  return %o : tensor<1x4x200x64xf32>
}
