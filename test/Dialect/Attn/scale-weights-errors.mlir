// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-scale-weights

// expected-error@+1 {{expected attn.target to be one of}}
module attributes {attn.target = "toaster"} {}
