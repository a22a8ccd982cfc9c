//===- Interface.cpp - What the arguments of a function mean --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interface.h"
#include "ShapeRules.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "attn/Dialect/Attn/Prelude/Prelude.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using ::attn::ArgInfo;
using ::attn::EntryInfo;
using ::attn::ShapeRules;
using ::attn::support::DType;

static constexpr StringRef kArg = mlir::attn::getArgName();
static constexpr StringRef kMultiples = mlir::attn::getMultiplesName();
static constexpr StringRef kInterface = mlir::attn::getInterfaceName();
static constexpr StringRef kColumnsOf = mlir::attn::getColumnsOfName();
static constexpr StringRef kEntryPrefix = "attn_entry_";

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// The name that the source gives to an argument, without the percent sign.
static StringRef findSourceName(BlockArgument arg,
                                const AsmParserState *source) {
  if (!source)
    return {};
  const auto *definition = source->getBlockDef(arg.getOwner());
  if (!definition || arg.getArgNumber() >= definition->arguments.size())
    return {};
  SMRange range = definition->arguments[arg.getArgNumber()].loc;
  if (!range.isValid())
    return {};
  StringRef text(range.Start.getPointer(),
                 range.End.getPointer() - range.Start.getPointer());
  text.consume_front("%");
  // %0 is no name.
  return text.empty() || llvm::isDigit(text.front()) ? StringRef() : text;
}

/// The names of a monoid's outputs: of the module's definition, else of the
/// shipped one.
static SmallVector<std::string> findOutputNames(Operation *op,
                                                StringRef monoid) {
  SmallVector<std::string> names;
  if (auto definition =
          SymbolTable::lookupNearestSymbolFrom<mlir::attn::MonoidOp>(
              op, StringAttr::get(op->getContext(), monoid))) {
    for (Attribute name : definition.getOutputs())
      names.push_back(cast<StringAttr>(name).getValue().str());
    return names;
  }
  const ::attn::ShippedMonoid *shipped = ::attn::lookupShippedMonoid(
      std::string_view(monoid.data(), monoid.size()));
  if (!shipped)
    return names;
  StringRef text(shipped->text.data(), shipped->text.size());
  StringRef list = text.split("outputs(").second.split(')').first;
  SmallVector<StringRef> parts;
  list.split(parts, ',');
  for (StringRef part : parts)
    names.push_back(part.trim(" \n\"").str());
  return names;
}

static std::string findResultName(Value value, unsigned index) {
  Operation *op = value.getDefiningOp();
  // Of states and scores there are no names.
  if (op &&
      !isa<mlir::attn::PartialOp, mlir::attn::ScoresOp, mlir::attn::CombineOp>(
          op))
    if (auto monoid = op->getAttrOfType<FlatSymbolRefAttr>("monoid")) {
      auto names = findOutputNames(op, monoid.getValue());
      unsigned number = cast<OpResult>(value).getResultNumber();
      if (number < names.size())
        return names[number];
    }
  return "out" + std::to_string(index);
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

static DictionaryAttr encode(MLIRContext *context, const ArgInfo &info) {
  Builder b(context);
  NamedAttrList attrs;
  attrs.append("name", b.getStringAttr(info.name));
  SmallVector<StringRef> dims(info.dims.begin(), info.dims.end());
  if (!dims.empty())
    attrs.append("dims", b.getStrArrayAttr(dims));
  SmallVector<StringRef> atLeast(info.atLeast.begin(), info.atLeast.end());
  if (!atLeast.empty())
    attrs.append("at_least", b.getStrArrayAttr(atLeast));
  if (info.isOutput)
    attrs.append("output", b.getUnitAttr());
  if (!info.elementsUpTo.empty())
    attrs.append("elements_up_to", b.getStringAttr(info.elementsUpTo));
  if (!info.offsetsUpTo.empty())
    attrs.append("offsets_up_to", b.getStringAttr(info.offsetsUpTo));
  if (!info.pagesOf.empty())
    attrs.append("pages_of", b.getStringAttr(info.pagesOf));
  if (!info.lengthsFrom.empty())
    attrs.append("lengths_from", b.getStringAttr(info.lengthsFrom));
  if (!info.moreRows.empty())
    attrs.append("more_rows", b.getStringAttr(info.moreRows));
  if (info.isWritten)
    attrs.append("written", b.getUnitAttr());
  if (info.isApart)
    attrs.append("apart", b.getUnitAttr());
  if (info.columnsOf >= 0)
    attrs.append("columns_of", b.getI64IntegerAttr(info.columnsOf));
  return attrs.getDictionary(context);
}

/// Whatever is missing or of another kind keeps its default: users may write
/// these attributes too.
static void decode(DictionaryAttr attrs, ArgInfo &info) {
  if (!attrs)
    return;
  auto text = [&](StringRef key, std::string &to) {
    if (auto value = attrs.getAs<StringAttr>(key))
      to = value.getValue().str();
  };
  text("name", info.name);
  text("elements_up_to", info.elementsUpTo);
  text("offsets_up_to", info.offsetsUpTo);
  text("pages_of", info.pagesOf);
  text("lengths_from", info.lengthsFrom);
  text("more_rows", info.moreRows);
  info.isWritten |= attrs.contains("written");
  info.isApart |= attrs.contains("apart");
  info.isOutput |= attrs.contains("output");
  if (auto number = attrs.getAs<IntegerAttr>("columns_of"))
    info.columnsOf = number.getInt();
  if (auto names = attrs.getAs<ArrayAttr>("at_least"))
    for (Attribute name : names)
      if (auto text = dyn_cast<StringAttr>(name))
        info.atLeast.push_back(text.getValue().str());
  if (auto dims = attrs.getAs<ArrayAttr>("dims"))
    for (auto [i, dim] : llvm::enumerate(dims))
      if (i < info.dims.size())
        if (auto name = dyn_cast<StringAttr>(dim))
          info.dims[i] = name.getValue().str();
}

static bool isEntry(func::FuncOp function) {
  return function.isPublic() && !function.isExternal();
}

static int64_t getRank(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped && shaped.hasRank() ? shaped.getRank() : 0;
}

/// A product of dimensions, with the names that these have in the function.
static std::string nameProduct(ShapeRules &rules, StringRef product,
                               unsigned scope) {
  std::string text;
  for (StringRef name : llvm::split(product, '*'))
    text += (text.empty() ? "" : "*") + rules.dims.name(name, scope);
  return text;
}

static void annotate(func::FuncOp function, const AsmParserState *source) {
  MLIRContext *context = function.getContext();
  ShapeRules rules(function);
  auto describe = [&](Value value) {
    ArgInfo info;
    for (int64_t i = 0; i < getRank(value.getType()); ++i)
      info.dims.push_back(rules.nameOf(value, i));
    return info;
  };

  llvm::StringSet<> names;
  auto unique = [&](std::string name) {
    std::string base = name;
    for (unsigned i = 2; !names.insert(name).second; ++i)
      name = base + "_" + std::to_string(i);
    return name;
  };
  DenseMap<Value, std::string> namesOf;
  for (BlockArgument arg : function.getArguments()) {
    StringRef name = findSourceName(arg, source);
    namesOf[arg] = unique(
        name.empty() ? "arg" + std::to_string(arg.getArgNumber()) : name.str());
  }
  for (BlockArgument arg : function.getArguments()) {
    ArgInfo info = describe(arg);
    info.name = namesOf[arg];
    for (auto &[value, dim] : rules.lengths)
      if (value == arg) {
        // A product, and what is taken from it.
        auto [product, less] = dim.first.split('-');
        info.elementsUpTo = nameProduct(rules, product, dim.second);
        if (!less.empty())
          info.elementsUpTo += "-" + rules.dims.name(less, dim.second);
      }
    for (auto &[value, dim] : rules.counted) {
      std::string name = rules.dims.name(dim.first, dim.second);
      if (value == arg && !info.dims.empty() && !name.empty())
        info.dims[0] = name + "+1";
    }
    info.isWritten = llvm::is_contained(rules.written, arg);
    info.isApart = llvm::is_contained(rules.apart, arg);
    if (auto number = function.getArgAttrOfType<IntegerAttr>(arg.getArgNumber(),
                                                             kColumnsOf))
      info.columnsOf = number.getInt();
    // Positions are i32: room for the start, and for the keys behind it.
    if (llvm::is_contained(rules.starts, arg))
      info.elementsUpTo = std::to_string(1 << 30);
    for (const ShapeRules::Table &table : rules.tables)
      if (table.table == arg) {
        info.pagesOf = rules.dims.name("pages", table.scope) + " " +
                       rules.dims.name("page", table.scope);
        info.lengthsFrom = namesOf.lookup(table.lengths);
        if (!table.moreRows.empty())
          info.moreRows = rules.dims.name(table.moreRows, table.scope);
      }
    for (auto &[value, dim] : rules.offsets)
      if (value == arg) {
        // One argument may hold those of rows and of keys.
        std::string name = rules.dims.name(dim.first, dim.second);
        if (!llvm::is_contained(llvm::split(info.offsetsUpTo, ' '), name))
          info.offsetsUpTo += (info.offsetsUpTo.empty() ? "" : " ") + name;
      }
    for (const ShapeRules::Indexed &use : rules.indexed) {
      if (use.value != arg || use.dim >= getRank(arg.getType()))
        continue;
      info.atLeast.resize(getRank(arg.getType()));
      std::string &least = info.atLeast[use.dim];
      std::string name = "1", from = namesOf.lookup(use.from);
      if (!from.empty())
        name = use.how.str() + "(" + from + ")" +
               (use.appended ? "+" + rules.dims.name(use.appended, 2) : "");
      else if (!use.name.empty())
        name = nameProduct(rules, use.name, use.scope);
      if (!llvm::is_contained(llvm::split(least, ' '), name))
        least += (least.empty() ? "" : " ") + name;
    }
    function.setArgAttr(arg.getArgNumber(), kArg, encode(context, info));
  }
  auto ret = dyn_cast<func::ReturnOp>(function.front().getTerminator());
  if (ret)
    for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
      ArgInfo info = describe(value);
      info.isOutput = true;
      info.name = unique(findResultName(value, i));
      function.setResultAttr(i, kArg, encode(context, info));
    }

  SmallVector<StringRef> multiples;
  SmallVector<std::string> storage;
  for (unsigned scope : rules.scopes) {
    storage.push_back(rules.dims.name("hq", scope));
    storage.push_back(rules.dims.name("hk", scope));
  }
  for (const std::string &name : storage)
    multiples.push_back(name);
  if (!multiples.empty())
    function->setAttr(kMultiples, Builder(context).getStrArrayAttr(multiples));
}

void ::attn::annotateInterfaces(ModuleOp module, const AsmParserState *source) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!isEntry(function))
      continue;
    bool annotated = function->hasAttr(kMultiples);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      annotated |= bool(function.getArgAttr(i, kArg));
    if (!annotated)
      annotate(function, source);
  }
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

static std::optional<DType> convertType(Type type) {
  if (type.isF32())
    return DType::f32;
  if (type.isF16())
    return DType::f16;
  if (type.isBF16())
    return DType::bf16;
  if (type.isF64())
    return DType::f64;
  if (type.isInteger(1))
    return DType::boolean;
  if (type.isSignlessInteger(8))
    return DType::i8;
  if (type.isSignlessInteger(16))
    return DType::i16;
  if (type.isSignlessInteger(32))
    return DType::i32;
  if (type.isSignlessInteger(64) || type.isIndex())
    return DType::i64;
  return std::nullopt;
}

static LogicalResult readArg(func::FuncOp function, Type type,
                             DictionaryAttr attrs, unsigned index,
                             bool isOutput, EntryInfo &entry) {
  ArgInfo info;
  info.isOutput = isOutput;
  info.name = "arg" + std::to_string(index);
  auto shaped = dyn_cast<ShapedType>(type);
  info.isScalar = !shaped;
  Type element = type;
  if (shaped) {
    if (!isa<RankedTensorType, MemRefType>(type))
      return function.emitError("expected arguments and results to be ranked "
                                "tensors or scalars, but got ")
             << type;
    element = shaped.getElementType();
    for (int64_t size : shaped.getShape())
      info.shape.push_back(ShapedType::isDynamic(size) ? -1 : size);
    info.dims.resize(info.shape.size());
    info.strides.assign(info.shape.size(), -1);
    if (!info.strides.empty())
      info.strides.back() = 1;
    if (auto memref = dyn_cast<MemRefType>(type)) {
      int64_t offset;
      SmallVector<int64_t> strides;
      if (failed(memref.getStridesAndOffset(strides, offset)))
        return function.emitError("expected strided memrefs, but got ") << type;
      for (auto [i, stride] : llvm::enumerate(strides))
        info.strides[i] = ShapedType::isDynamic(stride) ? -1 : stride;
    }
  }
  std::optional<DType> dtype = convertType(element);
  if (!dtype)
    return function.emitError("expected elements of type f32, f16, bf16, f64, "
                              "i1, i8, i16, i32, i64 or index, but got ")
           << element;
  info.dtype = *dtype;
  if (isOutput && info.isScalar)
    return function.emitError("expected results to be tensors, but got ")
           << type;
  decode(attrs, info);
  entry.args.push_back(std::move(info));
  return success();
}

/// All of an argument, for where its type does not say it.
static DictionaryAttr encodeFully(MLIRContext *context, const ArgInfo &info) {
  Builder b(context);
  NamedAttrList attrs(encode(context, info));
  attrs.append("dtype", b.getStringAttr(nameOf(info.dtype)));
  if (!info.isScalar) {
    attrs.append("shape", b.getDenseI64ArrayAttr(info.shape));
    attrs.append("strides", b.getDenseI64ArrayAttr(info.strides));
  }
  return attrs.getDictionary(context);
}

static LogicalResult decodeFully(LLVM::LLVMFuncOp function, Attribute attr,
                                 EntryInfo &entry) {
  ArgInfo info;
  auto attrs = dyn_cast<DictionaryAttr>(attr);
  auto name = attrs ? attrs.getAs<StringAttr>("dtype") : StringAttr();
  std::optional<DType> dtype =
      name ? ::attn::support::parseDType(name.getValue().str()) : std::nullopt;
  auto shape =
      attrs ? attrs.getAs<DenseI64ArrayAttr>("shape") : DenseI64ArrayAttr();
  auto strides =
      attrs ? attrs.getAs<DenseI64ArrayAttr>("strides") : DenseI64ArrayAttr();
  if (!dtype || bool(shape) != bool(strides) ||
      (shape && shape.size() != strides.size()))
    return function.emitError("expected ")
           << kInterface << " to give the dtype, shape and strides of each "
           << "argument, but got " << attr;
  info.dtype = *dtype;
  info.isScalar = !shape;
  if (shape) {
    info.shape.assign(shape.asArrayRef().begin(), shape.asArrayRef().end());
    info.strides.assign(strides.asArrayRef().begin(),
                        strides.asArrayRef().end());
    info.dims.resize(info.shape.size());
  }
  decode(attrs, info);
  entry.args.push_back(std::move(info));
  return success();
}

static void readMultiples(Operation *function, EntryInfo &entry) {
  auto multiples = function->getAttrOfType<ArrayAttr>(kMultiples);
  if (!multiples)
    return;
  for (unsigned i = 0; i + 1 < multiples.size(); i += 2) {
    auto first = dyn_cast<StringAttr>(multiples[i]);
    auto second = dyn_cast<StringAttr>(multiples[i + 1]);
    if (first && second)
      entry.multiples.push_back(
          {first.getValue().str(), second.getValue().str()});
  }
}

static void writeMultiples(Operation *function, const EntryInfo &entry) {
  SmallVector<StringRef> multiples;
  for (auto &[first, second] : entry.multiples)
    multiples.append({first, second});
  if (!multiples.empty())
    function->setAttr(
        kMultiples, Builder(function->getContext()).getStrArrayAttr(multiples));
}

namespace attn {
LogicalResult readInterfaces(ModuleOp module, std::vector<EntryInfo> &entries) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!isEntry(function))
      continue;
    EntryInfo entry;
    entry.name = function.getName().str();
    auto getAttrs = [](Attribute attr) {
      return dyn_cast_or_null<DictionaryAttr>(attr);
    };
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      if (failed(readArg(function, type, getAttrs(function.getArgAttr(i, kArg)),
                         i, false, entry)))
        return failure();
    for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
      if (failed(readArg(function, type,
                         getAttrs(function.getResultAttr(i, kArg)),
                         entry.args.size(), true, entry)))
        return failure();
    readMultiples(function, entry);
    entries.push_back(std::move(entry));
  }
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    StringRef name = function.getName();
    // Plans that others dispatch to are nobody's to call.
    if (function.isExternal() ||
        function.getLinkage() == LLVM::Linkage::Internal ||
        !name.consume_front(kEntryPrefix))
      continue;
    auto arguments = function->getAttrOfType<ArrayAttr>(kInterface);
    if (!arguments)
      return function.emitError("expected ")
             << kInterface << " on an entry, which says what it takes, but "
             << "there is none";
    EntryInfo entry;
    entry.name = name.str();
    for (Attribute argument : arguments)
      if (failed(decodeFully(function, argument, entry)))
        return failure();
    readMultiples(function, entry);
    entries.push_back(std::move(entry));
  }
  return success();
}
} // namespace attn

void ::attn::restoreInterfaces(ModuleOp module,
                               const std::vector<EntryInfo> &entries) {
  MLIRContext *context = module.getContext();
  for (const EntryInfo &entry : entries) {
    if (auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(
            (kEntryPrefix + entry.name).str())) {
      SmallVector<Attribute> arguments;
      for (const ArgInfo &info : entry.args)
        arguments.push_back(encodeFully(context, info));
      function->setAttr(kInterface, ArrayAttr::get(context, arguments));
      writeMultiples(function, entry);
      continue;
    }
    auto plan = module.lookupSymbol<func::FuncOp>(entry.name);
    if (!plan || plan.getNumArguments() != entry.args.size())
      continue;
    SmallVector<func::FuncOp> plans = {plan};
    if (!plan.isExternal())
      for (auto dispatch : plan.getBody().getOps<tile::DispatchOp>())
        plans.push_back(module.lookupSymbol<func::FuncOp>(dispatch.getPlan()));
    for (func::FuncOp plan : plans) {
      for (auto [i, info] : llvm::enumerate(entry.args))
        plan.setArgAttr(i, kArg, encode(context, info));
      writeMultiples(plan, entry);
    }
  }
}
