// RUN: attn-opt %s --verify-diagnostics --attn-separate-sums

// expected-error @+1 {{expected attn.target to be one of}}
module attributes {attn.target = "toaster"} {}
