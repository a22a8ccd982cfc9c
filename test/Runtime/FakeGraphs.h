//===- FakeGraphs.h - Captures of the fake driver ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The end of FakeCuda.cpp: which graph a stream is captured into, and what the
// graph keeps. Graphs hold nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_RUNTIME_FAKEGRAPHS_H
#define ATTN_TEST_RUNTIME_FAKEGRAPHS_H

#include <utility>

FAKE_EXPORT CUresult cuStreamGetCaptureInfo_v2(void *stream, int *status,
                                               unsigned long long *number,
                                               Graph **graph, const void *,
                                               size_t *) {
  ENTER(cuStreamGetCaptureInfo, true)
  if (!isStream(stream))
    return INVALID_HANDLE;
  *status = isCapturing(stream);
  if (*status) {
    *graph = static_cast<Stream *>(stream)->graph;
    *number = (*graph)->number;
  }
  return SUCCESS;
}

FAKE_EXPORT CUresult cuUserObjectCreate(UserObject **object, void *pointer,
                                        void (*destroy)(void *), unsigned count,
                                        unsigned flags) {
  ENTER(cuUserObjectCreate, true)
  if (!destroy || count != 1 || flags != 1)
    return INVALID_VALUE;
  *object = new UserObject{pointer, destroy};
  return SUCCESS;
}

FAKE_EXPORT CUresult cuGraphRetainUserObject(Graph *graph, UserObject *object,
                                             unsigned count, unsigned flags) {
  ENTER(cuGraphRetainUserObject, true)
  if (!graph || !object || count != 1 || flags != 1)
    return INVALID_VALUE;
  graph->kept.push_back(object);
  return SUCCESS;
}

FAKE_EXPORT void attnFakeCapture(void *stream, int begin) {
  std::lock_guard<std::mutex> lock(state().mutex);
  static unsigned long long numGraphs = 0;
  auto *captured = static_cast<Stream *>(stream);
  captured->capturing = begin != 0;
  if (begin)
    captured->graph = new Graph{++numGraphs, {}};
}

/// Drops the graph that the stream was last captured into.
FAKE_EXPORT void attnFakeDropGraph(void *stream) {
  Graph *graph = std::exchange(static_cast<Stream *>(stream)->graph, nullptr);
  for (UserObject *object : graph->kept) {
    object->destroy(object->pointer);
    delete object;
  }
  delete graph;
}

#endif // ATTN_TEST_RUNTIME_FAKEGRAPHS_H
