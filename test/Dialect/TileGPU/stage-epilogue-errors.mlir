// RUN: attn-opt %s --split-input-file --verify-diagnostics --tile-gpu-stage-epilogue

// expected-error@+1 {{expected attn.target to be one of}}
module attributes {attn.target = "toaster"} {}
