//===- Scan.h - attn.scan ---------------------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Apart from the other operations: few files know of scans.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_SCAN_H
#define ATTN_DIALECT_ATTN_IR_SCAN_H

#include "attn/Dialect/Attn/IR/Attn.h"

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnScanOps.h.inc"

#endif // ATTN_DIALECT_ATTN_IR_SCAN_H
