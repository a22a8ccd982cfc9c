// RUN: attn-opt %s --tile-gpu-allocate-shared --tile-gpu-verify-budget=report --split-input-file --verify-diagnostics

// The arithmetic, as it is reported. Tile shapes of the measured kernels and
// whether they fitted their registers are in docs/Rationale.md.

module attributes {attn.target = "sm_90a"} {
// expected-remark @below {{kernel 'shapes': 384 of 1024 threads, 65568 of 232448 bytes of shared memory, blocks of a multiprocessor: 1}}
tile_gpu.kernel @shapes(%m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  // Two slots of 128 x 128 bf16, and two barriers of 8 bytes for each slot.
  %ring = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
  // expected-remark @below {{role 'load': 0 registers of live fragments, 32 in reserve, of 24}}
  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  // The score product holds its accumulator (64) while it is in flight.
  // expected-remark @below {{role 'compute': 64 registers of live fragments, 32 in reserve, of 240}}
  tile_gpu.role "compute" warpgroups(2) registers(240) {
  ^bb0(%wg: i32):
    %k = tile_gpu.ring.wait %ring[%c0] : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
    %a = tile_gpu.smem.slice %k[%c0, %c0] : !tile_gpu.smem<128x128xbf16 swizzle 128> -> !tile_gpu.smem<64x128xbf16 swizzle 128 pitch 128>
    %t = tile_gpu.mma.issue %a, %k : !tile_gpu.smem<64x128xbf16 swizzle 128 pitch 128>, !tile_gpu.smem<128x128xbf16 swizzle 128> -> !tile_gpu.token<64x128xf32>
    %s = tile_gpu.mma.wait %t pending(0) : !tile_gpu.token<64x128xf32>
    tile_gpu.global.store %s, %m[%c0, %c0] : !tile_gpu.frag<64x128xf32, acc>, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Without registers(...) every thread gets an even share.
module attributes {attn.target = "sm_80"} {
// expected-remark @below {{kernel 'share': 256 of 1024 threads, 0 of 166912 bytes of shared memory, blocks of a multiprocessor: 1}}
tile_gpu.kernel @share() {
  // Eight warps: 65536 / 256 is more than a thread can name.
  // expected-remark @below {{role 'all': 0 registers of live fragments, 32 in reserve, of 248}}
  tile_gpu.role "all" warps(8) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Nothing to check: no kernel, no target needed.
func.func @host() {
  return
}

// -----

// What one branch reads is not held in the other: 128 and 64 or 128, not 256.
module attributes {attn.target = "sm_90a"} {
// expected-remark @below {{kernel 'branches'}}
tile_gpu.kernel @branches(%m: memref<?x?xf32>, %whole: i1) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  // expected-remark @below {{role 'compute': 128 registers of live fragments, 32 in reserve, of 240}}
  tile_gpu.role "compute" warpgroups(2) registers(240) {
  ^bb0(%wg: i32):
    %a = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.frag<64x256xf32, acc>
    scf.if %whole {
      %x = tile_gpu.map ins(%a : !tile_gpu.frag<64x256xf32, acc>) {
      ^bb0(%i: i32, %j: i32, %e: f32):
        %y = arith.negf %e : f32
        tile_gpu.yield %y : f32
      } -> !tile_gpu.frag<64x256xf32, acc>
      tile_gpu.global.store %x, %m[%c0, %c0] : !tile_gpu.frag<64x256xf32, acc>, memref<?x?xf32>
    } else {
      tile_gpu.global.store %a, %m[%c0, %c0] : !tile_gpu.frag<64x256xf32, acc>, memref<?x?xf32>
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}
