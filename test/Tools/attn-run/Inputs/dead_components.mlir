// Outputs that leave components unread, in parts and with a sink. The entropy
// is not asked for, nor is the value of the second, nor the variance; and the
// last reads no component at all.
func.func @attention(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                     %v: tensor<?x?x?x64xbf16>, %sinks: tensor<?xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>,
        tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o, %lse, %0 = attn.attention monoid(@softmax_entropy)
      queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>) sinks(%sinks : tensor<?xf32>)
      {causal = #attn.causal<bottom_right>,
       schedule = #attn.schedule<block_q = 32, rows = 32, block_k = 32, splits = 3, loop = peeled>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  %1, %2, %entropy = attn.attention monoid(@softmax_entropy)
      queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>) sinks(%sinks : tensor<?xf32>)
      {schedule = #attn.schedule<block_q = 32, rows = 32, block_k = 32, splits = 2, loop = peeled>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  %mean, %3 = attn.attention monoid(@welford)
      queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
      {schedule = #attn.schedule<block_q = 32, rows = 32, block_k = 32, splits = 2, loop = peeled>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
  %4, %remainder = attn.attention monoid(@stick_breaking)
      queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o, %lse, %entropy, %mean, %remainder
      : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>,
        tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}
