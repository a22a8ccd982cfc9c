// RUN: attn-opt %s --attn-import-prelude --attn-differentiate | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --attn-differentiate \
// RUN:   | attn-opt --attn-check-laws -o /dev/null

!rows = tensor<?x?x?x16xf32>

func.func @stick(%q: !rows, %k: !rows, %v: !rows)
    -> (!rows, tensor<?x?x?xf32>) {
  %o, %r = attn.aggregate @stick_breaking scores(%q, %k : !rows, !rows)
      values(%v : !rows) -> !rows, tensor<?x?x?xf32>
  return %o, %r : !rows, tensor<?x?x?xf32>
}

func.func @front(%q: !rows, %k: !rows, %v: !rows) -> !rows {
  %o = attn.aggregate @alpha_compositing scores(%q, %k : !rows, !rows)
      values(%v : !rows) -> !rows
  return %o : !rows
}
