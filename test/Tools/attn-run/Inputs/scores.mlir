// Scores in memory, as a result of their own.
func.func @scores(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>)
    -> tensor<?x?x?x?xf32> {
  %s = attn.scores @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x?xf32>
  return %s : tensor<?x?x?x?xf32>
}
