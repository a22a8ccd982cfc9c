// RUN: attn-opt %s --convert-plan-to-llvm | FileCheck %s

// The plan of a forward kernel: maps on the stack, parameters one by one, the
// counter cleared, memory released. Declarations of kernels go.

!map = !tile_gpu.tensor_map<128x128xbf16 swizzle 128>
!paged = !tile_gpu.tensor_map<16x128xbf16 swizzle 128>
tile_gpu.kernel private @forward_kernel(!map, memref<?x?xf32>, memref<1xi32>, i32, f32, index, i1)
    attributes {launch = #tile_gpu.launch<threads = 384, shared_bytes = 196608, persistent = true>}

// CHECK-NOT: forward_kernel(
// CHECK-DAG: llvm.mlir.global internal constant @[[KERNEL:.*]]("forward_kernel\00")
// CHECK-DAG: llvm.mlir.global internal constant @[[NAME:.*]]("q\00")
// CHECK-DAG: llvm.mlir.global internal constant @[[OTHER:.*]]("arg1\00")
// CHECK-LABEL: llvm.func @attn_entry_forward(
// CHECK-SAME: %{{.*}}: !llvm.ptr, %[[RT:.*]]: !llvm.ptr) -> i32
func.func @forward(
    %q: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> {attn.arg = {name = "q"}},
    %pages: memref<?x?x128xbf16, strided<[?, ?, 1]>>,
    %lse: memref<?x?xf32>, %scale: f32, %flag: i1, %n: index) attributes {tile.plan} {
  %c7 = arith.constant 7 : i32
  // rt, map, name, data, bf16 = 2, rank 4, sizes, strides, rows, columns, swizzle
  // CHECK-DAG: llvm.alloca %{{.*}} x !llvm.array<128 x i8> {alignment = 64 : i64}
  // CHECK-DAG: %[[TEXT:.*]] = llvm.mlir.addressof @[[NAME]]
  // CHECK-DAG: %[[BF16:.*]] = llvm.mlir.constant(2 : i32)
  // CHECK-DAG: %[[RANK:.*]] = llvm.mlir.constant(4 : i32)
  // CHECK-DAG: %[[ROWS:.*]] = llvm.mlir.constant(128 : i64)
  // CHECK-DAG: %[[COLS:.*]] = llvm.mlir.constant(64 : i64)
  // CHECK-DAG: %[[GPU:.*]] = llvm.getelementptr %[[RT]][4]
  // CHECK: llvm.call %{{.*}}(%[[RT]], %[[MAP:.*]], %[[TEXT]], %{{.*}}, %[[BF16]], %[[RANK]], %{{.*}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i32, i32, !llvm.ptr, !llvm.ptr, i64, i64, i32) -> i32
  %map = tile_gpu.tensor_map %q : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> !map
  // A box of 16 rows, as of a paged cache.
  // CHECK: llvm.mlir.addressof @[[OTHER]]
  // CHECK: llvm.mlir.constant(16 : i64)
  // CHECK: llvm.call
  %unused = tile_gpu.tensor_map %pages : memref<?x?x128xbf16, strided<[?, ?, 1]>> -> !paged
  // CHECK: %[[ALLOC:.*]] = llvm.load %{{.*}} : !llvm.ptr -> !llvm.ptr
  // CHECK: %[[MEMORY:.*]] = llvm.call %{{.*}}(%[[RT]], %{{.*}}) : !llvm.ptr, (!llvm.ptr, i64) -> !llvm.ptr
  %tickets = memref.alloc() : memref<1xi32>
  // CHECK: llvm.call %{{.*}}(%[[RT]], %{{.*}}, %{{.*}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64) -> i32
  tile_gpu.reset %tickets : memref<1xi32>
  // Counters: a pointer from the runtime, null is an error; not released.
  // CHECK: %[[THREE:.*]] = llvm.mlir.constant(3 : i64)
  // CHECK: %[[COUNTERS:.*]] = llvm.call %{{.*}}(%[[RT]], %[[THREE]], %{{.*}}, %[[ANY:.*]]) : !llvm.ptr, (!llvm.ptr, i64, !llvm.ptr, i64) -> !llvm.ptr
  // CHECK: llvm.icmp "eq" %[[COUNTERS]], %{{.*}}
  %counters = tile_gpu.tickets : memref<3xi32>
  // Those of one launch: its kernel, and its grid.
  // CHECK: %[[DRAWS:.*]] = llvm.mlir.addressof @[[KERNEL]]
  // CHECK: llvm.call %{{.*}}(%[[RT]], %{{.*}}, %[[DRAWS]], %{{.*}}) : !llvm.ptr, (!llvm.ptr, i64, !llvm.ptr, i64) -> !llvm.ptr
  %drawn = tile_gpu.tickets : memref<1xi32>
  // Its number, the size, the key; where it says whether it is new. One memory is
  // behind the other.
  // CHECK: %[[KEYS:.*]] = llvm.mlir.constant(3 : i64)
  // CHECK: %[[KEPT:.*]] = llvm.call %{{.*}}(%[[RT]], %{{.*}}, %[[KEYS]], %{{.*}}, %[[NEW:.*]]) : !llvm.ptr, (!llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr) -> !llvm.ptr
  // CHECK: llvm.icmp "eq" %[[KEPT]], %{{.*}}
  // CHECK: llvm.getelementptr %[[KEPT]][%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  // CHECK: llvm.getelementptr %[[KEPT]][%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  // CHECK: llvm.load %[[NEW]]
  // CHECK: llvm.icmp "ne"
  %key = arith.constant 64 : i64
  %kept:2, %new = tile_gpu.keep 5(%n) key(%key) : memref<?xi32>, memref<4xi32>
  // Map; pointer, 2 sizes, 2 strides; pointer, size, stride; i32, f32, i64, i8.
  // CHECK: llvm.zext %{{.*}} : i1 to i8
  // CHECK: llvm.store %[[MAP]], %{{.*}} : !llvm.ptr, !llvm.ptr
  // CHECK: llvm.getelementptr %{{.*}}[12] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  // CHECK: llvm.mlir.addressof @[[KERNEL]]
  // CHECK: %[[FLAGS:.*]] = llvm.mlir.constant(1 : i32)
  // CHECK: llvm.call %{{.*}}(%[[RT]], %{{.*}}, %{{.*}}, %[[FLAGS]], %{{.*}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64, i32, !llvm.ptr) -> i32
  tile_gpu.launch @forward_kernel grid(%n) args(
      %map, %lse, %drawn, %c7, %scale, %n, %flag
      : !map, memref<?x?xf32>, memref<1xi32>, i32, f32, index, i1) programmatic
  // CHECK: llvm.call %{{.*}}(%[[RT]], %[[MEMORY]]) : !llvm.ptr, (!llvm.ptr, !llvm.ptr) -> ()
  // CHECK: llvm.return
  return
}
