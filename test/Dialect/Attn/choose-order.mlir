// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-choose-schedule=explain=1 --verify-diagnostics | FileCheck %s

// Under a mask the last rows come first; on a GPU up to 32 heads advance together,
// as long as their keys, of 512 bytes with their values, are in the cache.
module attributes {attn.target = "sm_90a"} {
func.func @masked(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                  %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  // CHECK-LABEL: @masked
  // CHECK: order = longest_first, section = 32, section_keys = 102400>
  // expected-remark @below {{work tiles: longest_first (most masks leave the last rows the most keys); heads abreast: at most 32, as many as have 68266 keys, or 4 that have 102400, which fit in the cache}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// Tiles under ids have their keys in common with those beside them, so the lists
// say the order of the last heads alone.
module attributes {attn.target = "sm_90a"} {
func.func @listed(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                  %v: tensor<?x?x?x128xbf16>, %ids: tensor<?xi32>) -> tensor<?x?x?x128xbf16> {
  // CHECK-LABEL: @listed
  // CHECK: order = longest_first, section = 32, section_keys = 102400>
  // expected-remark @below {{work tiles: longest_first (the last rows first; of the heads that come last, by the lists of key tiles, where there are more than 264 and more than 1024 keys); heads abreast: at most 32, as many as have 68266 keys, or 4 that have 102400, which fit in the cache}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%ids : tensor<?xi32>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xi32>):
        %ii = arith.index_cast %i : i32 to index
        %jj = arith.index_cast %j : i32 to index
        %x = tensor.extract %t[%ii] : tensor<?xi32>
        %y = tensor.extract %t[%jj] : tensor<?xi32>
        %e = arith.cmpi eq, %x, %y : i32
        attn.yield %e : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// So they do where the keys end with the row.
module attributes {attn.target = "sm_90a"} {
func.func @late(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                  %v: tensor<?x?x?x128xbf16>, %ids: tensor<?xi32>) -> tensor<?x?x?x128xbf16> {
  // CHECK-LABEL: @late
  // CHECK: order = longest_first, section = 32, section_keys = 102400>
  // expected-remark @below {{work tiles: longest_first (the last rows first; of the heads that come last, by the lists of key tiles, where there are more than 264 and more than 1024 keys); heads abreast: at most 32, as many as have 68266 keys, or 4 that have 102400, which fit in the cache}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%ids : tensor<?xi32>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xi32>):
        %ii = arith.index_cast %i : i32 to index
        %jj = arith.index_cast %j : i32 to index
        %x = tensor.extract %t[%ii] : tensor<?xi32>
        %y = tensor.extract %t[%jj] : tensor<?xi32>
        %e = arith.cmpi eq, %x, %y : i32
        %c = arith.cmpi sle, %j, %i : i32
        %l = arith.andi %c, %e : i1
        attn.yield %l : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// Where no key is read: the first of them or the first rows.
module attributes {attn.target = "sm_90a"} {
func.func @many(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                  %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  // CHECK-LABEL: @many
  // CHECK: order = in_order, section = 32, section_keys = 102400>
  // expected-remark @below {{work tiles: in_order (the first rows have the most keys); heads abreast: at most 32, as many as have 102400 keys, which fit in the cache}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %few = arith.constant 500 : i32
        %r = arith.cmpi slt, %i, %few : i32
        %c = arith.cmpi slt, %j, %few : i32
        %l = arith.ori %r, %c : i1
        attn.yield %l : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// A mask that reads memory for its rows alone has fewer heads, and few tiles.
module attributes {attn.target = "sm_90a"} {
func.func @rows(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                %v: tensor<?x?x?x128xbf16>, %ids: tensor<?xi32>) -> tensor<?x?x?x128xbf16> {
  // CHECK-LABEL: @rows
  // CHECK: order = longest_first, section = 4, section_keys = 102400>
  // expected-remark @below {{work tiles: longest_first (most masks leave the last rows the most keys); heads abreast: at most 4, as many as have 102400 keys, which fit in the cache}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%ids : tensor<?xi32>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xi32>):
        %size = arith.constant 64 : i32
        %ii = arith.index_cast %i : i32 to index
        %x = tensor.extract %t[%ii] : tensor<?xi32>
        %y = arith.divui %j, %size : i32
        %e = arith.cmpi eq, %x, %y : i32
        attn.yield %e : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// Keys that start and end with the row are about as many for all: no kernel counts
// them, and few heads have their tiles in the cache. But in a union some rows may see
// more.
module attributes {attn.target = "sm_90a"} {
func.func @near(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  // CHECK-LABEL: @near
  // CHECK: order = in_order, section = 2, section_keys = 102400>
  // expected-remark @below {{work tiles: in_order (rows have keys around them, as many); heads abreast: at most 2, as many as have 102400 keys, which fit in the cache}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %zero = arith.constant 0 : i32
        %step = arith.constant 4 : i32
        %reach = arith.constant 255 : i32
        %distance = arith.subi %i, %j : i32
        %size = math.absi %distance : i32
        %near = arith.cmpi sle, %size, %reach : i32
        %rest = arith.remsi %distance, %step : i32
        %some = arith.cmpi eq, %rest, %zero : i32
        %live = arith.andi %near, %some : i1
        attn.yield %live : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// Not where blocks have three warpgroups.
module attributes {attn.target = "sm_90a"} {
func.func @near64(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  // CHECK-LABEL: @near64
  // CHECK: order = longest_first, section = 2, section_keys = 204800>
  // expected-remark @below {{work tiles: longest_first (most masks leave the last rows the most keys); heads abreast: at most 2, as many as have 204800 keys, which fit in the cache}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %zero = arith.constant 0 : i32
        %step = arith.constant 4 : i32
        %reach = arith.constant 1023 : i32
        %distance = arith.subi %i, %j : i32
        %size = math.absi %distance : i32
        %near = arith.cmpi sle, %size, %reach : i32
        %rest = arith.remsi %distance, %step : i32
        %some = arith.cmpi eq, %rest, %zero : i32
        %live = arith.andi %near, %some : i1
        attn.yield %live : i1
      } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func @union(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  // CHECK-LABEL: @union
  // CHECK: order = in_order, section = 32, section_keys = 102400>
  // expected-remark @below {{work tiles: in_order (the first rows have the most keys); heads abreast: at most 32, as many as have 102400 keys, which fit in the cache}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %few = arith.constant 16 : i32
        %width = arith.constant 128 : i32
        %first = arith.cmpi slt, %i, %few : i32
        %distance = arith.subi %i, %j : i32
        %size = math.absi %distance : i32
        %near = arith.cmpi sle, %size, %width : i32
        %live = arith.ori %first, %near : i1
        attn.yield %live : i1
      } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
func.func @plain(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // CHECK-LABEL: @plain
  // CHECK: schedule = #attn.schedule<
  // CHECK-NOT: order
  // CHECK-NOT: section
  // expected-remark @below {{work tiles: in_order (all rows have as many keys)}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
}

// -----

// What is given stays, and the rest is chosen.
module attributes {attn.target = "sm_80"} {
func.func @given(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                 %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  // CHECK-LABEL: @given
  // CHECK: schedule = #attn.schedule<block_q = 128, rows = 16, block_k = 64, loop = peeled, order = in_order, section = 1>
  // expected-remark @below {{work tiles: in_order (as given)}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>) 
      {causal = #attn.causal<bottom_right>, schedule = #attn.schedule<block_q = 128, rows = 16, block_k = 64, order = in_order, section = 1>}
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}
