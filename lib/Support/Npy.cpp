//===- Npy.cpp - Read and write .npy files --------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The header of a .npy file is a Python dictionary with exactly three keys.
// It is read by a scanner for that dictionary and nothing more; sizes are
// checked against the file before memory is asked for.
//
//===----------------------------------------------------------------------===//

#include "attn/Support/Npy.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <system_error>

using namespace ::attn::support;

namespace {

constexpr char magic[] = "\x93NUMPY";
constexpr size_t magicSize = 6;

struct Header {
  std::string descr;
  bool fortranOrder = false;
  std::vector<int64_t> shape;
};

/// Scans the dictionary of the header. Each function returns false, or
/// nothing, where the text is not what it looks for.
class HeaderScanner {
public:
  explicit HeaderScanner(std::string_view text) : rest(text) {}

  bool eat(char c) {
    skipSpace();
    if (rest.empty() || rest.front() != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }

  bool eatWord(std::string_view word) {
    skipSpace();
    if (rest.substr(0, word.size()) != word)
      return false;
    rest.remove_prefix(word.size());
    return true;
  }

  std::optional<std::string> quoted() {
    skipSpace();
    if (rest.empty() || (rest.front() != '\'' && rest.front() != '"'))
      return std::nullopt;
    const size_t end = rest.find(rest.front(), 1);
    if (end == std::string_view::npos)
      return std::nullopt;
    std::string text(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
    return text;
  }

  /// A tuple of non-negative integers, with Python's trailing comma.
  std::optional<std::vector<int64_t>> shape() {
    std::vector<int64_t> sizes;
    if (!eat('('))
      return std::nullopt;
    while (!eat(')')) {
      std::optional<int64_t> size = integer();
      if (!size)
        return std::nullopt;
      sizes.push_back(*size);
      if (!eat(',')) {
        if (!eat(')'))
          return std::nullopt;
        break;
      }
    }
    return sizes;
  }

  bool atEnd() {
    skipSpace();
    return rest.empty();
  }

private:
  void skipSpace() {
    while (!rest.empty() &&
           std::isspace(static_cast<unsigned char>(rest.front())))
      rest.remove_prefix(1);
  }

  std::optional<int64_t> integer() {
    skipSpace();
    int64_t value = 0;
    size_t digits = 0;
    for (; digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9';
         ++digits)
      if (__builtin_mul_overflow(value, int64_t(10), &value) ||
          __builtin_add_overflow(value, int64_t(rest[digits] - '0'), &value))
        return std::nullopt;
    if (digits == 0)
      return std::nullopt;
    rest.remove_prefix(digits);
    return value;
  }

  std::string_view rest;
};

/// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
std::optional<Header> parseHeader(std::string_view text) {
  HeaderScanner scanner(text);
  Header header;
  bool sawDescr = false, sawOrder = false, sawShape = false;
  if (!scanner.eat('{'))
    return std::nullopt;
  while (!scanner.eat('}')) {
    std::optional<std::string> key = scanner.quoted();
    if (!key || !scanner.eat(':'))
      return std::nullopt;
    if (*key == "descr" && !sawDescr) {
      std::optional<std::string> descr = scanner.quoted();
      // A structured type is a list, which no array of ours can be.
      if (!descr)
        return std::nullopt;
      header.descr = *descr;
      sawDescr = true;
    } else if (*key == "fortran_order" && !sawOrder) {
      header.fortranOrder = scanner.eatWord("True");
      if (!header.fortranOrder && !scanner.eatWord("False"))
        return std::nullopt;
      sawOrder = true;
    } else if (*key == "shape" && !sawShape) {
      std::optional<std::vector<int64_t>> shape = scanner.shape();
      if (!shape)
        return std::nullopt;
      header.shape = *shape;
      sawShape = true;
    } else {
      return std::nullopt;
    }
    if (!scanner.eat(',')) {
      if (!scanner.eat('}'))
        return std::nullopt;
      break;
    }
  }
  if (!sawDescr || !sawOrder || !sawShape || !scanner.atEnd())
    return std::nullopt;
  return header;
}

std::optional<DType> dtypeOfDescr(std::string_view descr) {
  if (descr.size() < 2)
    return std::nullopt;
  const char order = descr.front();
  const std::string_view type = descr.substr(1);
  if (order != '<' && order != '|' && order != '=')
    return std::nullopt;
  if (type == "f4")
    return DType::f32;
  if (type == "f2")
    return DType::f16;
  if (type == "V2")
    return DType::bf16;
  if (type == "f8")
    return DType::f64;
  if (type == "i1")
    return DType::i8;
  if (type == "i2")
    return DType::i16;
  if (type == "i4")
    return DType::i32;
  if (type == "i8")
    return DType::i64;
  if (type == "u1")
    return DType::u8;
  if (type == "b1")
    return DType::boolean;
  return std::nullopt;
}

const char *descrOfDType(DType dtype) {
  switch (dtype) {
  case DType::f32:
    return "<f4";
  case DType::f16:
    return "<f2";
  case DType::bf16:
    return "<V2";
  case DType::f64:
    return "<f8";
  case DType::i8:
    return "|i1";
  case DType::i16:
    return "<i2";
  case DType::i32:
    return "<i4";
  case DType::i64:
    return "<i8";
  case DType::u8:
    return "|u1";
  case DType::boolean:
    return "|b1";
  }
  return "";
}

/// The number of bytes of an array, or nothing when it exceeds 63 bits. An
/// axis of size 0 does not excuse the others.
std::optional<int64_t> byteCount(const std::vector<int64_t> &shape,
                                 DType dtype) {
  int64_t count = static_cast<int64_t>(sizeOf(dtype));
  bool empty = false;
  for (int64_t size : shape) {
    if (size == 0)
      empty = true;
    else if (__builtin_mul_overflow(count, size, &count))
      return std::nullopt;
  }
  return empty ? 0 : count;
}

/// Copies Fortran order into C order by counting through the C order.
std::vector<char> toCOrder(const char *data, const std::vector<int64_t> &shape,
                           size_t elementSize, size_t totalBytes) {
  std::vector<char> result(totalBytes);
  std::vector<int64_t> index(shape.size(), 0);
  for (size_t at = 0; at < totalBytes; at += elementSize) {
    int64_t source = 0;
    for (size_t axis = shape.size(); axis-- > 0;)
      source = source * shape[axis] + index[axis];
    std::memcpy(result.data() + at, data + source * elementSize, elementSize);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis])
        break;
      index[axis] = 0;
    }
  }
  return result;
}

/// The descr is text from a file: keep a message on one line and printable.
std::string printable(std::string_view text) {
  std::string result;
  for (char c : text.substr(0, 40))
    result += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
  return result;
}

Failure fail(const std::string &name, std::string message) {
  return Failure{name + ": " + std::move(message)};
}

} // namespace

int64_t NpyArray::size() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

NpyArray NpyArray::zeros(DType dtype, std::vector<int64_t> shape) {
  NpyArray array;
  array.dtype = dtype;
  array.shape = std::move(shape);
  array.bytes.resize(static_cast<size_t>(array.size()) * sizeOf(dtype));
  return array;
}

std::string attn::support::printShape(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t axis = 0; axis < shape.size(); ++axis)
    text += (axis ? ", " : "") + std::to_string(shape[axis]);
  return text + "]";
}

Result<NpyArray> attn::support::parseNpy(const std::string &name,
                                         const char *data, size_t size) {
  if (size < magicSize + 2 || std::memcmp(data, magic, magicSize) != 0)
    return fail(name, "expected a .npy file that starts with \\x93NUMPY, but "
                      "got something else");
  const unsigned major = static_cast<unsigned char>(data[magicSize]);
  if (major != 1 && major != 2)
    return fail(name, "expected .npy version 1 or 2, but got version " +
                          std::to_string(major));

  const size_t lengthBytes = major == 1 ? 2 : 4;
  const size_t headerStart = magicSize + 2 + lengthBytes;
  if (size < headerStart)
    return fail(name, "expected a header length, but the file ends there");
  size_t headerSize = 0;
  for (size_t i = 0; i < lengthBytes; ++i)
    headerSize |= size_t(static_cast<unsigned char>(data[magicSize + 2 + i]))
                  << (8 * i);
  if (headerSize > size - headerStart)
    return fail(name, "expected a header of " + std::to_string(headerSize) +
                          " bytes, but got " +
                          std::to_string(size - headerStart));

  std::optional<Header> header =
      parseHeader(std::string_view(data + headerStart, headerSize));
  if (!header)
    return fail(name,
                "expected a header with 'descr', 'fortran_order' and 'shape', "
                "but got '" +
                    printable({data + headerStart, headerSize}) + "'");
  if (!header->descr.empty() && header->descr.front() == '>')
    return fail(name, "expected little-endian data, but got '" +
                          printable(header->descr) + "'");
  std::optional<DType> dtype = dtypeOfDescr(header->descr);
  if (!dtype)
    return fail(name,
                "expected an element type of f2, f4, f8, i1, i2, i4, i8, u1, "
                "b1 or V2 (bf16), but got '" +
                    printable(header->descr) + "'");
  // NumPy has at most 64 axes; more is not a file of its making.
  if (header->shape.size() > 64)
    return fail(name, "expected 64 axes at most, but got " +
                          std::to_string(header->shape.size()));
  std::optional<int64_t> expected = byteCount(header->shape, *dtype);
  if (!expected)
    return fail(name, "expected a shape of less than 2^63 bytes, but got " +
                          printShape(header->shape));
  const size_t got = size - headerStart - headerSize;
  if (static_cast<uint64_t>(*expected) != got)
    return fail(name, "expected " + std::to_string(*expected) +
                          " bytes of data for shape " +
                          printShape(header->shape) + ", but got " +
                          std::to_string(got));

  NpyArray array;
  array.dtype = *dtype;
  array.shape = header->shape;
  const char *elements = data + headerStart + headerSize;
  if (header->fortranOrder)
    array.bytes = toCOrder(elements, array.shape, sizeOf(*dtype), got);
  else
    array.bytes.assign(elements, elements + got);
  return array;
}

Result<NpyArray> attn::support::readNpy(const std::string &path) {
  // Opening a directory succeeds and only reading fails: ask first.
  std::error_code error;
  const std::filesystem::file_status status =
      std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    return fail(path, "expected a .npy file, but there is no such file");
  if (!std::filesystem::is_regular_file(status))
    return fail(path, "expected a regular file, but got something else");
  const uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream stream(path, std::ios::binary);
  if (error || !stream)
    return fail(path, "expected a readable file, but opening it failed");
  std::vector<char> text(size);
  stream.read(text.data(), static_cast<std::streamsize>(size));
  if (static_cast<uintmax_t>(stream.gcount()) != size)
    return fail(path, "expected " + std::to_string(size) +
                          " bytes, but reading stopped after " +
                          std::to_string(stream.gcount()));
  return parseNpy(path, text.data(), text.size());
}

Status attn::support::writeNpy(const std::string &path, const NpyArray &array) {
  std::optional<int64_t> expected = byteCount(array.shape, array.dtype);
  if (!expected || static_cast<uint64_t>(*expected) != array.bytes.size())
    return fail(path, "expected the bytes of an array of shape " +
                          printShape(array.shape) + ", but got " +
                          std::to_string(array.bytes.size()) + " bytes");

  std::string dictionary = std::string("{'descr': '") +
                           descrOfDType(array.dtype) +
                           "', 'fortran_order': False, 'shape': (";
  for (size_t axis = 0; axis < array.shape.size(); ++axis)
    dictionary += std::to_string(array.shape[axis]) +
                  (axis == 0 || axis + 1 < array.shape.size() ? ", " : "");
  dictionary += "), }";
  // NumPy pads with spaces so that the data starts on a multiple of 64.
  const size_t prefix = magicSize + 4;
  while ((prefix + dictionary.size() + 1) % 64 != 0)
    dictionary += ' ';
  dictionary += '\n';

  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  if (!stream)
    return fail(path, "expected a writable file, but opening it failed");
  const char lengths[] = {1, 0, static_cast<char>(dictionary.size() & 0xff),
                          static_cast<char>(dictionary.size() >> 8)};
  stream.write(magic, magicSize);
  stream.write(lengths, sizeof(lengths));
  stream.write(dictionary.data(),
               static_cast<std::streamsize>(dictionary.size()));
  stream.write(array.bytes.data(),
               static_cast<std::streamsize>(array.bytes.size()));
  stream.close();
  if (!stream)
    return fail(path, "expected to write the whole array, but writing failed");
  return success();
}
