// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-choose-schedule=explain=1 --verify-diagnostics | FileCheck %s

module attributes {attn.target = "cpu-avx512"} {
  // What measured best fits both caches.
  // CHECK-LABEL: func.func @fits(
  // CHECK:         schedule = #attn.schedule<block_q = 384, rows = 48, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @fits(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
    // expected-remark @below {{L2: 265216 of 1048576 bytes (queries 98304, keys 32768, values 32768, states 101376)}}
    %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
        keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
        -> tensor<?x?x?x64xf32>
    return %o : tensor<?x?x?x64xf32>
  }

  // A large head dimension: fewer queries at a time.
  // CHECK-LABEL: func.func @large_head(
  // CHECK:         schedule = #attn.schedule<block_q = 96, rows = 48, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @large_head(%q: tensor<?x?x?x512xf32>, %k: tensor<?x?x?x512xf32>,
                        %v: tensor<?x?x?x512xf32>) -> tensor<?x?x?x512xf32> {
    // expected-remark @below {{schedule chosen}}
    %o = attn.attention queries(%q : tensor<?x?x?x512xf32>)
        keys(%k : tensor<?x?x?x512xf32>) values(%v : tensor<?x?x?x512xf32>)
        -> tensor<?x?x?x512xf32>
    return %o : tensor<?x?x?x512xf32>
  }

  // No larger blocks than there are queries and keys.
  // CHECK-LABEL: func.func @small(
  // CHECK:         schedule = #attn.schedule<block_q = 1, rows = 1, block_k = 64, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @small(%q: tensor<1x8x1x64xf32>, %k: tensor<1x8x40x64xf32>,
                   %v: tensor<1x8x40x64xf32>) -> tensor<1x8x1x64xf32> {
    // expected-remark @below {{schedule chosen}}
    %o = attn.attention queries(%q : tensor<1x8x1x64xf32>)
        keys(%k : tensor<1x8x40x64xf32>) values(%v : tensor<1x8x40x64xf32>)
        -> tensor<1x8x1x64xf32>
    return %o : tensor<1x8x1x64xf32>
  }

  // A decode step has fewer blocks of rows than a machine has cores.
  // CHECK-LABEL: func.func @decode(
  // CHECK:         schedule = #attn.schedule<block_q = 4, rows = 4, block_k = 128, splits = 8, loop = peeled, pack_heads = true{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @decode(%q: tensor<1x8x1x64xf32>, %k: tensor<1x2x8192x64xf32>,
                    %v: tensor<1x2x8192x64xf32>) -> tensor<1x8x1x64xf32> {
    // expected-remark @below {{splits: 8 (2 blocks of rows, fewer than 32; parts of at least 1024 keys)}}
    %o = attn.attention queries(%q : tensor<1x8x1x64xf32>)
        keys(%k : tensor<1x2x8192x64xf32>) values(%v : tensor<1x2x8192x64xf32>)
        -> tensor<1x8x1x64xf32>
    return %o : tensor<1x8x1x64xf32>
  }

  // Parts of many rows are long: their states are written and read.
  // CHECK-LABEL: func.func @prefill(
  // CHECK:         schedule = #attn.schedule<block_q = 384, rows = 48, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @prefill(%q: tensor<1x2x768x64xf32>, %k: tensor<1x2x8192x64xf32>,
                     %v: tensor<1x2x8192x64xf32>) -> tensor<1x2x768x64xf32> {
    // expected-remark @below {{splits: 1 (4 blocks of rows, but fewer keys than two parts of 24576 keys)}}
    %o = attn.attention queries(%q : tensor<1x2x768x64xf32>)
        keys(%k : tensor<1x2x8192x64xf32>) values(%v : tensor<1x2x8192x64xf32>)
        -> tensor<1x2x768x64xf32>
    return %o : tensor<1x2x768x64xf32>
  }

  // What is written is kept.
  // CHECK-LABEL: func.func @given(
  // CHECK:         schedule = #attn.schedule<block_q = 48, rows = 24, block_k = 40, splits = 3, loop = plain{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @given(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
    // expected-remark @below {{schedule as given}}
    %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
        keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
        {schedule = #attn.schedule<block_q = 48, rows = 24, block_k = 40, splits = 3, loop = plain>}
        -> tensor<?x?x?x64xf32>
    return %o : tensor<?x?x?x64xf32>
  }

  // A mask in pieces, here every other block, has no interval to peel.
  // CHECK-LABEL: func.func @pieces(
  // CHECK:         schedule = #attn.schedule<{{.*}}, loop = masked{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @pieces(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                    %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
    // expected-remark @below {{mask: keys bounded, no full tiles to peel}}
    %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
        keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
        mask {
        ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
          %c256 = arith.constant 256 : i32
          %c2 = arith.constant 2 : i32
          %c0 = arith.constant 0 : i32
          %block = arith.divsi %j, %c256 : i32
          %odd = arith.remsi %block, %c2 : i32
          %live = arith.cmpi eq, %odd, %c0 : i32
          attn.yield %live : i1
        } -> tensor<?x?x?x64xf32>
    return %o : tensor<?x?x?x64xf32>
  }
}

// -----

// Sizes that the types leave open may be expected.
module attributes {attn.target = "cpu-avx512", attn.expected_sizes = array<i64: 2, 1, 3, 65536>} {
  // CHECK-LABEL: func.func @expected(
  // CHECK:         schedule = #attn.schedule<block_q = 3, rows = 3, block_k = 128, splits = 16, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @expected(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                      %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
    // expected-remark @below {{splits: 16 (2 blocks of rows, fewer than 32}}
    %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
        keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
        -> tensor<?x?x?x64xf32>
    return %o : tensor<?x?x?x64xf32>
  }
}

// -----

// Many keys take longer tiles where no score is computed and none is masked.
module attributes {attn.target = "sm_90a", attn.expected_sizes = array<i64: 0, 0, 0, 8192>} {
  // CHECK-LABEL: func.func @many(
  // CHECK:         attn.aggregate
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 192, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  // CHECK:         attn.aggregate
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @many(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                  %v: tensor<?x?x?x128xbf16>)
      -> (tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>) {
    // expected-remark @below {{registers: 240 of 240 of a thread}}
    %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        -> tensor<?x?x?x128xbf16>
    // expected-remark @below {{registers: 192 of 240 of a thread}}
    %c = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x128xbf16>
    return %o, %c : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
  }
}

// -----

// f32 that may be rounded is multiplied by warps, on Hopper too.
module attributes {attn.target = "sm_90a"} {
  // CHECK-LABEL: func.func @rounded(
  // CHECK:         schedule = #attn.schedule<block_q = 256, rows = 32, block_k = 64, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @rounded(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
               %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
    // expected-remark @below {{precision: f32 rounded to tf32, multiplied by warps (mma.sync.m16n8k8)}}
    %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
        keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
        {precision = #attn.precision<tf32>} -> tensor<?x?x?x64xf32>
    return %o : tensor<?x?x?x64xf32>
  }
}

// -----

// Wide keys are shared by eight warps of 32 rows.
module attributes {attn.target = "sm_80"} {
  // CHECK-LABEL: func.func @rounded_wide(
  // CHECK:         schedule = #attn.schedule<block_q = 256, rows = 32, block_k = 32, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @rounded_wide(%q: tensor<?x?x?x128xf32>, %k: tensor<?x?x?x128xf32>,
               %v: tensor<?x?x?x128xf32>) -> tensor<?x?x?x128xf32> {
    // expected-remark @below {{precision: f32 rounded to tf32, multiplied by warps (mma.sync.m16n8k8)}}
    %o = attn.attention queries(%q : tensor<?x?x?x128xf32>)
        keys(%k : tensor<?x?x?x128xf32>) values(%v : tensor<?x?x?x128xf32>)
        {precision = #attn.precision<tf32>} -> tensor<?x?x?x128xf32>
    return %o : tensor<?x?x?x128xf32>
  }
}

// -----

// 16-bit operands are multiplied as they are.
module attributes {attn.target = "sm_90a"} {
  // CHECK-LABEL: func.func @narrow(
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @narrow(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
               %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
    // expected-remark @below {{precision: tf32 may be used, but products are as with ieee: not all operands are f32}}
    %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        {precision = #attn.precision<tf32>} -> tensor<?x?x?x128xbf16>
    return %o : tensor<?x?x?x128xbf16>
  }
}

// -----

// So is f32 on a CPU.
module attributes {attn.target = "cpu-avx512"} {
  // CHECK-LABEL: func.func @cpu(
  // CHECK:         schedule = #attn.schedule<block_q = 384, rows = 48, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @cpu(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
               %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
    // expected-remark @below {{precision: tf32 may be used, but products are as with ieee: the target has none of tf32}}
    %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
        keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
        {precision = #attn.precision<tf32>} -> tensor<?x?x?x64xf32>
    return %o : tensor<?x?x?x64xf32>
  }
}

// -----

// Few rows of the query heads of a key head share tiles, where that takes fewer
// rounds of blocks.
module attributes {attn.target = "sm_90a", attn.expected_sizes = array<i64: 16, 32, 4, 8192, 8>} {
  // CHECK-LABEL: func.func @grouped(
  // CHECK:         schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 128, loop = peeled, pack_heads = true{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  // CHECK:         schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = 4, section_keys = [0-9]+)?}}>
  func.func @grouped(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                     %v: tensor<?x?x?x128xbf16>, %mask: tensor<?x1x1x?xi1>)
      -> (tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>) {
    // expected-remark @below {{heads: packed (128 blocks in the place of 512), where heads have less than block_q rows}}
    %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        -> tensor<?x?x?x128xbf16>
    // expected-remark @below {{heads: not packed (key tiles that a kernel before lists)}}
    %p = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        mask_tensor(%mask : tensor<?x1x1x?xi1>) -> tensor<?x?x?x128xbf16>
    return %o, %p : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
  }
}

// -----

// Tiles by their cost: half as many work tiles as multiprocessors become twice as
// many of 64 rows; 256 rows are one tile, whose keys are read once, not one of 192 and
// one of 64; a cap's arithmetic has four warpgroups to hide behind; a tile of few
// keys has no more than these, and the warp that copies them fetches the next; three
// warpgroups have registers for 96 columns.
module attributes {attn.target = "sm_90a"} {
  // CHECK-LABEL: func.func @costs(
  // CHECK:         schedule = #attn.schedule<block_q = 64, rows = 64
  // CHECK:         schedule = #attn.schedule<block_q = 256, rows = 64, block_k = 64
  // CHECK:         schedule = #attn.schedule<block_q = 256, rows = 64, block_k = 64
  // CHECK:         schedule = #attn.schedule<block_q = 192, rows = 64, block_k = 80, {{.*}}fetch = producer
  // CHECK:         schedule = #attn.schedule<block_q = 192, rows = 64, block_k = 96
  func.func @costs(%few: tensor<1x4x2048x128xbf16>, %short: tensor<64x32x256x64xbf16>, %long: tensor<2x16x4096x64xbf16>, %keys: tensor<2x16x77x64xbf16>, %odd: tensor<2x16x3001x96xbf16>)
      -> (tensor<1x4x2048x128xbf16>, tensor<64x32x256x64xbf16>, tensor<2x16x4096x64xbf16>, tensor<2x16x4096x64xbf16>, tensor<2x16x3001x96xbf16>) {
    // expected-remark @below {{cost: a step takes}}
    %o = attn.attention queries(%few : tensor<1x4x2048x128xbf16>)
        keys(%few : tensor<1x4x2048x128xbf16>) values(%few : tensor<1x4x2048x128xbf16>)
        -> tensor<1x4x2048x128xbf16>
    // expected-remark @below {{a work tile at most}}
    %p = attn.attention queries(%short : tensor<64x32x256x64xbf16>)
        keys(%short : tensor<64x32x256x64xbf16>) values(%short : tensor<64x32x256x64xbf16>)
        -> tensor<64x32x256x64xbf16>
    %cap = arith.constant 30.0 : f32
    // expected-remark @below {{schedule chosen}}
    %x = attn.attention queries(%long : tensor<2x16x4096x64xbf16>)
        keys(%long : tensor<2x16x4096x64xbf16>) values(%long : tensor<2x16x4096x64xbf16>)
        softcap(%cap) -> tensor<2x16x4096x64xbf16>
    // expected-remark @below {{schedule chosen}}
    %y = attn.attention queries(%long : tensor<2x16x4096x64xbf16>)
        keys(%keys : tensor<2x16x77x64xbf16>) values(%keys : tensor<2x16x77x64xbf16>)
        -> tensor<2x16x4096x64xbf16>
    // expected-remark @below {{schedule chosen}}
    %z = attn.attention queries(%odd : tensor<2x16x3001x96xbf16>)
        keys(%odd : tensor<2x16x3001x96xbf16>) values(%odd : tensor<2x16x3001x96xbf16>)
        -> tensor<2x16x3001x96xbf16>
    return %o, %p, %x, %y, %z : tensor<1x4x2048x128xbf16>, tensor<64x32x256x64xbf16>, tensor<2x16x4096x64xbf16>, tensor<2x16x4096x64xbf16>, tensor<2x16x3001x96xbf16>
  }
}

// -----

// Many rows whose tiles of keys take long share copies, in pairs of blocks. A
// mask makes rows differ, and scores of more than a factor bind by other things
// than power.
module attributes {attn.target = "sm_90a", attn.expected_sizes = array<i64: 0, 0, 8192, 8192>} {
  // CHECK-LABEL: func.func @clusters(
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 192, loop = peeled, cluster = 2{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @clusters(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                      %v: tensor<?x?x?x128xbf16>)
      -> (tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>) {
    // expected-remark @below {{clusters: 2 blocks share copies of keys and values, where they read the same}}
    %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        -> tensor<?x?x?x128xbf16>
    // expected-remark @below {{schedule chosen}}
    %p = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x128xbf16>
    return %o, %p : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
  }
}

// -----

// Tiles of 192 keys pay in pairs from 4096 rows on, and those of wider heads
// from 1024 rows on.
module attributes {attn.target = "sm_90a"} {
  // CHECK-LABEL: func.func @fewer(
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 192, loop = peeled, cluster = 2{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 192, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 80, loop = peeled, cluster = 2{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @fewer(%q: tensor<1x16x8192x128xbf16>, %r: tensor<1x16x4224x128xbf16>, %k: tensor<1x16x8192x128xbf16>, %w: tensor<1x16x16384x256xbf16>)
      -> (tensor<1x16x8192x128xbf16>, tensor<1x16x4224x128xbf16>, tensor<1x16x16384x256xbf16>) {
    // expected-remark @below {{clusters: 2 blocks share copies of keys and values, where they read the same}}
    %o = attn.attention queries(%q : tensor<1x16x8192x128xbf16>)
        keys(%k : tensor<1x16x8192x128xbf16>) values(%k : tensor<1x16x8192x128xbf16>)
        -> tensor<1x16x8192x128xbf16>
    // expected-remark @below {{schedule chosen}}
    %p = attn.attention queries(%r : tensor<1x16x4224x128xbf16>)
        keys(%k : tensor<1x16x8192x128xbf16>) values(%k : tensor<1x16x8192x128xbf16>)
        -> tensor<1x16x4224x128xbf16>
    // expected-remark @below {{schedule chosen}}
    %x = attn.attention queries(%w : tensor<1x16x16384x256xbf16>)
        keys(%w : tensor<1x16x16384x256xbf16>) values(%w : tensor<1x16x16384x256xbf16>)
        -> tensor<1x16x16384x256xbf16>
    return %o, %p, %x : tensor<1x16x8192x128xbf16>, tensor<1x16x4224x128xbf16>, tensor<1x16x16384x256xbf16>
  }
}

// -----

// 33 tiles would be 17 pairs, one of them half empty; 65 are few enough more.
module attributes {attn.target = "sm_90a"} {
  // CHECK-LABEL: func.func @odd(
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 80, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 80, loop = peeled, cluster = 2{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @odd(%q: tensor<1x16x4224x256xbf16>, %r: tensor<1x16x16512x256xbf16>, %k: tensor<1x16x16384x256xbf16>)
      -> (tensor<1x16x4224x256xbf16>, tensor<1x16x16512x256xbf16>) {
    // expected-remark @below {{schedule chosen}}
    %o = attn.attention queries(%q : tensor<1x16x4224x256xbf16>)
        keys(%k : tensor<1x16x16384x256xbf16>) values(%k : tensor<1x16x16384x256xbf16>)
        -> tensor<1x16x4224x256xbf16>
    // expected-remark @below {{schedule chosen}}
    %p = attn.attention queries(%r : tensor<1x16x16512x256xbf16>)
        keys(%k : tensor<1x16x16384x256xbf16>) values(%k : tensor<1x16x16384x256xbf16>)
        -> tensor<1x16x16512x256xbf16>
    return %o, %p : tensor<1x16x4224x256xbf16>, tensor<1x16x16512x256xbf16>
  }
}

// -----

module attributes {attn.target = "sm_90a", attn.expected_sizes = array<i64: 1, 32, 4, 8192, 8>} {
  // CHECK-LABEL: func.func @in_parts(
  // CHECK:         schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64, splits = automatic, loop = peeled, pack_heads = true{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @in_parts(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                      %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
    // expected-remark @below {{splits: automatic (8 blocks of rows, of 132 at once; parts of at least 128 keys)}}
    %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        -> tensor<?x?x?x128xbf16>
    return %o : tensor<?x?x?x128xbf16>
  }
}

// -----

// Up to eight rows are columns of a warp's products, whatever they start with or
// heads add to scores, but where each pair reads a number of its own.
module attributes {attn.target = "sm_90a", attn.expected_sizes = array<i64: 1, 32, 1, 8192, 8>} {
  // CHECK-LABEL: func.func @one_row(
  // CHECK:         schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64, splits = automatic, loop = peeled, pack_heads = true{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  // CHECK:         schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64, splits = automatic
  // CHECK:         schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64, splits = automatic
  // CHECK:         schedule = #attn.schedule<block_q = 64, rows = 64
  func.func @one_row(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                     %v: tensor<?x?x?x128xbf16>, %sinks: tensor<?xf32>, %slopes: tensor<?xf32>,
                     %mask: tensor<?x?x?x?xi1>)
      -> (tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>) {
    // expected-remark @below {{rows: columns of products, of which each of 4 warps has 16 keys}}
    %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        -> tensor<?x?x?x128xbf16>
    // expected-remark @below {{rows: columns of products, of which each of 4 warps has 16 keys}}
    %p = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        sinks(%sinks : tensor<?xf32>) -> tensor<?x?x?x128xbf16>
    // expected-remark @below {{rows: columns of products, of which each of 4 warps has 16 keys}}
    %r = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        alibi(%slopes : tensor<?xf32>) -> tensor<?x?x?x128xbf16>
    // expected-remark @below {{rows: not columns of products (scores or masks that read tensors for each row or key)}}
    %t = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        mask_tensor(%mask : tensor<?x?x?x?xi1>) -> tensor<?x?x?x128xbf16>
    return %o, %p, %r, %t : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
  }
}

// -----

module attributes {attn.target = "sm_90a", attn.expected_sizes = array<i64: 1, 32, 4, 384, 8>} {
  // CHECK-LABEL: func.func @one_round(
  // CHECK:         schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @one_round(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                       %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
    // expected-remark @below {{heads: not packed (8 blocks in the place of 32)}}
    %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        -> tensor<?x?x?x128xbf16>
    return %o : tensor<?x?x?x128xbf16>
  }
}

// -----

module attributes {attn.target = "cpu-avx512"} {
  // CHECK-LABEL: func.func @parts(
  // CHECK:         schedule = #attn.schedule<block_q = 4, rows = 4, block_k = 128, splits = 4, loop = peeled, pack_heads = true{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  // CHECK:         schedule = #attn.schedule<block_q = 1, rows = 1, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @parts(%q: tensor<1x32x1x64xf32>, %k: tensor<1x8x8192x64xf32>,
                   %mask: tensor<1x32x1x8192xi1>) -> (tensor<1x32x1x64xf32>, tensor<1x32x1x64xf32>) {
    // expected-remark @below {{heads: packed (32 blocks in the place of 32)}}
    %o = attn.attention queries(%q : tensor<1x32x1x64xf32>)
        keys(%k : tensor<1x8x8192x64xf32>) values(%k : tensor<1x8x8192x64xf32>)
        -> tensor<1x32x1x64xf32>
    // expected-remark @below {{heads: not packed (a mask that reads the head)}}
    %p = attn.attention queries(%q : tensor<1x32x1x64xf32>)
        keys(%k : tensor<1x8x8192x64xf32>) values(%k : tensor<1x8x8192x64xf32>)
        mask_tensor(%mask : tensor<1x32x1x8192xi1>) -> tensor<1x32x1x64xf32>
    return %o, %p : tensor<1x32x1x64xf32>, tensor<1x32x1x64xf32>
  }
}

// -----

// Where a plan may choose, classes of sizes have schedules of their own, those
// that differ.
module attributes {attn.target = "sm_90a", attn.dispatch} {
  // CHECK-LABEL: func.func @dispatch(
  // CHECK:         attn.dispatch = #attn.dispatch<[
  // CHECK-SAME:    <"few rows of heads that share keys, keys in parts", when = <rows = 1 to 8, keys = 512 to any, group = 2 to 8, blocks = 1 to 33>, schedule = <block_q = 64, rows = 64, block_k = 64, splits = automatic, loop = peeled, pack_heads = true{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>>,
  // CHECK-SAME:    <"few rows, keys in parts", when = <rows = 1 to 16, keys = 512 to any, blocks = 1 to 33>, schedule = <block_q = 64, rows = 64, block_k = 64, splits = automatic, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>>,
  // CHECK-SAME:    <"few rows", when = <rows = 1 to 16>, schedule = <block_q = 64, rows = 64, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>>,
  // CHECK-SAME:    <"many rows and keys, in pairs of tiles", when = <rows = 4096 to any, keys = 4096 to any, pairs_of = 128>, schedule = <block_q = 128, rows = 64, block_k = 192, loop = peeled, cluster = 2{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>>,
  // CHECK-SAME:    <"many keys", when = <keys = 8192 to any>, schedule = <block_q = 128, rows = 64, block_k = 192, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>>]>
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = (4|32), section_keys = [0-9]+)?}}>
  func.func @dispatch(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                      %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
    // expected-remark @below {{class: many keys #attn.sizes<keys = 8192 to any>}}
    %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        -> tensor<?x?x?x128xbf16>
    return %o : tensor<?x?x?x128xbf16>
  }
  // Of two, none has.
  // CHECK-LABEL: func.func @two(
  // CHECK-NOT:     attn.dispatch =
  func.func @two(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>)
      -> (tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>) {
    // expected-remark @below {{schedule chosen}}
    %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        -> tensor<?x?x?x128xbf16>
    // expected-remark @below {{schedule chosen}}
    %p = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        {causal = #attn.causal<top_left>} -> tensor<?x?x?x128xbf16>
    return %o, %p : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
  }
}

// -----

// A class behind which another one has the same schedule goes without.
module attributes {attn.target = "cpu-avx2", attn.dispatch} {
  // CHECK-LABEL: func.func @host(
  // CHECK:         attn.dispatch = #attn.dispatch<[
  // CHECK-SAME:    <"one row of heads that share keys, many keys",
  // CHECK-SAME:    splits = 4
  // CHECK-SAME:    <"one row, many keys",
  // CHECK-SAME:    <"one row", when = <rows = 1 to 1>, schedule = <block_q = 1, rows = 1,
  // CHECK-SAME:    <"few rows", when = <rows = 2 to 16>, schedule = <block_q = 24, rows = 24,
  func.func @host(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
    // expected-remark @below {{class: any other sizes: the schedule above}}
    %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
        keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
        -> tensor<?x?x?x64xf32>
    return %o : tensor<?x?x?x64xf32>
  }
}
