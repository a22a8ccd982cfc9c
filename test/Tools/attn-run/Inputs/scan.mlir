// Heads in groups, a normalized sum with gates and a feature map.
func.func @scan(%q: tensor<2x4x40x16xf32>, %k: tensor<2x2x40x16xf32>,
                %v: tensor<2x1x40x24xf32>, %g: tensor<2x2x40xf32>,
                %scale: f32)
    -> (tensor<2x4x40x24xf32>, tensor<2x2x16x24xf32>, tensor<2x2x16xf32>) {
  %o:3 = attn.scan queries(%q : tensor<2x4x40x16xf32>)
      keys(%k : tensor<2x2x40x16xf32>) values(%v : tensor<2x1x40x24xf32>)
      scale(%scale) decay(%g : tensor<2x2x40xf32>) {normalize, final}
      feature {
      ^bb0(%x: f32):
        %y = math.exp %x : f32
        attn.yield %y : f32
      } -> tensor<2x4x40x24xf32>, tensor<2x2x16x24xf32>, tensor<2x2x16xf32>
  return %o#0, %o#1, %o#2
      : tensor<2x4x40x24xf32>, tensor<2x2x16x24xf32>, tensor<2x2x16xf32>
}
