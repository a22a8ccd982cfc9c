// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-fold-scale

// expected-error@+1 {{expected attn.target to be one of}}
module attributes {attn.target = "toaster"} {}
