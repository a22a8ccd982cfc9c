// RUN: attn-opt %s --split-input-file --verify-diagnostics --tile-estimate-cycles

// expected-error@+1 {{expected attn.target to be one of}}
module attributes {attn.target = "toaster"} {}

// -----

// expected-error@+1 {{expected target to be one of host, cpu-generic, cpu-avx2, cpu-avx512, cpu-avx512-bf16, cpu-amx, but got 'sm_90a'}}
module attributes {attn.target = "sm_90a"} {}
