// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-set-target=target=sm_90a
// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-pipeline="target=sm_90a until-after=tile"
// RUN: not attn-opt %s --split-input-file --attn-pipeline="until-after=llvm" -o /dev/null 2>&1 | FileCheck %s --check-prefix=HOST
// RUN: echo 'module {}' | not attn-opt --attn-set-target=target=toaster 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: echo "module {}" | not attn-opt --attn-pipeline="target=toaster" 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: expected target to be one of {{.*}}, but got 'toaster'

// HOST: expected target to be attn.target of the module, 'sm_80', but got 'cpu-
// expected-error @+1 {{expected target to be attn.target of the module, 'sm_80', but got 'sm_90a'}}
module attributes {attn.target = "sm_80"} {
}

// -----

// HOST: expected attn.target to be one of {{.*}}, but got 'toaster'
// expected-error @+1 {{expected attn.target to be one of}}
module attributes {attn.target = "toaster"} {
}

// -----

// HOST: expected attn.target to be a string, but got 3
// expected-error @+1 {{expected attn.target to be a string, but got 3}}
module attributes {attn.target = 3} {
}
