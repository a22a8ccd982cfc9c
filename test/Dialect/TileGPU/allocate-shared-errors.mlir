// RUN: attn-opt %s --tile-gpu-allocate-shared --split-input-file --verify-diagnostics

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected at most 232448 bytes of shared memory on sm_90a, but got 278592; a ring of 3 slots would fit in place of 4}}
tile_gpu.kernel @slots() {
  // expected-note @below {{262144 bytes for 4 slots of !tile_gpu.smem<128x256xbf16 swizzle 128>}}
  // expected-note @below {{32 bytes for 4 full barriers}}
  // expected-note @below {{32 bytes for 4 empty barriers}}
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<4, 128x256xbf16 swizzle 128>
  // expected-note @below {{16384 bytes for !tile_gpu.smem<128x64xbf16 swizzle 128>}}
  %a = tile_gpu.smem.alloc : !tile_gpu.smem<128x64xbf16 swizzle 128>
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
// expected-error @below {{expected at most 166912 bytes of shared memory on sm_80, but got 262144; no ring of fewer slots would fit: expected smaller tiles}}
tile_gpu.kernel @tile() {
  // expected-note @below {{262144 bytes for 1 slots of !tile_gpu.smem<512x256xbf16 swizzle 128>}}
  %r = tile_gpu.ring.create cp_group producers(8) : !tile_gpu.ring<1, 512x256xbf16 swizzle 128>
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
// expected-error @below {{but got 262144; expected smaller tiles}}
tile_gpu.kernel @alloc() {
  // expected-note @below {{262144 bytes for !tile_gpu.smem<512x256xbf16 swizzle 128>}}
  %a = tile_gpu.smem.alloc : !tile_gpu.smem<512x256xbf16 swizzle 128>
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected at most 16 hardware barriers, the block's own included, but got 17}}
tile_gpu.kernel @barriers() {
  %b = tile_gpu.barrier.create warps(1) each(16)
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected all of its shared memory and barriers to have places, or none}}
tile_gpu.kernel @some() attributes {shared_bytes = 8192 : i64} {
  %a = tile_gpu.smem.alloc at(0) : !tile_gpu.smem<64x64xbf16 swizzle 128>
  %b = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xbf16 swizzle 128>
  tile_gpu.return
}
}

// -----

// expected-error @below {{expected attn.target to name a GPU}}
module {
tile_gpu.kernel @k() {
  tile_gpu.return
}
}
