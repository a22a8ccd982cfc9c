// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-tile

// The plan runs on the host.
module attributes {attn.target = "sm_90a"} {
func.func @element(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>,
    %v: tensor<?x?x?x64xf16>, %scales: tensor<?xf32>) -> tensor<?x?x?x64xf16> {
  %c0 = arith.constant 0 : index
  // expected-error @below {{expected a scalar argument, but got an element of a tensor, which the host of a GPU cannot read}}
  %scale = tensor.extract %scales[%c0] : tensor<?xf32>
  %o = attn.attention queries(%q : tensor<?x?x?x64xf16>) keys(%k : tensor<?x?x?x64xf16>)
      values(%v : tensor<?x?x?x64xf16>) scale(%scale) -> tensor<?x?x?x64xf16>
  return %o : tensor<?x?x?x64xf16>
}
}

// -----

#slices = #attn.schedule<block_q = 64, rows = 64, block_k = 32, block_v = 256>
module attributes {attn.target = "sm_90a"} {
func.func @channels(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>,
    %v: tensor<?x?x?x320xf16>) -> tensor<?x?x?x320xf16> {
  // expected-error @below {{expected values that work tiles can share, as block_v = 256 of the schedule says, but got values of 320 channels}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf16>) keys(%k : tensor<?x?x?x64xf16>)
      values(%v : tensor<?x?x?x320xf16>) {schedule = #slices} -> tensor<?x?x?x320xf16>
  return %o : tensor<?x?x?x320xf16>
}
}

// -----

#shared = #attn.schedule<block_q = 64, rows = 64, block_k = 32, block_v = 512>
module attributes {attn.target = "sm_80"} {
func.func @shared_by_warps(%q: tensor<?x?x?x576xf16>, %k: tensor<?x?x?x576xf16>,
    %v: tensor<?x?x?x512xf16>) -> tensor<?x?x?x512xf16> {
  // expected-error @below {{expected block_v to be at most 256 on sm_80, which has no warpgroups to share channels, but got 512}}
  %o = attn.attention queries(%q : tensor<?x?x?x576xf16>) keys(%k : tensor<?x?x?x576xf16>)
      values(%v : tensor<?x?x?x512xf16>) {schedule = #shared} -> tensor<?x?x?x512xf16>
  return %o : tensor<?x?x?x512xf16>
}
}

// -----

#shared = #attn.schedule<block_q = 64, rows = 16, block_k = 32, block_v = 512>
module attributes {attn.target = "sm_90a"} {
func.func @shared_channels(%q: tensor<?x?x?x576xf16>, %k: tensor<?x?x?x576xf16>,
    %v: tensor<?x?x?x512xf16>) -> tensor<?x?x?x512xf16> {
  // expected-error @below {{expected block_q = rows = 64, where warpgroups share block_v = 512 channels, but got block_q = 64 and rows = 16}}
  %o = attn.attention queries(%q : tensor<?x?x?x576xf16>) keys(%k : tensor<?x?x?x576xf16>)
      values(%v : tensor<?x?x?x512xf16>) {schedule = #shared} -> tensor<?x?x?x512xf16>
  return %o : tensor<?x?x?x512xf16>
}
}

// -----

#slices = #attn.schedule<block_q = 64, rows = 64, block_k = 32, block_v = 256>
module attributes {attn.target = "cpu-avx2"} {
func.func @cpu(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
    %v: tensor<?x?x?x512xf32>) -> tensor<?x?x?x512xf32> {
  // expected-error @below {{expected values that work tiles can share, as block_v = 256 of the schedule says, but got a CPU}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%k : tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x512xf32>) {schedule = #slices} -> tensor<?x?x?x512xf32>
  return %o : tensor<?x?x?x512xf32>
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func @rotary(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>,
    %v: tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16> {
  // expected-error @below {{expected rows that are turned once, as they are for a GPU, but got a region 'rotate_keys' that reads the head, of which a key has several; run on a CPU}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf16>) keys(%k : tensor<?x?x?x64xf16>)
      values(%v : tensor<?x?x?x64xf16>) {rotary = #attn.rotary<8, halves>}
    rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      %f = arith.sitofp %h : i32 to f32
      attn.yield %y, %f : f32, f32
    } -> tensor<?x?x?x64xf16>
  return %o : tensor<?x?x?x64xf16>
}
}

// -----

#inside = #attn.schedule<block_q = 64, rows = 64, block_k = 64, rotate = inside>
module attributes {attn.target = "sm_90a"} {
func.func @rotary_pairs(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16> {
  // expected-error @below {{expected keys that can turn in shared memory, as rotate = inside of the schedule says, but got halves of an odd number of channels; rotate = ahead turns them in a kernel before}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x64xf16>)
      {rotary = #attn.rotary<126, halves>, schedule = #inside}
    rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %y, %x : f32, f32
    } -> tensor<?x?x?x64xf16>
  return %o : tensor<?x?x?x64xf16>
}
}

// -----

#inside = #attn.schedule<block_q = 128, rows = 64, block_k = 64, rotate = inside>
module attributes {attn.target = "sm_90a"} {
func.func @rotary_warpgroups(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16> {
  // expected-error @below {{but got several warpgroups, which may leave out steps; rotate = ahead turns them in a kernel before}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x64xf16>)
      {rotary = #attn.rotary<128, halves>, schedule = #inside}
    rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %y, %x : f32, f32
    } -> tensor<?x?x?x64xf16>
  return %o : tensor<?x?x?x64xf16>
}
}

// -----

#inside = #attn.schedule<block_q = 64, rows = 64, block_k = 64, rotate = inside>
module attributes {attn.target = "sm_90a"} {
func.func @rotary_values(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>)
    -> tensor<?x?x?x128xf16> {
  // expected-error @below {{but got values that are columns of the keys; rotate = ahead turns them in a kernel before}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%k : tensor<?x?x?x128xf16>)
      {rotary = #attn.rotary<128, halves>, schedule = #inside}
    rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %y, %x : f32, f32
    } -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}
}

// -----

#inside = #attn.schedule<block_q = 16, rows = 16, block_k = 64, rotate = inside>
module attributes {attn.target = "sm_80"} {
func.func @rotary_of_f32(%q: tensor<?x?x?x32xf32>, %k: tensor<?x?x?x32xf32>,
    %v: tensor<?x?x?x32xf32>) -> tensor<?x?x?x32xf32> {
  // expected-error @below {{but got keys that are not of 16 bits; rotate = ahead turns them in a kernel before}}
  %o = attn.attention queries(%q : tensor<?x?x?x32xf32>) keys(%k : tensor<?x?x?x32xf32>)
      values(%v : tensor<?x?x?x32xf32>)
      {rotary = #attn.rotary<32, halves>, schedule = #inside}
    rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %y, %x : f32, f32
    } -> tensor<?x?x?x32xf32>
  return %o : tensor<?x?x?x32xf32>
}
}

// -----

#copied = #attn.schedule<block_q = 128, rows = 64, block_k = 128, pairs = copied>
module attributes {attn.target = "sm_90a"} {
func.func @wide_pairs(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>,
    %v: tensor<?x?x?x64xf16>, %bias: tensor<1x1x?x?xf32>) -> tensor<?x?x?x64xf16> {
  // expected-error @below {{expected pairs = loaded, whose elements each thread loads, with elements that are not of 16 bits, but got copied}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf16>) keys(%k : tensor<?x?x?x64xf16>)
      values(%v : tensor<?x?x?x64xf16>) bias(%bias : tensor<1x1x?x?xf32>)
      {schedule = #copied} -> tensor<?x?x?x64xf16>
  return %o : tensor<?x?x?x64xf16>
}
}

// -----

#copied = #attn.schedule<block_q = 16, rows = 16, block_k = 64, pairs = copied>
module attributes {attn.target = "sm_80"} {
func.func @pairs_of_warps(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>,
    %v: tensor<?x?x?x64xf16>, %bias: tensor<1x1x?x?xf16>) -> tensor<?x?x?x64xf16> {
  // expected-error @below {{with rows that are not those of warpgroups, but got copied}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf16>) keys(%k : tensor<?x?x?x64xf16>)
      values(%v : tensor<?x?x?x64xf16>) bias(%bias : tensor<1x1x?x?xf16>)
      {schedule = #copied} -> tensor<?x?x?x64xf16>
  return %o : tensor<?x?x?x64xf16>
}
}
