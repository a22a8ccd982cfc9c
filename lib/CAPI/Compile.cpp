//===- Compile.cpp - Contexts and compilation in the C ABI ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Handles.h"
#include "attn/Compiler/Descriptor.h"
#include "attn/Dialect/Attn/Prelude/Prelude.h"
#include "attn/Runtime/ThreadPool.h"
#include "attn/Target/TargetInfo.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>

using namespace ::attn;

int32_t attnApiVersion(void) { return ATTN_API_VERSION; }

//===----------------------------------------------------------------------===//
// Errors, contexts, threads
//===----------------------------------------------------------------------===//

const char *attnErrorMessage(const AttnError *error) {
  return error ? error->message.c_str() : "";
}
void attnErrorDestroy(AttnError *error) { delete error; }

AttnError *attnContextCreate(AttnContext **context) {
  if (!context)
    return makeError("expected a place for the context, but got null");
  *context = new AttnContext;
  return nullptr;
}
void attnContextDestroy(AttnContext *context) { delete context; }

/// Never the same one twice.
static uint64_t makeContextId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

AttnContext::AttnContext() : id(makeContextId()) {}
AttnContext::~AttnContext() = default;

size_t attnContextNumCached(const AttnContext *context) {
  if (!context)
    return 0;
  ForkGate::Inside inside;
  std::lock_guard<std::mutex> lock(const_cast<AttnContext *>(context)->mutex);
  return context->cache.size() + context->deviceCache.size() +
         context->calls.size();
}

void attnContextClearCache(AttnContext *context) {
  if (!context)
    return;
  ForkGate::Inside inside;
  context->calls.clear();
  context->id = makeContextId();
  std::lock_guard<std::mutex> lock(context->mutex);
  context->cache.clear();
  context->deviceCache.clear();
}

void attnSetNumThreads(int32_t count) { setNumThreads(count); }
int32_t attnGetNumThreads(void) { return getNumThreads(); }
void attnSetParallelFor(AttnParallelFor function, void *user) {
  setHostParallelFor(function, user);
}

void attnSetProgress(AttnProgress function, void *user) {
  setProgress(function, user);
}

const char *attnHostTarget(void) { return TargetInfo::host().name.c_str(); }

const char *attnShippedMonoids(void) {
  static const std::string text = [] {
    std::string lines;
    for (const ShippedMonoid &monoid : shippedMonoids()) {
      std::string_view list = monoid.text;
      list.remove_prefix(list.find("outputs(") + std::strlen("outputs("));
      list = list.substr(0, list.find(')'));
      lines.append(monoid.name).append(": ");
      for (char c : list)
        if (c != '"' && c != '\n')
          lines += c;
      lines += '\n';
    }
    return lines;
  }();
  return text.c_str();
}

const char *attnShippedMonoid(const char *name) {
  static const std::map<std::string, std::string, std::less<>> texts = [] {
    std::map<std::string, std::string, std::less<>> all;
    for (const ShippedMonoid &monoid : shippedMonoids())
      all.emplace(monoid.name, monoid.text);
    return all;
  }();
  auto found = texts.find(std::string_view(name ? name : ""));
  return found == texts.end() ? nullptr : found->second.c_str();
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

AttnError *attn::convertOptions(const AttnCompileOptions &given,
                                CompileOptions &options) {
  auto phase = [](const char *name, std::optional<Phase> &result) {
    if (!name)
      return (AttnError *)nullptr;
    result = parsePhase(name);
    return result ? nullptr
                  : makeError("expected a phase out of " + phaseNames() +
                              ", but got '" + name + "'");
  };
  if (AttnError *error = phase(given.startFrom, options.startFrom))
    return error;
  if (AttnError *error = phase(given.untilAfter, options.untilAfter))
    return error;
  if (given.target)
    options.target = given.target;
  if (given.dumpPhasesTo)
    options.dumpPhasesTo = given.dumpPhasesTo;
  if (given.sourceName)
    options.sourceName = given.sourceName;
  options.keepIr = given.keepIr != 0;
  options.objectOnly = given.objectOnly != 0;
  // Numbers of this process are for what runs in it.
  options.countTraffic = given.countTraffic != 0 && !options.objectOnly;
  return nullptr;
}

/// What of the options changes the result.
static std::string printOptions(const CompileOptions &options) {
  auto phase = [](const std::optional<Phase> &phase) {
    return std::string(phase ? nameOf(*phase) : "");
  };
  return options.target + '|' + phase(options.startFrom) + '|' +
         phase(options.untilAfter) + '|' + (options.keepIr ? 'k' : '-') +
         (options.countTraffic ? 't' : '-') + (options.objectOnly ? 'o' : '-') +
         '|';
}

/// Compiles what `makeSource` gives, unless `key` is in the cache.
static AttnError *compileCached(
    AttnContext *context, const AttnCompileOptions &given, std::string key,
    const std::function<support::Result<std::string>(CompileOptions &)>
        &makeSource,
    AttnKernel **kernel) {
  if (!context || !kernel)
    return makeError("expected a context and a place for the kernel, but got "
                     "null");
  CompileOptions options;
  if (AttnError *error = convertOptions(given, options))
    return error;
  // Dumping is for its side effect.
  bool useCache = !given.noCache && options.dumpPhasesTo.empty();
  options.useDiskCache = useCache;
  // "cuda" is the GPU of the moment.
  if (options.target == "cuda") {
    auto target = resolveTarget(options.target);
    if (!target)
      return makeError(target.error());
    options.target = *target;
  }
  key = printOptions(options) + key;
  ForkGate::Inside inside;
  if (useCache) {
    std::lock_guard<std::mutex> lock(context->mutex);
    for (auto *cache : {&context->cache, &context->deviceCache})
      if (const AttnContext::Kernel *found = cache->find(key)) {
        *kernel = new AttnKernel(*found);
        return nullptr;
      }
  }
  support::Result<std::string> source = makeSource(options);
  if (!source)
    return makeError(source.error());
  auto compiled = attn::compile(*source, options);
  if (!compiled)
    return makeError(compiled.error());
  if (useCache) {
    std::lock_guard<std::mutex> lock(context->mutex);
    auto &cache = (*compiled)->device ? context->deviceCache : context->cache;
    cache.put(key, *compiled);
  }
  *kernel = new AttnKernel(*compiled);
  return nullptr;
}

AttnError *attnCompile(AttnContext *context, const char *text, size_t length,
                       const AttnCompileOptions *options, AttnKernel **kernel) {
  if (!text && length)
    return makeError("expected text, but got null");
  if (AttnError *error = checkTextLength(length))
    return error;
  AttnCompileOptions how;
  if (AttnError *error = readStruct(options, "AttnCompileOptions", how))
    return error;
  std::string source(text ? text : "", length);
  return compileCached(
      context, how, "text|" + source,
      [&](CompileOptions &) -> support::Result<std::string> { return source; },
      kernel);
}

/// Unknown flags may come to mean something; those of a tensor that is not
/// given mean nothing.
static AttnError *checkFlags(const char *name, int32_t flags) {
  constexpr int32_t all = ATTN_GIVEN | ATTN_BROADCAST_BATCH |
                          ATTN_BROADCAST_HEADS | ATTN_BROADCAST_QUERIES |
                          ATTN_BROADCAST_KEYS;
  if (flags & ~all)
    return makeError(std::string("expected ") + name +
                     " to be a sum of ATTN_GIVEN and ATTN_BROADCAST_ flags, "
                     "each of 1 to 16, but got " +
                     std::to_string(flags));
  if (flags && !(flags & ATTN_GIVEN))
    return makeError(std::string("expected ATTN_GIVEN among the flags of ") +
                     name + ", or none, but got " + std::to_string(flags));
  return nullptr;
}

AttnError *attn::readDescription(const AttnAttentionDesc &d,
                                 AttentionDescriptor &full) {
  auto dtype = fromC(d.dtype), biasDType = fromC(d.biasDType);
  if (!dtype || !biasDType)
    return makeError("expected dtypes between 0 and " +
                     std::to_string(ATTN_BOOL) + ", but got " +
                     std::to_string(dtype ? d.biasDType : d.dtype));
  static const char *const causal[] = {"none", "top_left", "bottom_right"};
  if (d.causal < 0 || d.causal > ATTN_CAUSAL_BOTTOM_RIGHT)
    return makeError("expected causal to be 0, 1 or 2, but got " +
                     std::to_string(d.causal));
  static const char *const precisions[] = {"ieee", "tf32"};
  if (d.precision < 0 || d.precision > ATTN_PRECISION_TF32)
    return makeError("expected precision to be 0 or 1, but got " +
                     std::to_string(d.precision));
  for (auto [name, flags] :
       {std::pair("bias", d.bias), std::pair("mask", d.mask),
        std::pair("blockMask", d.blockMask)})
    if (AttnError *error = checkFlags(name, flags))
      return error;
  if (d.alibi < 0 || d.alibi > 2)
    return makeError("expected alibi to be 0, 1 or 2, but got " +
                     std::to_string(d.alibi));
  full.dtype = *dtype;
  full.headDim = d.headDim;
  full.valueDim = d.valueDim;
  full.causal = causal[d.causal];
  full.scale = d.scale;
  full.softcap = d.softcap;
  full.window = d.window;
  full.sinks = d.sinks;
  full.lengths = d.lengths;
  full.packed = d.packed;
  full.blockTable = d.blockTable;
  full.kStart = d.kStart;
  full.rolling = d.rolling;
  full.batchInvariant = d.batchInvariant;
  full.cascade = d.cascade;
  full.append = d.append == AttentionDescriptor::PackedRows
                    ? AttentionDescriptor::PackedRows
                : d.append ? AttentionDescriptor::EqualRows
                           : 0;
  full.valueInKey = d.valueInKey;
  full.dropout = d.dropout;
  full.rotaryDim = d.rotaryDim;
  full.rotaryInterleaved = d.rotaryInterleaved;
  full.rotaryBySlot = d.rotaryBySlot;
  full.anyOrder = d.anyOrder;
  full.bias = d.bias;
  full.mask = d.mask;
  full.biasDType = *biasDType;
  full.alibi = d.alibi;
  if (d.monoid)
    full.monoid = d.monoid;
  full.numOutputs = d.numOutputs == 0 ? 1 : d.numOutputs;
  if (d.schedule)
    full.schedule = d.schedule;
  std::copy_n(d.expectedSizes, 4, full.expectedSizes.begin());
  full.expectedSizes[4] = d.expectedKeyHeads;
  full.precision = precisions[d.precision];
  if (d.scoreMod)
    full.scoreMod = d.scoreMod;
  if (d.maskMod)
    full.maskMod = d.maskMod;
  full.blockMask = d.blockMask;
  full.blockRows = d.blockMask ? d.blockRows : 0;
  full.blockKeys = d.blockMask ? d.blockKeys : 0;
  return nullptr;
}

/// All that makes one description another.
static std::string printDescription(const AttentionDescriptor &d) {
  std::string key = "attention|";
  for (int64_t field : {int64_t(d.dtype),
                        d.headDim,
                        d.valueDim,
                        int64_t(d.scale),
                        int64_t(d.softcap),
                        int64_t(d.window),
                        int64_t(d.sinks),
                        int64_t(d.lengths),
                        int64_t(d.packed),
                        int64_t(d.blockTable),
                        int64_t(d.kStart),
                        int64_t(d.rolling),
                        int64_t(d.bias),
                        int64_t(d.mask),
                        int64_t(d.biasDType),
                        int64_t(d.alibi),
                        int64_t(d.numOutputs),
                        int64_t(d.dispatch),
                        int64_t(d.batchInvariant),
                        int64_t(d.cascade),
                        int64_t(d.append),
                        int64_t(d.valueInKey),
                        int64_t(d.blockMask),
                        d.blockRows,
                        d.blockKeys,
                        int64_t(d.scoreMod.size()),
                        int64_t(d.maskMod.size()),
                        int64_t(d.dropout),
                        d.rotaryDim,
                        int64_t(d.rotaryInterleaved),
                        int64_t(d.rotaryBySlot),
                        int64_t(d.anyOrder)})
    key += std::to_string(field) + ",";
  for (int64_t size : d.expectedSizes)
    key += std::to_string(size) + ",";
  return key + d.causal + "|" + d.name + "|" + d.precision + "|" + d.monoid +
         "|" + d.schedule + "|" + d.scoreMod + "|" + d.maskMod;
}

/// The text of a description; `options` learns which of its lines have an
/// author.
static support::Result<std::string>
makeSource(const AttentionDescriptor &descriptor, CompileOptions &options) {
  // Of a description, the monoid is all that has lines of its author.
  if (options.sourceName == CompileOptions().sourceName)
    options.sourceName = "<monoid>";
  auto module = makeAttentionModule(descriptor, options.sourceName);
  if (!module)
    return module.takeFailure();
  if (!module->monoidLines)
    options.sourceName = CompileOptions().sourceName;
  options.skippedLines = module->linesBeforeMonoid;
  options.ownLines = module->monoidLines;
  return module->text;
}

support::Result<AttnContext::Kernel>
attn::compileDescription(const AttentionDescriptor &descriptor,
                         CompileOptions options) {
  auto source = makeSource(descriptor, options);
  if (!source)
    return source.takeFailure();
  return attn::compile(*source, options);
}

AttnError *attn::compileCached(AttnContext *context,
                               const AttnCompileOptions &given,
                               const AttentionDescriptor &descriptor,
                               AttnKernel **kernel) {
  return ::compileCached(
      context, given, printDescription(descriptor),
      [&](CompileOptions &options) { return makeSource(descriptor, options); },
      kernel);
}

AttnError *attnCompileAttention(AttnContext *context,
                                const AttnAttentionDesc *desc,
                                const AttnCompileOptions *options,
                                AttnKernel **kernel) {
  AttnAttentionDesc d;
  if (!desc)
    return makeError("expected a description, but got null");
  if (AttnError *error = readStruct(desc, "AttnAttentionDesc", d))
    return error;
  AttentionDescriptor full;
  if (AttnError *error = readDescription(d, full))
    return error;
  AttnCompileOptions how;
  if (AttnError *error = readStruct(options, "AttnCompileOptions", how))
    return error;
  if (how.name)
    full.name = how.name;
  full.dispatch = true;
  return compileCached(context, how, full, kernel);
}

AttnError *attnMonoidOutputs(const char *monoid, AttnText text, void *user) {
  if (!monoid || !text)
    return makeError("expected a monoid and a function to take its outputs, "
                     "but got null");
  // `text` may wait for what a fork has stopped: it is called outside.
  auto outputs = [&] {
    ForkGate::Inside inside;
    return listOutputs(monoid);
  }();
  if (!outputs)
    return makeError(outputs.error());
  text(outputs->c_str(), user);
  return nullptr;
}

void attnKernelDestroy(AttnKernel *kernel) { delete kernel; }
