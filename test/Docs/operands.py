"""Puts the sentences of operands, attributes and results into the pages of dialects.

    operands.py PAGE RECORDS ...

PAGE is what `mlir-tblgen -gen-dialect-doc` writes. Its tables have the type of an
operand, but not what it is for, which the .td files say:

    let arguments = (ins Arg<Index, "Number of blocks.">:$grid);

RECORDS is what `llvm-tblgen --dump-json` makes of the same files. The pages are
written anew, with a column for the sentences. Fails, and names each of them, where
there are operands without a sentence.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import html
import json
import re
import sys


def read_sentences(path):
    """{operation: {name of an operand, an attribute or a result: its sentence}}"""
    with open(path, encoding="utf-8") as file:
        records = json.load(file)
    sentences = {}
    for record in (records[name] for name in records["!instanceof"]["Op"]):
        dialect = records[record["opDialect"]["def"]]["name"]
        own = sentences.setdefault(f"{dialect}.{record['opName']}", {})
        for value, name in record["arguments"]["args"] + record["results"]["args"]:
            # Arg<..., "sentence."> or Res<...>; a type alone has another summary.
            definition = records[value["def"]]
            is_said = "OpVariable" in definition["!superclasses"]
            own[name] = definition["summary"] if is_said else ""
    return sentences


def as_html(sentence):
    return re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(sentence, quote=False))


def add_column(page, sentences):
    """The page with a column more, and what has no sentence."""
    lines, missing = [], []
    operation = table = None

    def get(name):
        sentence = sentences[operation].get(name, "")
        if not sentence.endswith("."):
            missing.append(f"'{name}' of {operation}")
        return sentence

    for line in page.splitlines():
        if heading := re.match(r"#+ (?:`([\w.]+)`|(.*))", line):
            operation, table = heading[1] or operation, heading[2]
        if table == "Attributes:":
            line = line.replace("<th>Description<",
                                "<th>Constraint</th><th>Description<")
            if row := re.match(r"(<tr><td><code>(\w+)</code>.*</td>)(</tr>)$", line):
                line = f"{row[1]}<td>{as_html(get(row[2]))}</td>{row[3]}"
        elif table in ("Operands:", "Results:"):
            line = line.replace("| Description |", "| Type | Description |")
            line = line.replace(": | -", ": | ---- | -")
            if row := re.match(r"\| (?:`(\w+)`|&laquo;(unnamed)&raquo;) \|", line):
                line += " %s |" % get(row[1] or row[2]).replace("|", r"\|")
        lines.append(line)
    return "\n".join(lines) + "\n", missing


missing = []
for path, records in zip(sys.argv[1::2], sys.argv[2::2]):
    with open(path, encoding="utf-8") as file:
        page, more = add_column(file.read(), read_sentences(records))
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
    missing += more
if missing:
    sys.exit(
        'expected a sentence, Arg<..., "Number of blocks.">, but got none for '
        + ", ".join(missing)
    )
