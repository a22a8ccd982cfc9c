// RUN: attn-opt %s --split-input-file --verify-diagnostics

// What passes leave for later ones is of the kind that these read, and nothing
// else is an attribute of the dialect.

// expected-error @+1 {{expected attn.target to be a string, but got 90 : i64}}
module attributes {attn.target = 90} {
}

// -----

// expected-error @+1 {{expected attn.target on a module, but got it on func.func}}
func.func private @f() attributes {attn.target = "sm_90a"}

// -----

// expected-error @+1 {{expected attn.expected_sizes to be array<i64: b, hq, sq, sk> of sizes, 0 where unknown, and hk as the fifth or not, but got array<i64: 1, 2, -3, 4>}}
module attributes {attn.expected_sizes = array<i64: 1, 2, -3, 4>} {
}

// -----

// expected-error @+1 {{expected attn.gradients to be a list of names, but got "q"}}
func.func private @f() attributes {attn.gradients = "q"}

// -----

// expected-error @+1 {{expected attn.gradients on a function, but got it on builtin.module}}
module attributes {attn.gradients = ["q"]} {
}

// -----

// expected-error @+1 {{expected attn.multiples to be a list of pairs of names, but got ["hq"]}}
func.func private @f() attributes {attn.multiples = ["hq"]}

// -----

// expected-error @+1 {{expected attn.interface to be a list of arguments, but got unit}}
func.func private @f() attributes {attn.interface}

// -----

// expected-error @+1 {{expected attn.near to be two distances (array<i64>), but got array<i64: 3>}}
func.func private @f() attributes {attn.near = array<i64: 3>}

// -----

// expected-error @+1 {{expected attn.saved_bytes to be a number of bytes (i64), but got -4 : i64}}
func.func private @f() attributes {attn.saved_bytes = -4}

// -----

// expected-error @+1 {{expected attn.interface to be a dictionary, but got "q"}}
func.func private @f() attributes {attn.interface = ["q"]}

// -----

// expected-error @+1 {{expected dtype of attn.interface to be a string, but got 1 : i64}}
func.func private @f() attributes {attn.interface = [{dtype = 1, name = "q"}]}

// -----

// expected-error @+1 {{expected strides of attn.interface to be array<i64>, but got [1]}}
func.func private @f() attributes {attn.interface = [{dtype = "f32", shape = array<i64: 1>, strides = [1]}]}

// -----

// expected-error @+1 {{expected rank of attn.interface to be absent, as attn.arg does not define it, but got 1 : i64}}
func.func private @f() attributes {attn.interface = [{rank = 1}]}

// -----

func.func @f(%K: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>) {
  // expected-error @+1 {{expected attn.tensor_name to be a string on tile_gpu.tensor_map, but got 1 : i64}}
  %map = tile_gpu.tensor_map %K {attn.tensor_name = 1} : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> !tile_gpu.tensor_map<128x128xbf16 swizzle 128>
  return
}

// -----

// expected-error @+1 {{expected attn.tensor_name to be a string on tile_gpu.tensor_map, but got "K" on func.func}}
func.func private @f() attributes {attn.tensor_name = "K"}

// -----

func.func @f(%x: i32) -> i32 {
  // expected-error @+1 {{expected attn.rung to be #attn.rung on attn.attention or attn.aggregate, but got "fa2"}}
  %y = arith.addi %x, %x {attn.rung = "fa2"} : i32
  return %y : i32
}

// -----

// expected-error @+1 {{expected attn.dispatch to be a unit attribute of a module or #attn.dispatch on attn.aggregate or attn.attention, but got true}}
module attributes {attn.dispatch = true} {
}

// -----

// expected-error @+1 {{expected attn.arg on an argument or a result of a function, but got it on func.func}}
func.func private @f() attributes {attn.arg = {name = "q"}}

// -----

// expected-error @+1 {{expected attn.any_order to be a unit attribute of a function, but got true on func.func}}
func.func private @f() attributes {attn.any_order = true}

// -----

// expected-error @+1 {{expected attn.columns_of on an argument or a result of a function, but got it on func.func}}
func.func private @f() attributes {attn.columns_of = 1 : i64}

// -----

// expected-error @+1 {{expected no attribute attn.targets, which the attn dialect does not define}}
module attributes {attn.targets = "sm_90a"} {
}

// -----

// expected-error @+1 {{expected attn.arg to be a dictionary, but got "q"}}
func.func private @f(tensor<?xf32> {attn.arg = "q"})

// -----

// expected-error @+1 {{expected name of attn.arg to be a string, but got 3 : i64}}
func.func private @f(tensor<?xf32> {attn.arg = {name = 3}})

// -----

// expected-error @+1 {{expected dims of attn.arg to be a list of names, but got [1]}}
func.func private @f(tensor<?xf32> {attn.arg = {dims = [1]}})

// -----

// expected-error @+1 {{expected name of attn.arg to be a name in one line, but got "q\0Aint x;"}}
func.func private @f(tensor<?xf32> {attn.arg = {name = "q\0Aint x;"}})

// -----

// expected-error @+1 {{expected dims of attn.arg to be a list of names in one line each, but got ["b\0A"]}}
func.func private @f(tensor<?xf32> {attn.arg = {dims = ["b\0A"]}})

// -----

// expected-error @+1 {{expected dims of attn.arg to be 1 names for 'tensor<?xf32>', but got 2}}
func.func private @f(tensor<?xf32> {attn.arg = {dims = ["b", "s"]}})

// -----

// expected-error @+1 {{expected written of attn.arg to be a unit attribute, but got true}}
func.func private @f(tensor<?xf32> {attn.arg = {written = true}})

// -----

// expected-error @+1 {{expected label of attn.arg to be absent, as attn.arg does not define it, but got "q"}}
func.func private @f(tensor<?xf32> {attn.arg = {label = "q"}})

// -----

// expected-error @+1 {{expected dims of attn.arg to be 2 names for 'tensor<?x4xf32>', but got 1}}
func.func private @f() -> (tensor<?x4xf32> {attn.arg = {name = "o", dims = ["b"]}})

// -----

// expected-error @+1 {{expected attn.columns_of to be the number of an argument (i64), of which there are 2, but got 2 : i64}}
func.func private @f(tensor<?x8xf32>, tensor<?x4xf32> {attn.columns_of = 2 : i64})

// -----

// expected-error @+1 {{expected attn.columns_of to name another argument that has the rows of 'tensor<?x8xf32>' and at least its columns, but got argument 0, 'tensor<?x4xf32>'}}
func.func private @f(tensor<?x4xf32>, tensor<?x8xf32> {attn.columns_of = 0 : i64})

// -----

// expected-error @+1 {{expected no attribute attn.argument on an argument, which the attn dialect does not define}}
func.func private @f(tensor<?xf32> {attn.argument = "q"})

// -----

// expected-error @+1 {{expected no attribute attn.columns_of on a result, which the attn dialect does not define}}
func.func private @f(tensor<?xf32>) -> (tensor<?xf32> {attn.columns_of = 0 : i64})
