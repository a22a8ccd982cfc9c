/* What host-time.c and the library before the driver share.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#ifndef ATTN_HOST_TIME_DRIVER_H
#define ATTN_HOST_TIME_DRIVER_H

#include <stddef.h>

enum { maxParams = 256, maxParamBytes = 128 /* a tensor map */ };

/* CUlaunchConfig of cuda.h. */
typedef struct Config {
  unsigned grid[3], block[3], sharedBytes;
  void *stream, *attrs;
  unsigned numAttrs;
} Config;

typedef int (*LaunchEx)(const Config *, void *, void **, void **);

/* A launch as the driver got it. */
typedef struct Launch {
  /* Set before: whether to note launches, and the bytes of parameters. */
  int isNoting, numParams;
  size_t bytes[maxParams];
  /* The driver's own function, and the last launch that was noted. */
  LaunchEx real;
  int numLaunches;
  Config config;
  void *function;
  void *params[maxParams];
  _Alignas(128) char values[maxParams][maxParamBytes];
} Launch;

/* Exported by the library as `hostTimeLaunch`. */
extern Launch hostTimeLaunch;

#endif
