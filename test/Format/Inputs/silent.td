include "mlir/IR/OpBase.td"

def Silent_Dialect : Dialect {
  let name = "silent";
  let cppNamespace = "silent";
}

def Silent_MoveOp : Op<Silent_Dialect, "move"> {
  let arguments = (ins
    Arg<Index, "Where `it` goes: -1 <= |to| | 8.">:$to, Index:$from,
    Arg<UnitAttr, "Whether `from` < `to`.">:$up, UnitAttr:$down,
    Arg<Index, "a fragment">:$half);
  let results = (outs Index:$result, Res<Index, "Where it was.">:$before);
}

def Silent_AlikeOp : Op<Silent_Dialect, "alike"> {
  let arguments = (ins Arg<Index, "Where it goes.">:$to);
  let results = (outs Index);
}
