//===- DialectAttributes.cpp - Attributes on operations of others ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::attn;

static bool areStrings(Attribute attr) {
  auto array = dyn_cast<ArrayAttr>(attr);
  return array && llvm::all_of(array, llvm::IsaPred<StringAttr>);
}

static LogicalResult verifyOfModule(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  if (!isa<ModuleOp>(op))
    return op->emitError("expected ")
           << name << " on a module, but got it on " << op->getName();
  if (name == getTargetName()) {
    if (!isa<StringAttr>(value))
      return op->emitError("expected ")
             << name << " to be a string, but got " << value;
    return success();
  }
  auto sizes = dyn_cast<DenseI64ArrayAttr>(value);
  if (!sizes || sizes.size() < 4 || sizes.size() > 5 ||
      llvm::any_of(sizes.asArrayRef(), [](int64_t size) { return size < 0; }))
    return op->emitError("expected ")
           << name << " to be array<i64: b, hq, sq, sk> of sizes, 0 where "
           << "unknown, and hk as the fifth or not, but got " << value;
  return success();
}

static LogicalResult verifyInterface(Operation *op, Attribute value);

static LogicalResult verifyOfFunction(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  if (!isa<FunctionOpInterface>(op))
    return op->emitError("expected ")
           << name << " on a function, but got it on " << op->getName();
  if (name == getGradientsName() && !areStrings(value))
    return op->emitError("expected ")
           << name << " to be a list of names, but got " << value;
  if (name == getMultiplesName() &&
      (!areStrings(value) || cast<ArrayAttr>(value).size() % 2))
    return op->emitError("expected ")
           << name << " to be a list of pairs of names, but got " << value;
  if (name == getInterfaceName())
    return verifyInterface(op, value);
  if (name == getNearName()) {
    auto near = dyn_cast<DenseI64ArrayAttr>(value);
    if (!near || near.size() != 2)
      return op->emitError("expected ")
             << name << " to be two distances (array<i64>), but got " << value;
  }
  if (name != getSavedBytesName())
    return success();
  auto bytes = dyn_cast<IntegerAttr>(value);
  if (!bytes || !bytes.getType().isSignlessInteger(64) || bytes.getInt() < 0)
    return op->emitError("expected ")
           << name << " to be a number of bytes (i64), but got " << value;
  return success();
}

namespace {

/// What an attribute of an operation has to be.
struct Rule {
  StringRef name;
  bool (*holds)(Operation *op, Attribute value);
  StringRef expected;
};

} // namespace

static const Rule rules[] = {
    {getTensorNameName(),
     [](Operation *op, Attribute value) {
       return op->getName().getStringRef() == "tile_gpu.tensor_map" &&
              isa<StringAttr>(value);
     },
     "to be a string on tile_gpu.tensor_map"},
    {getAnyOrderName(),
     [](Operation *op, Attribute value) {
       return isa<FunctionOpInterface>(op) && isa<UnitAttr>(value);
     },
     "to be a unit attribute of a function"},
    {getRungAttrName(),
     [](Operation *op, Attribute value) {
       return isa<AggregateOp, PartialOp, ScoresOp, AttentionOp>(op) &&
              isa<RungAttr>(value);
     },
     "to be #attn.rung on attn.attention or attn.aggregate"},
    {getDispatchAttrName(),
     [](Operation *op, Attribute value) {
       return (isa<ModuleOp>(op) && isa<UnitAttr>(value)) ||
              (isa<AggregateOp, AttentionOp>(op) && isa<DispatchAttr>(value));
     },
     "to be a unit attribute of a module or #attn.dispatch on attn.aggregate "
     "or attn.attention"},
};

LogicalResult AttnDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == getTargetName() || name == getExpectedSizesName())
    return verifyOfModule(op, attribute);
  if (name == getGradientsName() || name == getMultiplesName() ||
      name == getInterfaceName() || name == getSavedBytesName() ||
      name == getNearName())
    return verifyOfFunction(op, attribute);
  if (name == getArgName() || name == getColumnsOfName())
    return op->emitError("expected ")
           << name << " on an argument or a result of a function, but got it "
           << "on " << op->getName();
  const Rule *rule =
      llvm::find_if(rules, [&](const Rule &of) { return of.name == name; });
  if (rule == std::end(rules))
    return op->emitError("expected no attribute ")
           << name << ", which the attn dialect does not define";
  if (rule->holds(op, attribute.getValue()))
    return success();
  return op->emitError("expected ")
         << name << " " << rule->expected << ", but got "
         << attribute.getValue() << " on " << op->getName();
}

//===----------------------------------------------------------------------===//
// Of arguments and results of functions
//===----------------------------------------------------------------------===//

static bool isNumber(Attribute attr) {
  auto number = dyn_cast<IntegerAttr>(attr);
  return number && number.getType().isSignlessInteger(64) &&
         number.getInt() >= 0;
}

/// Errors and headers of C have names in their lines.
static bool isOneLine(StringAttr name) {
  return llvm::none_of(name.getValue(), [](char c) {
    return (unsigned char)c < ' ' || c == '\x7f';
  });
}

/// What `attn.arg` may say, and how each is written.
static StringRef whyNotOfArg(NamedAttribute entry) {
  StringRef key = entry.getName();
  Attribute value = entry.getValue();
  if (llvm::is_contained({"name", "elements_up_to", "offsets_up_to", "pages_of",
                          "lengths_from", "more_rows"},
                         key)) {
    auto text = dyn_cast<StringAttr>(value);
    return !text ? "a string" : isOneLine(text) ? "" : "a name in one line";
  }
  if (llvm::is_contained({"dims", "at_least"}, key)) {
    if (!areStrings(value))
      return "a list of names";
    return llvm::all_of(cast<ArrayAttr>(value).getAsRange<StringAttr>(),
                        isOneLine)
               ? ""
               : "a list of names in one line each";
  }
  if (llvm::is_contained({"output", "written", "apart"}, key))
    return isa<UnitAttr>(value) ? "" : "a unit attribute";
  if (key == "columns_of")
    return isNumber(value) ? "" : "the number of an argument (i64)";
  return "absent, as attn.arg does not define it";
}

/// The same of an argument in `attn.interface`, which has its type, too.
static StringRef whyNotOfInterface(NamedAttribute entry) {
  if (entry.getName() == "dtype")
    return isa<StringAttr>(entry.getValue()) ? "" : "a string";
  if (entry.getName() == "shape" || entry.getName() == "strides")
    return isa<DenseI64ArrayAttr>(entry.getValue()) ? "" : "array<i64>";
  return whyNotOfArg(entry);
}

/// Whether an attribute `name` holds a dictionary without a member of which
/// `whyNot` says what it should be.
static LogicalResult
verifyMembers(Operation *op, StringRef name, Attribute value,
              llvm::function_ref<StringRef(NamedAttribute)> whyNot) {
  auto entries = dyn_cast<DictionaryAttr>(value);
  if (!entries)
    return op->emitError("expected ")
           << name << " to be a dictionary, but got " << value;
  for (NamedAttribute entry : entries)
    if (StringRef what = whyNot(entry); !what.empty())
      return op->emitError("expected ")
             << entry.getName().getValue() << " of " << name << " to be "
             << what << ", but got " << entry.getValue();
  return success();
}

static LogicalResult verifyInterface(Operation *op, Attribute value) {
  auto arguments = dyn_cast<ArrayAttr>(value);
  if (!arguments)
    return op->emitError("expected ")
           << getInterfaceName() << " to be a list of arguments, but got "
           << value;
  for (Attribute argument : arguments)
    if (failed(
            verifyMembers(op, getInterfaceName(), argument, whyNotOfInterface)))
      return failure();
  return success();
}

static LogicalResult verifyArg(Operation *op, Type type, Attribute value) {
  if (failed(verifyMembers(op, getArgName(), value, whyNotOfArg)))
    return failure();
  auto entries = cast<DictionaryAttr>(value);
  auto dims = entries.getAs<ArrayAttr>("dims");
  auto shaped = dyn_cast<ShapedType>(type);
  if (dims && shaped && shaped.hasRank() &&
      int64_t(dims.size()) != shaped.getRank())
    return op->emitError("expected dims of ")
           << getArgName() << " to be " << shaped.getRank() << " names for "
           << type << ", but got " << dims.size();
  return success();
}

/// Rows and columns of one argument in another.
static LogicalResult verifyColumnsOf(Operation *op, unsigned number,
                                     Attribute value) {
  auto function = cast<FunctionOpInterface>(op);
  if (!isNumber(value) ||
      cast<IntegerAttr>(value).getInt() >= int64_t(function.getNumArguments()))
    return op->emitError("expected ")
           << getColumnsOfName() << " to be the number of an argument (i64), "
           << "of which there are " << function.getNumArguments()
           << ", but got " << value;
  unsigned whole = cast<IntegerAttr>(value).getInt();
  ArrayRef<Type> types = function.getArgumentTypes();
  auto part = dyn_cast<ShapedType>(types[number]);
  auto all = dyn_cast<ShapedType>(types[whole]);
  if (number == whole || !part || !all || !part.hasRank() || !all.hasRank() ||
      !part.getRank() || part.getElementType() != all.getElementType() ||
      part.getShape().drop_back() != all.getShape().drop_back() ||
      part.getShape().back() > all.getShape().back())
    return op->emitError("expected ")
           << getColumnsOfName() << " to name another argument that has the "
           << "rows of " << types[number] << " and at least its columns, but "
           << "got argument " << whole << ", " << types[whole];
  return success();
}

LogicalResult AttnDialect::verifyRegionArgAttribute(Operation *op,
                                                    unsigned /*regionIndex*/,
                                                    unsigned argIndex,
                                                    NamedAttribute attribute) {
  StringRef name = attribute.getName();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || (name != getArgName() && name != getColumnsOfName()))
    return op->emitError("expected no attribute ")
           << name << " on an argument, which the attn dialect does not define";
  if (name == getColumnsOfName())
    return verifyColumnsOf(op, argIndex, attribute.getValue());
  return verifyArg(op, function.getArgumentTypes()[argIndex],
                   attribute.getValue());
}

LogicalResult AttnDialect::verifyRegionResultAttribute(
    Operation *op, unsigned /*regionIndex*/, unsigned resultIndex,
    NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || attribute.getName() != getArgName())
    return op->emitError("expected no attribute ")
           << attribute.getName().getValue()
           << " on a result, which the attn dialect does not define";
  return verifyArg(op, function.getResultTypes()[resultIndex],
                   attribute.getValue());
}
