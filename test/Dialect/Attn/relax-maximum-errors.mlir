// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-relax-maximum

// expected-error@+1 {{expected attn.target to be one of}}
module attributes {attn.target = "toaster"} {}
