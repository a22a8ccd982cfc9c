// The sums of dk and dv are 2 x d channels of a row of keys. What a warpgroup has
// no registers for is a kernel for each (separate-sums.mlir). Every width compiles for every GPU,
// up to the check of registers.
//
// RUN: sed 's/DIM/64/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/DIM/136/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=SEPARATE
// RUN: sed 's/DIM/160/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=SEPARATE
// RUN: sed 's/DIM/192/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=SEPARATE
// RUN: sed 's/DIM/200/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=SEPARATE
// RUN: sed 's/DIM/256/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=SEPARATE
// RUN: sed 's/DIM/256/g' %s | attn-opt --attn-pipeline="target=sm_80 until-after=gpu" -o /dev/null
// What columns have is copied with the tiles, masked or not: two slots of them,
// for the slot of a third takes registers.
// RUN: sed 's/DIM/128/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=schedule" | FileCheck %s --check-prefix=UNMASKED
// RUN: sed 's/DIM/128/g; s/score {/mask { ^bb0(%%b: i32, %%h: i32, %%i: i32, %%j: i32): %%l = arith.cmpi sle, %%i, %%j : i32 attn.yield %%l : i1 } score {/' %s \
// RUN:   | attn-opt --attn-pipeline="target=sm_90a until-after=schedule" | FileCheck %s --check-prefix=MASKED
// UNMASKED: #attn.schedule<block_q = 128, rows = 64, block_k = 64, loop = peeled, stages = 2,
// MASKED: #attn.schedule<block_q = 128, rows = 64, block_k = 64, loop = peeled, stages = 2,
// MASKED-NOT: longest_first
// Lists of live tiles, of documents: four slots, and an order by their lengths.
// RUN: sed 's/DIM/128/g; s/%%do: !rows)/%%do: !rows, %%ids: tensor<?xi32>)/; s/ {side/ captures(%%ids : tensor<?xi32>) {side/; s/%%j: i32):/%%j: i32, %%t: tensor<?xi32>):/' %s \
// RUN:   | sed 's/score {/mask { ^bb0(%%b: i32, %%h: i32, %%i: i32, %%j: i32, %%t: tensor<?xi32>): %%r = arith.index_cast %%i : i32 to index %%c = arith.index_cast %%j : i32 to index %%x = tensor.extract %%t[%%r] : tensor<?xi32> %%y = tensor.extract %%t[%%c] : tensor<?xi32> %%l = arith.cmpi eq, %%x, %%y : i32 attn.yield %%l : i1 } score {/' \
// RUN:   | attn-opt --attn-pipeline="target=sm_90a until-after=schedule" | FileCheck %s --check-prefix=LISTED
// LISTED: #attn.schedule<block_q = 128, rows = 64, block_k = 64, loop = peeled, stages = 4,
// LISTED-SAME: order = longest_first
// RUN: sed 's/DIM/248/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=SEPARATE

!rows = tensor<?x?x?xDIMxbf16>

attn.monoid @keys cocycle stats() components(value, value) outputs("dk", "dv") {
  lift {
  ^bb0(%ds: f32, %p: f32):
    attn.yield %ds, %p : f32, f32
  }
  finalize {
  ^bb0(%dk: f32, %dv: f32):
    attn.yield %dk, %dv : f32, f32
  }
}

// WHOLE: tile_gpu.kernel
// WHOLE-SAME: rows = 64
// WHOLE-NOT: block_v
// SEPARATE: tile_gpu.kernel
// SEPARATE-SAME: block_q = 128, rows = 64
// SEPARATE-NOT: block_v
// SEPARATE: tile_gpu.kernel
// SEPARATE-SAME: block_q = 128, rows = 64
// SEPARATE-NOT: block_v
func.func @gradients(%q: !rows, %k: !rows, %v: !rows, %do: !rows) -> (!rows, !rows) {
  %0:2 = attn.aggregate @keys scores(%k, %q, %v, %do : !rows, !rows, !rows, !rows) values(%q, %do : !rows, !rows) {side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %p = math.exp %s : f32
      %ds = arith.mulf %p, %dp : f32
      attn.yield %ds, %p : f32, f32
    } -> !rows, !rows
  return %0#0, %0#1 : !rows, !rows
}
