//===- Result.h - A value or a one-line error -------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The libraries without LLVM in them report failure by value. A message is one
// line, lower case, without a final period: `expected X, but got Y`.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_RESULT_H
#define ATTN_SUPPORT_RESULT_H

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace attn::support {

/// What went wrong, as one line of text.
struct Failure {
  std::string message;
};

/// Either a value or the reason why there is none. Reading the value of a
/// failed result is a programming error.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : storage(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure)
      : storage(std::in_place_index<1>, std::move(failure)) {}

  explicit operator bool() const { return storage.index() == 0; }

  T &operator*() {
    assert(*this && "reading the value of a failed result");
    return *std::get_if<0>(&storage);
  }
  const T &operator*() const {
    assert(*this && "reading the value of a failed result");
    return *std::get_if<0>(&storage);
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }

  /// The message of a failure; empty on success.
  const std::string &error() const {
    static const std::string none;
    const Failure *failure = std::get_if<1>(&storage);
    return failure ? failure->message : none;
  }

  /// The failure, to be returned from a function with another value type.
  Failure takeFailure() const { return Failure{error()}; }

private:
  std::variant<T, Failure> storage;
};

/// A result that carries nothing but success.
using Status = Result<std::monostate>;
inline Status success() { return Status(std::monostate()); }

} // namespace attn::support

#endif // ATTN_SUPPORT_RESULT_H
