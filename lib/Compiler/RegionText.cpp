//===- RegionText.cpp - Score and mask functions as text ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RegionText.h"
#include "Diagnostics.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/InitAll.h"
#include "attn/Support/Nesting.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using ::attn::AttentionDescriptor;
using ::attn::RegionTexts;
using ::attn::support::Failure;
using ::attn::support::Result;
using llvm::formatv;

namespace {

/// A function, or none.
struct Function {
  StringRef name; ///< Of the option.
  /// Its arguments: scores, and the positions b, h, i and j.
  unsigned numScores;
  OwningOpRef<ModuleOp> holder = {};
  std::vector<std::string> captures = {};

  Region &region() { return holder.get()->getRegion(0); }
  bool isGiven() const { return static_cast<bool>(holder); }
};

/// Reads the functions of a description.
class Reader {
public:
  explicit Reader(const AttentionDescriptor &descriptor)
      : d(descriptor),
        context(makeRegistry(), MLIRContext::Threading::DISABLED),
        handler(&context, [this](Diagnostic &diagnostic) {
          if (error.empty())
            error = print(diagnostic);
          return success();
        }) {
    context.loadDialect<arith::ArithDialect, tensor::TensorDialect,
                        mlir::attn::AttnDialect>();
  }

  Result<RegionTexts> read();

private:
  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    ::attn::registerAllDialects(registry);
    return registry;
  }
  /// The text stands behind a line of ours.
  static std::string print(Diagnostic &diagnostic) {
    constexpr ::attn::OwnLines own = {/*skipped=*/1, /*count=*/1 << 30};
    return ::attn::printLocation(diagnostic.getLocation(), own) +
           ::attn::firstLine(diagnostic.str());
  }
  Failure fail(const std::string &expected, const std::string &got) const {
    return Failure{"expected " + expected + ", but got " + got};
  }

  /// Empty, or what is wrong.
  std::string parse(Function &function, const std::string &text);
  std::string readCaptures(Function &function, const AsmParserState &source);
  std::string addCapture(StringRef function, std::string name, Type type);
  /// Gives a function all captures for arguments, in their order.
  void takeAll(Function &function);
  /// Lets the mask read the table of blocks.
  void readBlocks();
  Type tableType();
  std::string verify();
  std::string printRegion(Region &region, StringRef prefix);

  const AttentionDescriptor &d;
  MLIRContext context;
  std::string error;
  ScopedDiagnosticHandler handler;
  Function score{"score_mod", 1}, mask{"mask_mod", 0};
  SmallVector<std::pair<std::string, Type>> captures;
  OwningOpRef<ModuleOp> probe;
};

} // namespace

/// Names that other inputs have.
static bool isReserved(StringRef name) {
  static constexpr StringRef names[] = {"q",
                                        "k",
                                        "v",
                                        "scale",
                                        "softcap",
                                        "bias",
                                        "mask",
                                        "alibi_slopes",
                                        "sinks",
                                        "kv_lengths",
                                        "window_left",
                                        "window_right",
                                        "block_table",
                                        "cu_seqlens_q",
                                        "cu_seqlens_k",
                                        "k_start",
                                        "k_new",
                                        "v_new",
                                        "dropout_p",
                                        "dropout_seed_low",
                                        "dropout_seed_high",
                                        "dropout_offset_low",
                                        "dropout_offset_high",
                                        "rotary_cos",
                                        "rotary_sin",
                                        "block_mask",
                                        "after",
                                        "o"};
  return llvm::is_contained(names, name) ||
         (name.consume_front("param") && !name.empty() &&
          llvm::all_of(name, llvm::isDigit));
}

std::string Reader::addCapture(StringRef function, std::string name,
                               Type type) {
  auto isLetter = [](char c) { return llvm::isAlpha(c) || c == '_'; };
  bool isName =
      !name.empty() && isLetter(name[0]) && llvm::all_of(name, [&](char c) {
        return isLetter(c) || llvm::isDigit(c);
      });
  if (!isName)
    return "expected captures of " + function.str() +
           " to have names of letters, digits and underscores, but got '%" +
           name + "'";
  if (isReserved(name))
    return "expected captures of " + function.str() +
           " to have names that no other input has, but got '%" + name + "'";
  std::string printed = formatv("{0}", type).str();
  auto element = type;
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    element = tensor.getElementType();
  else if (isa<ShapedType>(type))
    element = Type();
  bool isElement =
      element &&
      (element.isF32() || element.isF16() || element.isBF16() ||
       element.isF64() || element.isSignlessInteger(1) ||
       element.isSignlessInteger(8) || element.isSignlessInteger(32) ||
       element.isSignlessInteger(64));
  if (!isElement)
    return "expected capture '%" + name + "' of " + function.str() +
           " to be a tensor or a scalar of f32, f16, bf16, f64, i1, i8, i32 or "
           "i64, but got " +
           printed;
  for (auto &[other, otherType] : captures)
    if (other == name)
      return otherType == type
                 ? ""
                 : "expected capture '%" + name +
                       "' to be of one type in score_mod and mask_mod, but "
                       "got " +
                       formatv("{0}", otherType).str() + " and " + printed;
  captures.push_back({std::move(name), type});
  return "";
}

std::string Reader::readCaptures(Function &function,
                                 const AsmParserState &source) {
  Block &block = function.region().front();
  unsigned numOwn = function.numScores + 4;
  SmallVector<Type> types(function.numScores, Float32Type::get(&context));
  types.append(4, IntegerType::get(&context, 32));
  if (block.getNumArguments() < numOwn ||
      TypeRange(block.getArgumentTypes()).take_front(numOwn) !=
          TypeRange(types)) {
    std::string got;
    llvm::raw_string_ostream stream(got);
    llvm::interleaveComma(block.getArgumentTypes(), stream);
    return "expected " + function.name.str() + " to take (" +
           (function.numScores ? "%s: f32, " : "") +
           "%b: i32, %h: i32, %i: i32, %j: i32) and then its captures, but it "
           "takes (" +
           got + ")";
  }
  const auto *definition = source.getBlockDef(&block);
  for (BlockArgument argument : block.getArguments().drop_front(numOwn)) {
    StringRef name;
    if (definition && argument.getArgNumber() < definition->arguments.size()) {
      SMRange range = definition->arguments[argument.getArgNumber()].loc;
      if (range.isValid())
        name = StringRef(range.Start.getPointer(),
                         range.End.getPointer() - range.Start.getPointer());
    }
    name.consume_front("%");
    if (std::string wrong =
            addCapture(function.name, name.str(), argument.getType());
        !wrong.empty())
      return wrong;
    function.captures.push_back(name.str());
  }
  return "";
}

std::string Reader::parse(Function &function, const std::string &text) {
  std::string where = "<" + function.name.str() + ">";
  if (std::string wrong = ::attn::support::checkNesting(text); !wrong.empty())
    return where + ": " + wrong;
  auto expected = [&](StringRef got) {
    return "expected " + function.name.str() +
           " to be the text of one region, '^bb0(" +
           (function.numScores ? "%s: f32, " : "") +
           "%b: i32, %h: i32, %i: i32, %j: i32): ... attn.yield ...', but "
           "got " +
           got.str();
  };
  // What is put in braces, as in an operation, is meant too.
  std::string body = text;
  StringRef trimmed = StringRef(body).trim();
  if (trimmed.size() >= 2 && trimmed.front() == '{' && trimmed.back() == '}') {
    body[trimmed.data() - body.data()] = ' ';
    body[trimmed.data() + trimmed.size() - 1 - body.data()] = ' ';
    trimmed = StringRef(body).trim();
  }
  if (trimmed.empty())
    return expected("nothing");
  if (body.find('\0') != std::string::npos)
    return expected("text with a zero byte");
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(
          "\"builtin.module\"() ({\n" + body + "\n}) : () -> ()\n", where),
      SMLoc());
  Block block;
  AsmParserState state;
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  if (failed(parseAsmSourceFile(sources, &block, config, &state)))
    return error.empty() ? expected("something else") : error;
  ModuleOp module;
  if (llvm::hasSingleElement(block))
    module = dyn_cast<ModuleOp>(block.front());
  if (!module)
    return expected("more");
  if (!module.getOperation()->getRegion(0).hasOneBlock())
    return expected("several blocks");
  module->remove();
  function.holder = OwningOpRef<ModuleOp>(module);
  Block &body0 = function.region().front();
  if (body0.empty() || !isa<mlir::attn::YieldOp>(body0.back()))
    return expected("one without attn.yield at its end");
  return readCaptures(function, state);
}

void Reader::takeAll(Function &function) {
  Block &block = function.region().front();
  unsigned numOwn = function.numScores + 4;
  unsigned numMine = function.captures.size();
  Location loc = block.back().getLoc();
  for (auto &[name, type] : captures) {
    BlockArgument all = block.addArgument(type, loc);
    auto mine = llvm::find(function.captures, name);
    if (mine != function.captures.end())
      block.getArgument(numOwn + (mine - function.captures.begin()))
          .replaceAllUsesWith(all);
  }
  block.eraseArguments(numOwn, numMine);
}

/// The classes of blocks, [b, hq, query blocks, key blocks].
Type Reader::tableType() {
  SmallVector<int64_t> shape;
  for (int flag : {AttentionDescriptor::Batch, AttentionDescriptor::Heads,
                   AttentionDescriptor::Queries, AttentionDescriptor::Keys})
    shape.push_back(d.blockMask & flag ? 1 : ShapedType::kDynamic);
  return RankedTensorType::get(shape, IntegerType::get(&context, 8));
}

void Reader::readBlocks() {
  OpBuilder b(&context);
  Location loc = b.getUnknownLoc();
  Type i32 = b.getI32Type();
  if (!mask.isGiven()) {
    mask.holder = ModuleOp::create(b, loc);
    Block *block = mask.holder->getBody();
    for (unsigned i = 0; i < 4; ++i)
      block->addArgument(i32, loc);
    for (auto &[name, type] : captures)
      block->addArgument(type, loc);
    b.setInsertionPointToEnd(block);
    Value yes = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
    mlir::attn::YieldOp::create(b, loc, ValueRange(yes));
  }
  Block &block = mask.region().front();
  if (score.isGiven())
    score.region().front().insertArgument(5u, tableType(), loc);
  Value table = block.insertArgument(4u, tableType(), loc);
  captures.insert(captures.begin(), {"block_mask", tableType()});
  b.setInsertionPointToStart(&block);
  SmallVector<Value> indices;
  constexpr int flags[] = {
      AttentionDescriptor::Batch, AttentionDescriptor::Heads,
      AttentionDescriptor::Queries, AttentionDescriptor::Keys};
  for (unsigned i = 0; i < 4; ++i) {
    if (d.blockMask & flags[i]) {
      indices.push_back(arith::ConstantIndexOp::create(b, loc, 0));
      continue;
    }
    Value position = block.getArgument(i);
    if (i >= 2) {
      Value size = arith::ConstantIntOp::create(
          b, loc, i32, i == 2 ? d.blockRows : d.blockKeys);
      position = arith::DivUIOp::create(b, loc, position, size);
    }
    indices.push_back(
        arith::IndexCastOp::create(b, loc, b.getIndexType(), position));
  }
  Value kind = tensor::ExtractOp::create(b, loc, table, indices);
  auto is = [&](int64_t which) -> Value {
    return arith::CmpIOp::create(
        b, loc, arith::CmpIPredicate::eq, kind,
        arith::ConstantIntOp::create(b, loc, b.getI8Type(), which));
  };
  Value partial = is(1), full = is(2);
  Operation &yield = block.back();
  b.setInsertionPoint(&yield);
  Value live =
      arith::AndIOp::create(b, loc, partial, yield.getOperand(0)).getResult();
  yield.setOperand(0, arith::OrIOp::create(b, loc, full, live));
}

/// Attaches the functions to an operation that has all captures.
std::string Reader::verify() {
  std::string names, types, arguments;
  for (auto [i, capture] : llvm::enumerate(captures)) {
    std::string type = formatv("{0}", capture.second).str();
    names += formatv("{0}%c{1}", i ? ", " : "", i).str();
    types += (i ? ", " : "") + type;
    arguments += formatv(", %c{0}: {1}", i, type).str();
  }
  std::string text = formatv(
      "func.func @probe(%q: tensor<?x?x?x8xf32>{0}) -> tensor<?x?x?x8xf32> {{\n"
      "  %o = attn.attention queries(%q : tensor<?x?x?x8xf32>) keys(%q : "
      "tensor<?x?x?x8xf32>) values(%q : tensor<?x?x?x8xf32>) {1} -> "
      "tensor<?x?x?x8xf32>\n  return %o : tensor<?x?x?x8xf32>\n}\n",
      arguments,
      names.empty() ? "" : "captures(" + names + " : " + types + ")");
  // Locations of ours are not shown.
  probe = parseSourceString<ModuleOp>(text, &context, "<probe>");
  if (!probe)
    return error;
  mlir::attn::AttentionOp op;
  probe->walk([&](mlir::attn::AttentionOp found) { op = found; });
  op->setLoc(UnknownLoc::get(&context));
  if (score.isGiven())
    op.getScore().takeBody(score.region());
  if (mask.isGiven())
    op.getMask().takeBody(mask.region());
  if (failed(mlir::verify(*probe)))
    return error;
  return "";
}

/// Values are called `prefix`.NAME, as nothing else in the function is.
std::string Reader::printRegion(Region &region, StringRef prefix) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  AsmState state(probe->getOperation());
  Block &block = region.front();
  stream << "  ^bb0(";
  llvm::interleaveComma(block.getArguments(), stream, [&](BlockArgument x) {
    x.printAsOperand(stream, state);
    stream << ": " << x.getType();
  });
  stream << "):\n";
  for (Operation &op : block) {
    stream << "    ";
    op.print(stream, state);
    stream << "\n";
  }
  std::string renamed;
  for (char c : text) {
    renamed += c;
    if (c == '%')
      renamed += prefix.str() + ".";
  }
  return renamed;
}

Result<RegionTexts> Reader::read() {
  constexpr int64_t most = INT32_MAX;
  auto isSize = [](int64_t size) { return size >= 1 && size <= most; };
  if (d.blockMask && !(isSize(d.blockRows) && isSize(d.blockKeys)))
    return fail(
        "blocks of 1 to " + std::to_string(most) + " queries and as many keys",
        std::to_string(d.blockRows) + " and " + std::to_string(d.blockKeys));
  if (d.blockMask && (d.packed || d.kStart))
    return fail("a block mask without packed queries and k_start",
                d.packed ? "packed queries" : "k_start");
  for (auto [function, text] :
       {std::pair(&score, &d.scoreMod), {&mask, &d.maskMod}})
    if (!text->empty())
      if (std::string wrong = parse(*function, *text); !wrong.empty())
        return Failure{wrong};
  for (Function *function : {&score, &mask})
    if (function->isGiven())
      takeAll(*function);
  if (mask.isGiven() && mask.region().front().back().getNumOperands() == 1 &&
      !mask.region().front().back().getOperand(0).getType().isInteger(1))
    return fail(
        "mask_mod to yield an i1",
        formatv("{0}", mask.region().front().back().getOperand(0).getType())
            .str());
  if (mask.isGiven() && mask.region().front().back().getNumOperands() != 1)
    return fail("mask_mod to yield an i1",
                std::to_string(mask.region().front().back().getNumOperands()) +
                    " values");
  if (d.blockMask)
    readBlocks();
  if (std::string wrong = verify(); !wrong.empty())
    return Failure{wrong};
  mlir::attn::AttentionOp op;
  probe->walk([&](mlir::attn::AttentionOp found) { op = found; });
  RegionTexts texts;
  for (auto &[name, type] : captures)
    texts.captures.push_back({name, formatv("{0}", type).str()});
  if (!op.getScore().empty())
    texts.score = printRegion(op.getScore(), "score");
  if (!op.getMask().empty())
    texts.mask = printRegion(op.getMask(), "mask");
  return texts;
}

namespace attn {
Result<RegionTexts> readRegions(const AttentionDescriptor &descriptor) {
  if (descriptor.scoreMod.empty() && descriptor.maskMod.empty() &&
      !descriptor.blockMask)
    return RegionTexts();
  return Reader(descriptor).read();
}
} // namespace attn
