//===- attn.h - The C ABI of libattn.so ---------------------------*- C -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention kernels, compiled at run time from IR text or from a description
// of named options, run on the caller's memory.
//
// Conventions:
// - Every function that can fail returns an AttnError *, null on success. The
//   caller destroys the error. Where a function fails, what it would have
//   returned through pointers is left as it was. Nothing throws or aborts, and
//   nothing prints but a warning to stderr, once in a process, where a folder
//   that was asked for cannot be used (docs/Embedding.md, "The cache").
// - Handles are opaque, made by a ...Create or Compile function and given back
//   to a ...Destroy function, which accepts null.
// - Strings are UTF-8, terminated by zero. A `const char *` that is returned
//   belongs to the handle it came from and lives as long.
// - Structs that callers fill start with `structSize`, in bytes, to be set to
//   sizeof(the struct): later versions append members, and zero means "as
//   before". Zero-initialise them. A struct of a later version than the library
//   is taken where the members that the library does not know are zero. Bits of
//   flags that it does not know are an error.
// - All functions may be called from any thread. A kernel is immutable and may
//   run many times at once. A forked child may go on with its parent's handles.
//
// Available since 0.1, where nothing else is said.
//===----------------------------------------------------------------------===//

#ifndef ATTN_C_ATTN_H
#define ATTN_C_ATTN_H

#include "attn-c/Version.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Grows when a function is added; the library refuses no older number.
#define ATTN_API_VERSION 11
/// The ATTN_API_VERSION that the library was built with.
ATTN_EXPORT int32_t attnApiVersion(void);

typedef struct AttnContext AttnContext;
typedef struct AttnKernel AttnKernel;
typedef struct AttnError AttnError;

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// The first line says what was expected and what came; lines after it, if
/// any, are notes.
ATTN_EXPORT const char *attnErrorMessage(const AttnError *error);
ATTN_EXPORT void attnErrorDestroy(AttnError *error);

//===----------------------------------------------------------------------===//
// Contexts and threads
//===----------------------------------------------------------------------===//

/// A context holds two caches of compiled kernels: compiling the same text or
/// description again gives the same kernel at once, and so does attnAttention
/// of a description and sizes like those of an earlier call. Each keeps the 256
/// that were asked for last, 0.1 MB or more each, and 4096 for GPUs, where code
/// that was loaded stays; others are compiled anew. What a caller has, lives
/// until it is destroyed.
ATTN_EXPORT AttnError *attnContextCreate(AttnContext **context);
ATTN_EXPORT void attnContextDestroy(AttnContext *context);
/// Kernels in both caches.
ATTN_EXPORT size_t attnContextNumCached(const AttnContext *context);
ATTN_EXPORT void attnContextClearCache(AttnContext *context);

/// Threads that a run uses, of the one pool of this process; 0 restores the
/// default, the physical cores that the process may use. Results do not
/// depend on it.
ATTN_EXPORT void attnSetNumThreads(int32_t count);
ATTN_EXPORT int32_t attnGetNumThreads(void);

/// A thread pool of the host: calls task(taskContext, i) for each i in
/// [0, count), in any order and in parallel, and returns when all are done.
typedef void (*AttnParallelFor)(void *user, int64_t count,
                                void (*task)(void *taskContext, int64_t index),
                                void *taskContext);
/// Runs kernels on the host's threads; with a null function on our own again.
ATTN_EXPORT void attnSetParallelFor(AttnParallelFor function, void *user);

/// Told of each block of a kernel's launch as a thread takes it, in order: from
/// any thread, several at once. A run may consist of several launches.
typedef void (*AttnProgress)(void *user, int64_t block, int64_t count);
/// Runs that start from now on, on any thread, report to `function`; with a
/// null function to nobody.
///
/// Available since API version 3.
ATTN_EXPORT void attnSetProgress(AttnProgress function, void *user);

/// The target that "host" stands for on this machine, as in "cpu-avx512".
ATTN_EXPORT const char *attnHostTarget(void);
/// The names of the shipped monoids and of their outputs, one monoid per line:
/// "softmax: o, lse".
ATTN_EXPORT const char *attnShippedMonoids(void);
/// The text of the shipped monoid `name`, an attn.monoid, or null.
///
/// Available since API version 11.
ATTN_EXPORT const char *attnShippedMonoid(const char *name);

/// Takes a text, which lives as long as the call.
typedef void (*AttnText)(const char *text, void *user);

/// Gives `text` the names of a monoid's outputs: "o, lse". `monoid` is the name
/// of a shipped one, or the text of one `attn.monoid`.
///
/// Available since API version 7.
ATTN_EXPORT AttnError *attnMonoidOutputs(const char *monoid, AttnText text,
                                         void *user);

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

/// GPUs that kernels can run on. The error says what is missing: the NVIDIA
/// driver is opened on the first call of this or of anything that needs it.
///
/// Available since API version 3, like all that speaks of GPUs.
ATTN_EXPORT AttnError *attnDeviceCount(int32_t *count);

typedef struct AttnDeviceInfo {
  size_t structSize;
  char name[256];
  /// The best target whose code the device runs, as in "sm_90a"; empty if none.
  char target[16];
  /// Compute capability.
  int32_t major, minor;
  int32_t multiprocessors;
  /// As in 13000 for CUDA 13.0.
  int32_t driverVersion;
  int64_t sharedMemoryBytes; /* the most that one block may use */
  int64_t l2Bytes;
  int64_t memoryBytes;
} AttnDeviceInfo;

ATTN_EXPORT AttnError *attnDeviceGet(int32_t device, AttnDeviceInfo *info);

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

typedef enum AttnDType {
  ATTN_F32 = 0,
  ATTN_F16 = 1,
  ATTN_BF16 = 2,
  ATTN_F64 = 3,
  ATTN_I8 = 4,
  ATTN_I16 = 5,
  ATTN_I32 = 6,
  ATTN_I64 = 7,
  ATTN_U8 = 8,
  ATTN_BOOL = 9 /* one byte, zero or one */
} AttnDType;

/// "f32" and so on; null for a value that is no AttnDType.
ATTN_EXPORT const char *attnDTypeName(AttnDType dtype);

/// Memory of the caller, who keeps it until the call has returned, and that of
/// a GPU until the stream is done with it. A scalar is a tensor of rank 0, and
/// in host memory; every other tensor of a kernel for a GPU is in that GPU's
/// memory.
typedef struct AttnTensor {
  void *data; /* of the element at index 0; null if some size is 0 */
  AttnDType dtype;
  int32_t rank;           /* 0 to 16 */
  const int64_t *shape;   /* `rank` sizes of 0 to 2^31 - 2^16 - 1 */
  const int64_t *strides; /* in elements; null: dense, last dimension fastest */
} AttnTensor;

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

typedef struct AttnCompileOptions {
  size_t structSize;
  /// "host", "cpu-...", "sm_80", "sm_90a" and so on, or "cuda" for the best of
  /// the current GPU. Null: the module's attn.target, else the host.
  /// "emulator:sm_90a" is code for that GPU which runs on tensors of the host.
  const char *target;
  /// The phase that the text has reached; null: found out. Phases are "input",
  /// "aggregate", "schedule" and "tile"; then "vector" and "llvm" for a CPU,
  /// "gpu" and "nvvm" for a GPU.
  const char *startFrom;
  /// Stops after this phase, without code; null: runs all.
  const char *untilAfter;
  /// Directory for one numbered file per phase; null: none.
  const char *dumpPhasesTo;
  /// Stands for the text in errors; null: "<input>".
  const char *sourceName;
  /// Nonzero: keeps the text of every phase for attnKernelIr.
  int32_t keepIr;
  /// Nonzero: stops at the object file, for another machine than this one.
  int32_t objectOnly;
  /// Nonzero: compiles even where a cache (of the context, or of kernels for
  /// GPUs on disk: docs/Embedding.md) has the kernel.
  int32_t noCache;
  /// What the entry of attnCompileAttention is called, a C identifier; null:
  /// "attention". Objects that are linked into one program have names of their
  /// own.
  const char *name;
  /// Nonzero: code for a CPU counts the bytes that its tiles load and store
  /// (docs/Ladder.md), which `counters` of AttnRunOptions gets. It is slower,
  /// and such a kernel may have one run at a time.
  ///
  /// Available since API version 10.
  int32_t countTraffic;
} AttnCompileOptions;

/// Compiles MLIR text or bytecode. `options` may be null.
ATTN_EXPORT AttnError *attnCompile(AttnContext *context, const char *text,
                                   size_t length,
                                   const AttnCompileOptions *options,
                                   AttnKernel **kernel);

typedef enum AttnCausal {
  ATTN_CAUSAL_NONE = 0,
  ATTN_CAUSAL_TOP_LEFT = 1,
  ATTN_CAUSAL_BOTTOM_RIGHT = 2
} AttnCausal;

/// Of `cascade`: the library chooses (AttnAttentionDesc).
enum { ATTN_CASCADE_AUTO = -1 };

/// What products may round f32 operands to.
typedef enum AttnPrecision {
  ATTN_PRECISION_IEEE = 0, /* nothing */
  ATTN_PRECISION_TF32 = 1  /* 10 bits behind the point, where that is faster */
} AttnPrecision;

/// Says of a mask or a bias that it is given, and in which of the dimensions
/// [b, hq, sq, sk] it has size 1 and repeats. The latter goes with the former.
enum {
  ATTN_GIVEN = 1,
  ATTN_BROADCAST_BATCH = 2,
  ATTN_BROADCAST_HEADS = 4,
  ATTN_BROADCAST_QUERIES = 8,
  ATTN_BROADCAST_KEYS = 16
};

/// A description of attention by named options (docs/Semantics.md). Everything
/// else (sizes, strides, and the values of scale, softcap, window, lengths and
/// of all tensors) is given to each run. The kernel's inputs, those that were
/// asked for, in this order:
///
///   q [b, hq, sq, d], k [b, hk, sk, d], v [b, hk, sk, dv], scale f32,
///   softcap f32, bias, mask, alibi_slopes f32 [hq] or [b, hq], sinks f32 [hq],
///   kv_lengths i32 [b], window_left i32, window_right i32,
///   cu_seqlens_q and cu_seqlens_k i32 [sequences + 1], block_table i32 [b, n],
///   k_start i32 [b], k_new [b, hk, n, d], v_new [b, hk, n, dv], dropout_p f32,
///   dropout_seed_low, dropout_seed_high, dropout_offset_low and
///   dropout_offset_high i32, rotary_cos and rotary_sin f32 [positions,
///   rotaryDim / 2], one f32 for each parameter of the monoid,
///   block_mask, the captures of scoreMod and maskMod
///
/// and its outputs are the first `numOutputs` of the monoid: of q's dtype and
/// shape [b, hq, sq, dv] if they have channels, else f32 [b, hq, sq]. Any order
/// of dimensions in memory will do, by strides; the last must have stride 1.
/// Packed tensors have no b: q [hq, total_q, d] and so on. With a block table k
/// and v are pools, [pages, hk, page, d] and [pages, hk, page, dv]; packed
/// queries then come with it and without cu_seqlens_k.
typedef struct AttnAttentionDesc {
  size_t structSize;
  AttnDType dtype;  /* of q, k, v: f32, f16 or bf16 */
  int64_t headDim;  /* d */
  int64_t valueDim; /* dv; 0: d */
  AttnCausal causal;
  /// Nonzero: the input is there. Without `scale` it is 1/sqrt(d).
  int32_t scale, softcap, window, sinks, lengths, packed;
  /// 0, or the flags above.
  int32_t bias, mask;
  AttnDType biasDType; /* f32, f16 or bf16 */
  /// 0: none; 1: slopes [hq]; 2: slopes [b, hq].
  int32_t alibi;
  /// The name of a shipped monoid, or the text of one `attn.monoid`; null:
  /// softmax.
  const char *monoid;
  /// 0: one.
  int32_t numOutputs;
  /// The text of an #attn.schedule<...>; null: chosen for the target.
  const char *schedule;
  /// The sizes [b, hq, sq, sk] that the schedule is chosen for, 0 where not
  /// known. A run may have any sizes. Each set of numbers is a kernel of its
  /// own: round them, so that a new length seldom compiles one. Where all are 0
  /// and no schedule is given, attnCompileAttention makes a kernel for each
  /// class of sizes that has a schedule of its own (attnKernelExplain lists
  /// them), and runs take the one for theirs; attnAttention compiles the one
  /// for the call's.
  ///
  /// Available since API version 3.
  int64_t expectedSizes[4];
  /// A permission: GPUs round where q, k and v are f32, CPUs never do
  /// (docs/Semantics.md).
  ///
  /// Available since API version 4.
  AttnPrecision precision;
  /// The key heads hk that go with `expectedSizes`, 0 where not known: few rows
  /// of the query heads of a key head may share tiles.
  ///
  /// Available since API version 5.
  int64_t expectedKeyHeads;
  /// Nonzero: the input block_table is there, the numbers of the pages of each
  /// sequence; those behind its last are not looked at. The last page is filled
  /// as far as kv_lengths say, or to its end. The rows of a page; or -1 for
  /// any. GPUs copy fastest where they are known, and a multiple of 8.
  ///
  /// Available since API version 8, as are the following.
  int32_t blockTable;
  /// Nonzero: the input k_start is there, the position of the first key of each
  /// sequence.
  int32_t kStart;
  /// Nonzero: k and v are written round and round: the key at position p is in
  /// row p modulo the rows of k. It goes with kStart, and with neither packed
  /// nor blockTable.
  int32_t rolling;
  /// Nonzero: the bits of a row depend on its query, its keys and their
  /// positions alone, and not on what else is in the call: other sequences, how
  /// many, packed or not, whether the row is one of a prompt, of a chunk of it
  /// or alone (docs/Semantics.md). Keys are then cut after a fixed number of
  /// them, which prompts take somewhat longer for. Not with rolling.
  ///
  /// Available since API version 9, as are the following.
  int32_t batchInvariant;
  /// Nonzero: the inputs k_new [b, hk, n, d] and v_new [b, hk, n, dv] are
  /// there. Their rows are written to k and v, which are the caches of
  /// `lengths`, dense, in pages or rolling: row i of batch b to row
  /// kv_lengths[b] + i of the sequence. Then the call attends to them:
  /// kv_lengths are those before, and diagonals end at the last new row. k and
  /// v must not overlap each other or the new rows, and have room for these; on
  /// a GPU, where lengths and tables are not read, what has no room or no page
  /// is not written, and sequences end there. Two sequences that have one page
  /// as that of their new rows both write it.
  ///
  /// 2, with `packed` and `blockTable`: k_new is [hk, total, d] and v_new
  /// [hk, total, dv], packed as the queries are. Sequence b appends the rows
  /// from cu_seqlens_q[b] to cu_seqlens_q[b + 1], any number of them or none.
  /// What has no room or no page is then not written on a CPU either.
  int32_t append;
  /// Nonzero: the values are the first dv columns of the keys (multi-head
  /// latent attention): v is k's memory and strides. There is no v_new then,
  /// and rows are appended to k alone. attnAttention sets it where v is so.
  int32_t valueInKey;
  /// The text of the score function and of the mask (docs/Masks.md), each a
  /// region of MLIR: "^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32): ...
  /// attn.yield %x : f32", of the mask without %s and with an i1; null: none.
  /// They go with all other options: the score function comes behind the
  /// softcap and before bias and ALiBi, and a key is live that every mask lets
  /// pass. Arguments behind %j are captures: inputs of the kernel, by these
  /// names, after all others, those of the score function first.
  ///
  /// Available since API version 10, as are the following.
  const char *scoreMod;
  const char *maskMod;
  /// 0, or flags as of `mask`: the input block_mask is there, i8
  /// [b, hq, ceil(sq / blockRows), ceil(sk / blockKeys)], the first one behind
  /// the parameters of the monoid. What it has of a block of queries and keys
  /// is 0 where no pair is live, 2 where every pair is as far as maskMod is
  /// concerned, and 1 where maskMod says. Other numbers are as 0. Blocks of 0
  /// are not visited where tiles lie within them. Neither with packed queries
  /// nor with kStart.
  int32_t blockMask;
  int64_t blockRows, blockKeys;
  /// Nonzero: the inputs dropout_p, from 0 to 1, and dropout_seed and
  /// dropout_offset, of 64 bits in two halves each, are there. Of each pair of
  /// a query and a key the value is dropped with the probability p, else it
  /// counts 1 / (1 - p) times as much; sums of weights are those of all keys.
  /// Which pairs, follows from seed, offset, batch, head and the numbers of
  /// query and key alone (docs/Semantics.md). Of monoids that sum weighted
  /// values.
  int32_t dropout;
  /// Nonzero: the first rotaryDim channels of queries and keys, an even number,
  /// turn before the product by angles that depend on their position (rotary
  /// embedding), so that caches hold keys as they were before. The inputs
  /// rotary_cos and rotary_sin, f32 [positions, rotaryDim / 2], are there: of
  /// pair c, channels c and c + rotaryDim / 2, or with rotaryInterleaved 2 c
  /// and 2 c + 1, x becomes x cos - y sin and y becomes y cos + x sin, with row
  /// `position`, column c of the tables. Key j is at position k_start + j, with
  /// rotaryBySlot at j, its place in the cache. Query i is where key
  /// i + (keys - queries) of the sequence is, with ATTN_CAUSAL_TOP_LEFT at
  /// position i. A row at a position that the tables do not have is NaN; they
  /// have one at least.
  /// Neither with valueInKey nor for attnDifferentiate.
  int64_t rotaryDim;
  int32_t rotaryInterleaved, rotaryBySlot;
  /// 0, or a number of levels from 1 to 4: pages that the block tables of
  /// several sequences begin with are read once for the rows of all of them
  /// (shared prefixes); with two levels also what some of these go on with,
  /// which takes more kernels to find. Equal entries tell, each time the kernel
  /// runs, on the device that it runs on: tables may change under a captured
  /// graph. It goes with blockTable and a bottom-right or no diagonal, of few
  /// rows (those of all query heads of a key head fill no half of a tile of 64,
  /// on GPUs 128; others share nothing), and with neither packed queries,
  /// kStart, window, bias, mask, alibi, dropout, rotary, scoreMod, maskMod,
  /// blockMask nor batchInvariant. Results are those without it but for
  /// rounding. ATTN_CASCADE_AUTO, for attnAttention and attnAttentionKernel:
  /// one level where it goes with the other options and pays. On a CPU the
  /// table of the call says so; on a GPU, where no host reads that, the sizes
  /// do, by what is saved if all sequences share all pages.
  int32_t cascade;
  /// Nonzero: the gradients that attnDifferentiateAttention gives may be added
  /// up in any order, so that two runs may differ in their last bits, where
  /// that is faster (docs/Gradients.md). The forward pass has one order.
  int32_t anyOrder;
} AttnAttentionDesc;

ATTN_EXPORT AttnError *attnCompileAttention(AttnContext *context,
                                            const AttnAttentionDesc *desc,
                                            const AttnCompileOptions *options,
                                            AttnKernel **kernel);

/// The kernel that attnAttention runs for inputs of these sizes, or would on
/// another target. Of the inputs q, k, the block table and cu_seqlens_q are
/// looked at, as far as they are there, and of these all but the memory.
///
/// Available since API version 7.
ATTN_EXPORT AttnError *
attnAttentionKernel(AttnContext *context, const AttnAttentionDesc *desc,
                    const AttnTensor *inputs, size_t numInputs,
                    const AttnCompileOptions *options, AttnKernel **kernel);

/// Kernels outlive their context.
ATTN_EXPORT void attnKernelDestroy(AttnKernel *kernel);

/// Gives `text` a program for training, for attnCompile: in the place of the
/// one public function @f of `source` its
///
/// - @f_forward, with the results of @f and then the state of each row that the
///   backward reads, and
/// - @f_backward: the arguments of @f, that state, the results that it reads
///   (those with channels, where the monoid has weights), and a cotangent for
///   each result; it returns the gradients of the inputs (docs/Gradients.md).
///
/// `inputs` names the arguments to differentiate, as "q, k, v"; null: all
/// floats.
///
/// Available since API version 10, as is the following.
ATTN_EXPORT AttnError *attnDifferentiate(const char *source, size_t length,
                                         const char *inputs,
                                         const char *sourceName, AttnText text,
                                         void *user);

/// The same of a description, whose function is called "attention".
ATTN_EXPORT AttnError *attnDifferentiateAttention(const AttnAttentionDesc *desc,
                                                  const char *inputs,
                                                  AttnText text, void *user);

//===----------------------------------------------------------------------===//
// Asking
//===----------------------------------------------------------------------===//

/// Functions of the kernel that can be run. Where a function below takes an
/// `entry`, it is a number below this.
ATTN_EXPORT size_t attnKernelNumEntries(const AttnKernel *kernel);
ATTN_EXPORT const char *attnKernelEntryName(const AttnKernel *kernel,
                                            size_t entry);
/// The number of an entry, or -1.
ATTN_EXPORT int64_t attnKernelFindEntry(const AttnKernel *kernel,
                                        const char *name);
ATTN_EXPORT size_t attnKernelNumInputs(const AttnKernel *kernel, size_t entry);
ATTN_EXPORT size_t attnKernelNumOutputs(const AttnKernel *kernel, size_t entry);

typedef struct AttnArgInfo {
  const char *name;
  AttnDType dtype;
  /// -1 for a scalar, which is passed as a tensor of rank 0.
  int32_t rank;
  /// -1 where the size is free; null if rank <= 0.
  const int64_t *shape;
  /// A name for each dimension, equal where sizes must be; "" where a
  /// dimension stands alone. Null if rank <= 0.
  const char *const *dims;
} AttnArgInfo;

/// Describes argument `index`: inputs first, then outputs.
ATTN_EXPORT AttnError *attnKernelArg(const AttnKernel *kernel, size_t entry,
                                     size_t index, AttnArgInfo *info);

/// Nonzero for an input that runs write: a cache that rows are appended to.
///
/// Available since API version 9.
ATTN_EXPORT int32_t attnKernelArgIsWritten(const AttnKernel *kernel,
                                           size_t entry, size_t index);

/// The name of the target that the code is for.
ATTN_EXPORT const char *attnKernelTarget(const AttnKernel *kernel);
/// Why the code is as it is: the schedule and the arithmetic behind it, and
/// what the masks were found to be.
ATTN_EXPORT const char *attnKernelExplain(const AttnKernel *kernel);
/// The IR after a phase, "llvm-ir", or "ptx" of a kernel for a GPU; null where
/// it was not kept. A null phase means the last one that ran.
ATTN_EXPORT const char *attnKernelIr(const AttnKernel *kernel,
                                     const char *phase);
/// The relocatable object (of a kernel for a GPU: the plan, which the host
/// runs); null where compilation stopped before it.
ATTN_EXPORT const void *attnKernelObject(const AttnKernel *kernel,
                                         size_t *size);
/// The assembly of a kernel for a GPU, and its machine code where ptxas was
/// found to make it; null else.
ATTN_EXPORT const char *attnKernelPtx(const AttnKernel *kernel);
ATTN_EXPORT const void *attnKernelCubin(const AttnKernel *kernel, size_t *size);

/// A function of a kernel's PTX, for callers that launch it themselves.
typedef struct AttnDeviceKernel {
  const char *name;
  int32_t threads;     /* of a block */
  int32_t persistent;  /* nonzero: no more blocks than run at once, in whole
                          clusters where the code has them */
  int64_t sharedBytes; /* dynamic shared memory of a block */
} AttnDeviceKernel;

ATTN_EXPORT size_t attnKernelNumDeviceKernels(const AttnKernel *kernel);
ATTN_EXPORT AttnError *attnKernelDeviceKernel(const AttnKernel *kernel,
                                              size_t index,
                                              AttnDeviceKernel *result);

/// What each step of the compilation took.
ATTN_EXPORT size_t attnKernelNumTimes(const AttnKernel *kernel);
ATTN_EXPORT const char *attnKernelTimeName(const AttnKernel *kernel,
                                           size_t index);
ATTN_EXPORT double attnKernelTimeMs(const AttnKernel *kernel, size_t index);

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// The shape of output `output` (counted from 0) for these inputs. `shape` has
/// room for `capacity` sizes; `rank` is set to their number.
ATTN_EXPORT AttnError *
attnKernelOutputShape(const AttnKernel *kernel, size_t entry,
                      const AttnTensor *inputs, size_t numInputs, size_t output,
                      int64_t *shape, int32_t capacity, int32_t *rank);

/// Checks the arguments and runs the kernel. Inputs are not written, but for
/// caches that rows are appended to (`append` of a description). No byte of
/// an output may be one of an input, of another output, or of another position
/// of itself: such calls are refused, and so are strides from which it would
/// take too long to tell. Tensors that interleave without that, as the heads of
/// one buffer or its even and odd rows, are taken. Tensors may be empty. A
/// kernel for a GPU runs on the default stream, as with attnKernelRunOn.
///
/// Of a packed kernel, rows behind the last sequence are rows without keys: 0,
/// and -inf for lse.
ATTN_EXPORT AttnError *attnKernelRun(const AttnKernel *kernel, size_t entry,
                                     const AttnTensor *inputs, size_t numInputs,
                                     const AttnTensor *outputs,
                                     size_t numOutputs);

/// Whether a run is to stop: nonzero means so.
typedef int32_t (*AttnInterrupt)(void *user);

typedef enum AttnPlace {
  ATTN_PLACE_HOST = 0,
  ATTN_PLACE_GPU = 1 /* the one that the tensors are on */
} AttnPlace;

typedef struct AttnRunOptions {
  size_t structSize;
  /// A CUstream (cudaStream_t) of the GPU that the tensors are on; null: the
  /// default stream.
  void *stream;
  /// Asked by the calling thread between blocks of the kernel, first when the
  /// run has taken 50 ms and at most every 50 ms. Where it says so, no further
  /// block is started and the run ends with an error that begins with
  /// "interrupted"; what its outputs hold is unspecified then. Null: never
  /// asked. For CPUs alone, and where the calling thread computes blocks itself
  /// (under attnSetParallelFor the host decides that).
  ///
  /// Available since API version 6.
  AttnInterrupt interrupt;
  void *interruptUser;
  /// Of a kernel on the emulator, and of one that was compiled with
  /// `countTraffic`: called with what it counted, in the form of
  /// docs/Emulator.md or docs/Ladder.md, when the run has ended well. Null:
  /// nothing is counted, which is faster.
  ///
  /// Available since API version 6.
  AttnText counters;
  void *countersUser;
  /// Of attnAttention: where the tensors are, and the kernel runs. Other runs
  /// go by the target of their kernel.
  ///
  /// Available since API version 7.
  AttnPlace place;
} AttnRunOptions;

/// The same on a stream of a GPU, without waiting: what the kernel meets there
/// shows when the caller synchronises. May be captured into a graph. Lengths
/// and offsets are in the GPU's memory, so what they hold is not checked;
/// values out of range are brought into it by the kernels.
ATTN_EXPORT AttnError *attnKernelRunOn(const AttnKernel *kernel, size_t entry,
                                       const AttnTensor *inputs,
                                       size_t numInputs,
                                       const AttnTensor *outputs,
                                       size_t numOutputs,
                                       const AttnRunOptions *options);

/// Computes attention: finds the kernel for the description, the sizes of the
/// tensors and the place, compiles it where there is none yet (one thread does,
/// others that ask for it wait), checks the tensors and runs it as
/// attnKernelRunOn does. `inputs` and `outputs` are those of the description,
/// in its order. Sizes fall into classes with a kernel each, few and bounded in
/// number, so that a cache that grows by a key at a time seldom compiles.
///
/// Available since API version 7.
ATTN_EXPORT AttnError *attnAttention(AttnContext *context,
                                     const AttnAttentionDesc *desc,
                                     const AttnTensor *inputs, size_t numInputs,
                                     const AttnTensor *outputs,
                                     size_t numOutputs,
                                     const AttnRunOptions *options);

/// Loads a kernel onto a GPU now (-1: the current one), which the first run
/// there would do: where there was no ptxas, the driver compiles PTX for 0.1 to
/// 0.5 s. Nothing for a CPU.
ATTN_EXPORT AttnError *attnKernelLoad(const AttnKernel *kernel, int32_t device);

/// Makes the schedule of a kernel for a GPU, which took `ms` milliseconds, the
/// choice of later compilations for like problems on its target. It is kept in
/// the folder of the cache (docs/Embedding.md).
///
/// Available since API version 3.
ATTN_EXPORT AttnError *attnKernelRecordSchedule(const AttnKernel *kernel,
                                                double ms);

typedef enum AttnRounding {
  ATTN_EXACT = 0, /* float64 throughout */
  ATTN_ROUND_F32 = 1,
  ATTN_ROUND_F16 = 2,
  ATTN_ROUND_BF16 = 3
} AttnRounding;

/// Evaluates a function of IR text (null: the first) by its definition and
/// without the compiler, one key after the other: what the outputs of a run are
/// compared with. `outputs` are dense f64, one for each result; memory is taken
/// for all tensors as doubles, each of at most 2^32 positions. With a rounding
/// other than ATTN_EXACT it is an emulation that rounds as it goes, whose error
/// says how much error that type excuses. Slow.
///
/// Available since API version 2.
ATTN_EXPORT AttnError *attnEvaluate(const char *text, size_t length,
                                    const char *entry, const AttnTensor *inputs,
                                    size_t numInputs, const AttnTensor *outputs,
                                    size_t numOutputs, AttnRounding rounding);

/// How attnEvaluateWith evaluates. All zero: exactly, as with ATTN_EXACT.
typedef struct AttnEvaluateOptions {
  size_t structSize; /* sizeof(AttnEvaluateOptions) */
  AttnRounding rounding;
  /* Of an emulation, 0 to 7: in which order it adds up and combines. The error
   * of one order is a matter of luck where few keys count. */
  int32_t order;
  /* Keys of a tile where an order has tiles; 0: 64. */
  int32_t tile;
  /* Of an emulation: scores stay in f32, as compiled kernels keep them. */
  int32_t wideScores;
  /* Called from this thread now and then, with a row and the number of rows. */
  AttnProgress progress;
  void *progressUser;
} AttnEvaluateOptions;

/// attnEvaluate with more to say. Null options: all zero.
///
/// Available since API version 6.
ATTN_EXPORT AttnError *
attnEvaluateWith(const char *text, size_t length, const char *entry,
                 const AttnTensor *inputs, size_t numInputs,
                 const AttnTensor *outputs, size_t numOutputs,
                 const AttnEvaluateOptions *options);

/// What the mask of one head makes of tiles of rows and keys: 0 for a tile
/// without a live pair, 2 for one whose every pair is live, 1 for others; plus
/// 4 where the analysis of the mask does not tell and elements do.
typedef struct AttnMaskTiles {
  /// The number of the reduction in the function, from 0.
  int64_t reduction;
  int64_t batch, head;
  int64_t rows, keys; /* that the sequence has */
  int64_t queryTiles, keyTiles;
  const uint8_t *classes; /* [queryTiles, keyTiles], as long as the call */
} AttnMaskTiles;

typedef struct AttnMaskTilesOptions {
  size_t structSize;
  /// Rows and keys of a tile; 0: 128.
  int64_t tileRows, tileKeys;
  /// Nonzero: elements are not read, and tiles that the analysis does not
  /// settle are 5. That is quick.
  int32_t onlyAnalysis;
} AttnMaskTilesOptions;

/// Tells `function` of the masks of a function (null: the first) of IR text
/// that has reached the phase "aggregate", for each head of each batch in
/// order.
///
/// Available since API version 10.
ATTN_EXPORT AttnError *
attnMaskTiles(const char *text, size_t length, const char *entry,
              const AttnTensor *inputs, size_t numInputs,
              const AttnMaskTilesOptions *options,
              void (*function)(void *user, const AttnMaskTiles *tiles),
              void *user);

/// DLTensor of the DLPack standard (dlpack.h), for callers that do not include
/// it; the layout is that of all its versions.
typedef struct AttnDLTensor {
  void *data;
  struct {
    int32_t deviceType;
    int32_t deviceId;
  } device;
  int32_t ndim;
  struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byteOffset;
} AttnDLTensor;

/// The same on DLPack tensors: in host memory (scalars always), or in that of a
/// GPU for a kernel for it.
ATTN_EXPORT AttnError *
attnKernelRunDLPack(const AttnKernel *kernel, size_t entry,
                    const AttnDLTensor *const *inputs, size_t numInputs,
                    const AttnDLTensor *const *outputs, size_t numOutputs);
ATTN_EXPORT AttnError *
attnKernelRunDLPackOn(const AttnKernel *kernel, size_t entry,
                      const AttnDLTensor *const *inputs, size_t numInputs,
                      const AttnDLTensor *const *outputs, size_t numOutputs,
                      const AttnRunOptions *options);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // ATTN_C_ATTN_H
