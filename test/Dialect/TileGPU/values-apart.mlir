// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s

// Wide values have a warp of their own, so that keys do not wait for the slot
// of values, which is given back later, in blocks that share copies, too. Narrower
// ones have not.

// CHECK-LABEL: kernel private @wide_kernel0(
// CHECK:       role "load" warps(1)
// CHECK:       role "load_values" warps(1)
// CHECK:       role "compute" warpgroups(2)
!wide = tensor<?x?x?x256xbf16>
func.func @wide(%q: !wide, %k: !wide, %v: !wide) -> !wide {
  %o = attn.attention queries(%q : !wide) keys(%k : !wide) values(%v : !wide)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 80>} -> !wide
  return %o : !wide
}

// CHECK-LABEL: kernel private @shared_kernel0(
// CHECK:       ring.create tma consumers(8) cluster(2)
// CHECK:       ring.create tma consumers(8) cluster(2)
// CHECK:       role "load_values" warps(1)
func.func @shared(%q: !wide, %k: !wide, %v: !wide) -> !wide {
  %o = attn.attention queries(%q : !wide) keys(%k : !wide) values(%v : !wide)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 80, cluster = 2>} -> !wide
  return %o : !wide
}

// CHECK-LABEL: kernel private @narrow_kernel0(
// CHECK-NOT:   load_values
!narrow = tensor<?x?x?x128xbf16>
func.func @narrow(%q: !narrow, %k: !narrow, %v: !narrow) -> !narrow {
  %o = attn.attention queries(%q : !narrow) keys(%k : !narrow) values(%v : !narrow)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>} -> !narrow
  return %o : !narrow
}
