^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %table: tensor<?x?xi8>):
  %n = arith.constant 128 : i32
  %bi = arith.divui %i, %n : i32
  %bj = arith.divui %j, %n : i32
  %x = arith.index_cast %bi : i32 to index
  %y = arith.index_cast %bj : i32 to index
  %e = tensor.extract %table[%x, %y] : tensor<?x?xi8>
  %zero = arith.constant 0 : i8
  %live = arith.cmpi ne, %e, %zero : i8
  attn.yield %live : i1
