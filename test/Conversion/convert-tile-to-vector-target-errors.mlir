// RUN: attn-opt %s --convert-tile-to-vector=target=sm_80 -verify-diagnostics

// expected-error @+1 {{expected target to be one of host, cpu-generic, cpu-avx2}}
module {
}
