/* A library that stands before libcuda.so.1, which it needs, and notes what is
   launched. See host-time.c.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "driver.h"
#include <dlfcn.h>
#include <string.h>

Launch hostTimeLaunch;

int cuLaunchKernelEx(const Config *config, void *function, void **params,
                     void **extra) {
  Launch *launch = &hostTimeLaunch;
  if (!launch->real)
    *(void **)&launch->real = dlsym(RTLD_NEXT, "cuLaunchKernelEx");
  if (launch->isNoting) {
    ++launch->numLaunches;
    launch->config = *config;
    launch->function = function;
    for (int i = 0; i < launch->numParams; ++i) {
      memcpy(launch->values[i], params[i], launch->bytes[i]);
      launch->params[i] = launch->values[i];
    }
  }
  return launch->real(config, function, params, extra);
}
