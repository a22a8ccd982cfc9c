//===- Aot.cpp - Running code that was compiled ahead of time -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn-c/Runtime.h"
#include "attn/Runtime/Cuda.h"
#include "attn/Runtime/ThreadPool.h"
#include "attn/Support/Amx.h"

#include <cstring>

using namespace ::attn;

struct AttnModule {
  explicit AttnModule(std::shared_ptr<const cuda::DeviceCode> code)
      : program(std::move(code)) {}
  cuda::Program program;
};

/// A message for the caller to free; null for success.
static char *toMessage(const support::Status &status) {
  return status ? nullptr : strdup(status.error().c_str());
}

const AttnRuntime *attnHostRuntime(void) {
  // For all threads. Where there is no AMX, objects have none of it.
  [[maybe_unused]] static const bool hasTiles = requestAmx();
  return &defaultRuntime();
}

char *attnModuleCreate(AttnModule **module, const char *target,
                       const void *image, size_t size,
                       const AttnModuleKernel *kernels, size_t numKernels) {
  if (!module || !image || (!kernels && numKernels))
    return strdup("expected a place for the module, an image and kernels, but "
                  "got null");
  auto code = std::make_shared<cuda::DeviceCode>();
  code->target = target ? target : "";
  std::string text(static_cast<const char *>(image), size);
  bool isMachineCode = text.compare(0, 4,
                                    "\x7f"
                                    "ELF") == 0;
  (isMachineCode ? code->cubin : code->ptx) = std::move(text);
  for (size_t i = 0; i < numKernels; ++i)
    code->kernels.push_back({kernels[i].name, kernels[i].threads,
                             kernels[i].sharedBytes,
                             kernels[i].persistent != 0});
  *module = new AttnModule(std::move(code));
  return nullptr;
}

void attnModuleDestroy(AttnModule *module) { delete module; }

char *attnModuleLoad(AttnModule *module, int32_t device) {
  if (!module)
    return strdup("expected a module, but got null");
  return toMessage(module->program.load(device));
}

char *attnModuleRun(AttnModule *module, AttnEntry entry, void **args,
                    int32_t device, void *stream) {
  if (!module || !entry)
    return strdup("expected a module and an entry, but got null");
  return toMessage(cuda::run(module->program, entry, args, {device, stream}));
}
