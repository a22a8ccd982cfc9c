//===- SupportTest.cpp - Files and number formats -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

#include "attn/Support/Float16.h"
#include "attn/Support/Json.h"
#include "attn/Support/Npy.h"

#include <fstream>

using namespace ::attn;
using namespace ::attn::support;
using namespace ::attn::test;

namespace {

/// A version 1 file with this dictionary and this many bytes of data.
std::string npyText(const std::string &dictionary, size_t dataBytes) {
  std::string text = "\x93NUMPY";
  text += '\1';
  text += '\0';
  text += static_cast<char>(dictionary.size() & 0xff);
  text += static_cast<char>(dictionary.size() >> 8);
  text += dictionary;
  for (size_t n = 0; n < dataBytes; ++n)
    text += static_cast<char>(n);
  return text;
}

std::string header(const std::string &descr, const std::string &order,
                   const std::string &shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order +
         ", 'shape': " + shape + ", }\n";
}

Result<NpyArray> parse(const std::string &text) {
  return parseNpy("x.npy", text.data(), text.size());
}

void checkNpyError(const std::string &text, const std::string &want) {
  Result<NpyArray> result = parse(text);
  checkError(result.error(), want, "npy");
  checkError(result.error(), "x.npy: expected ", "npy names the file");
}

void testNpyErrors() {
  checkNpyError("", "starts with \\x93NUMPY");
  checkNpyError("PK\3\4 a zip file", "starts with \\x93NUMPY");
  checkNpyError("\x93NUMPY\3\1aaaa", "version 1 or 2, but got version 3");
  checkNpyError(std::string("\x93NUMPY\1\0v", 9), "header length");
  const std::string good = npyText(header("<f4", "False", "(2, 3)"), 24);
  check(bool(parse(good)), "a good file is read");
  for (size_t length = 0; length < good.size(); ++length)
    check(!parse(good.substr(0, length)), "a truncated file is refused");
  checkNpyError(good.substr(0, 40), "expected a header of");
  checkNpyError(good.substr(0, good.size() - 1),
                "expected 24 bytes of data for shape [2, 3], but got 23");
  checkNpyError(good + "x", "but got 25");
  checkNpyError(npyText(header(">f4", "False", "(2, 3)"), 24),
                "little-endian data, but got '>f4'");
  for (const char *descr : {"<c8", "<U4", "|O", "<f16", "<V3", "<u4", "f", ""})
    checkNpyError(npyText(header(descr, "False", "(2, 3)"), 24),
                  "expected an element type of");
  checkNpyError(npyText("{'descr': [('a', '<f4')], 'fortran_order': False, "
                        "'shape': (1,), }\n",
                        4),
                "expected a header with");
  for (const char *shape :
       {"(2, -3)", "2", "(2, 3", "(99999999999999999999,)", "(2; 3)", "(,)"})
    checkNpyError(npyText(header("<f4", "False", shape), 24),
                  "expected a header with");
  checkNpyError(npyText(header("<f4", "Maybe", "(2, 3)"), 24),
                "expected a header with");
  checkNpyError(npyText(header("<f4", "False", "(4611686018427387904, 8)"), 24),
                "less than 2^63 bytes");
  // An absurd shape must be refused before its memory is asked for.
  checkNpyError(npyText(header("<f4", "False", "(1099511627776,)"), 24),
                "but got 24");
  checkNpyError(
      npyText(header("<f4", "False", "(0, 4611686018427387904, 8)"), 0),
      "less than 2^63 bytes");
  std::string manyAxes = "(";
  for (int axis = 0; axis < 65; ++axis)
    manyAxes += "1, ";
  checkNpyError(npyText(header("<f4", "False", manyAxes + ")"), 4),
                "expected 64 axes at most, but got 65");
}

void testNpyContents(const std::string &scratch) {
  // [[0, 1, 2], [3, 4, 5]] in the order of its columns.
  Result<NpyArray> fortran = parse(npyText(header("|u1", "True", "(3, 2)"), 6));
  check(fortran && fortran->bytes == std::vector<char>({0, 3, 1, 4, 2, 5}),
        "Fortran order is turned");
  check(parse(npyText(header("<f4", "False", "()"), 4))->size() == 1,
        "a scalar");
  check(parse(npyText(header("<f4", "True", "(0, 5)"), 0))->size() == 0,
        "an empty array");
  check(parse(npyText(header("|V2", "False", "(2,)"), 4))->dtype == DType::bf16,
        "a void type of two bytes is bf16");
  std::string version2 = npyText(header("<f4", "False", "(2, 3)"), 24);
  version2[6] = '\2';
  version2.insert(10, 2, '\0');
  check(bool(parse(version2)), "version 2 is read");

  const std::string path = scratch + "/reference-test.npy";
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    const DType dtype = static_cast<DType>(i);
    const std::string name = nameOf(dtype);
    for (std::vector<int64_t> shape :
         {std::vector<int64_t>{}, {5}, {2, 3, 4}, {3, 0}}) {
      NpyArray array = NpyArray::zeros(dtype, shape);
      for (int64_t n = 0; n < array.size(); ++n)
        array.set(n, static_cast<double>(n % 3));
      Status written = writeNpy(path, array);
      check(bool(written), written.error());
      Result<NpyArray> read = readNpy(path);
      check(read && read->dtype == dtype && read->shape == shape &&
                read->bytes == array.bytes,
            "written and read again: " + name + read.error());
    }
    check(parseDType(name) == dtype, "the name of a type finds it again");
  }
  checkError(readNpy(scratch + "/absent.npy").error(), "no such file",
             "a missing file");
  checkError(readNpy(scratch).error(), "expected a regular file", "a folder");
  checkError(writeNpy(scratch + "/absent/x.npy", NpyArray()).error(),
             "expected the bytes of an array of shape []", "no bytes");
  checkError(
      writeNpy(scratch + "/absent/x.npy", NpyArray::zeros(DType::f32, {1}))
          .error(),
      "expected a writable file", "a missing folder");
  std::remove(path.c_str());
}

void checkJsonError(const char *text, const std::string &want) {
  checkError(parseJson(text).error(), want, std::string("json ") + text);
}

/// Every finite 16-bit value survives, and every midpoint goes to the even
/// neighbour, also from just above and below in double.
void testSixteenBits(DType dtype, float (*widen)(uint16_t),
                     uint16_t (*narrow)(double), uint16_t infinity) {
  const std::string name = nameOf(dtype);
  bool exact = true, ties = true, agree = true;
  for (uint32_t bits = 0; bits < infinity; ++bits) {
    const double x = widen(bits);
    exact &= narrow(x) == bits && narrow(-x) == (bits | 0x8000);
    agree &= roundTo(dtype, x) == x;
    if (bits + 1 == infinity)
      break;
    const double next = widen(bits + 1), middle = (x + next) / 2;
    ties &= narrow(middle) == ((bits & 1) ? bits + 1 : bits);
    ties &= narrow(std::nextafter(middle, 0.0)) == bits;
    ties &= narrow(std::nextafter(middle, inf)) == bits + 1;
    agree &= roundTo(dtype, middle) == ((bits & 1) ? next : x);
  }
  check(exact, name + ": every value survives");
  check(ties, name + ": ties go to even");
  check(agree, name + ": rounding agrees with conversion");
  const double largest = widen(infinity - 1);
  const double halfStep = (largest - widen(infinity - 2)) / 2;
  check(narrow(largest + halfStep) == infinity &&
            roundTo(dtype, largest + halfStep) == inf,
        name + ": overflow goes to infinity");
  check(narrow(std::nextafter(largest + halfStep, 0.0)) == infinity - 1,
        name + ": below that it does not");
  check(narrow(-inf) == (infinity | 0x8000) && widen(infinity) == inf,
        name + ": infinities");
  check(std::isnan(widen(narrow(qnan))) && std::isnan(roundTo(dtype, qnan)),
        name + ": NaN");
}

} // namespace

void attn::test::runNpyTests(const std::string &scratch) {
  testNpyErrors();
  testNpyContents(scratch);
}

void attn::test::runJsonTests() {
  Result<Json> json = parseJson(
      " {\"a\": [1, -2.5e3, null, true, false], \"b\\n\\u00e9\": \"\", "
      "\"c\": {}, \"d\": []} ");
  check(bool(json), json.error());
  const Json *a = json->find("a");
  check(a && a->elements.size() == 5 && a->elements[1].number == -2500.0 &&
            a->elements[2].isNull() && a->elements[3].boolean &&
            !a->elements[4].boolean,
        "json values");
  check(json->find("b\n\xc3\xa9") && !json->find("b"), "json names");
  checkJsonError("", "line 1, column 1: expected a value, but got the end");
  checkJsonError("[1,\n 2", "line 2, column 3: expected ',' or ']'");
  checkJsonError("{1: 2}", "expected a member name");
  checkJsonError("{\"a\" 2}", "expected ':'");
  checkJsonError("\"a", "expected '\"'");
  checkJsonError("\"\\q\"", "expected an escape sequence");
  checkJsonError("\"\\ud800\"", "expected four hexadecimal digits");
  checkJsonError("\"\\u12", "expected four hexadecimal digits");
  checkJsonError("nan", "expected a value");
  checkJsonError("1.", "expected a number");
  checkJsonError("1 2", "expected the end of the document");
  checkJsonError(std::string(100, '[').c_str(), "at most 64 levels");
}

void attn::test::runFloat16Tests() {
  testSixteenBits(DType::f16, f16ToFloat, doubleToF16, 0x7c00);
  testSixteenBits(DType::bf16, bf16ToFloat, doubleToBF16, 0x7f80);
  // Through f32 this would round twice and end one step higher.
  check(doubleToF16(1.0 + 0x1p-11 + 0x1p-40) == 0x3c01, "rounds once");
}
