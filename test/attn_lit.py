"""Test formats of the suite. A module of its own: lit pickles them."""

import difflib
import os
import re
import shlex
import subprocess

import lit.Test
import lit.formats
import lit.util


class UnitTest(lit.formats.FileBasedTest):
    """Each FooTest.cpp is one test: the executable built from it."""

    def __init__(self, executable_dir):
        self.executable_dir = executable_dir

    def execute(self, test, litConfig):
        stem = os.path.splitext(test.path_in_suite[-1])[0]
        executable = os.path.join(self.executable_dir, stem)
        if not os.path.exists(executable):
            return lit.Test.UNRESOLVED, "%s was not built" % executable
        try:
            out, err, code = lit.util.executeCommand(
                [executable],
                env=test.config.environment,
                timeout=litConfig.maxIndividualTestTime,
            )
        except lit.util.ExecuteCommandTimeoutException as e:
            return lit.Test.TIMEOUT, e.out + e.err
        return (lit.Test.FAIL if code else lit.Test.PASS), out + err


class Example:
    """A ```mlir block of the documentation."""

    def __init__(self, path, line, text, pass_name, index):
        self.path, self.line, self.text = path, line, text
        # The pass that describes itself by this block, and whether the block
        # is its first (before) or second (after).
        self.pass_name, self.index = pass_name, index
        self.after = None

    def arguments(self):
        """The options of attn-opt: the pass, or what the first line says."""
        said = re.match(r"// attn-opt (.*)", self.text)
        if said:
            return shlex.split(said.group(1))
        if self.pass_name and self.index == 0:
            return ["--" + self.pass_name]
        return []


def find_examples(root, path):
    """The examples of one .td or .md file."""
    examples, fence, pass_name, count = [], None, None, 0
    with open(os.path.join(root, path)) as file:
        for number, line in enumerate(file, 1):
            # A long name puts its class on the next line.
            named = re.match(r"(?:def \w+)?\s*:\s*\w*Pass<\"([\w-]+)\"", line)
            if named:
                pass_name, count = named.group(1), 0
            elif re.match(r"def ", line):
                pass_name = None
            if fence is None:
                opened = re.match(r"( *)```mlir\s*$", line)
                if opened:
                    fence, start, text = opened.group(1), number, []
            elif line.strip() == "```":
                example = Example(path, start, "".join(text), pass_name, count)
                if pass_name and count == 1:
                    examples[-1].after = example
                examples.append(example)
                fence, count = None, count + 1
            else:
                line = line[len(fence) :] if line.strip() else "\n"
                text.append(re.sub(r"^# ", "", line))
    return examples


class DocExamples(lit.formats.TestFormat):
    """Every ```mlir block of the .td files and of docs is one test.

    A block is a whole module and is parsed and verified by attn-opt as it
    stands. The first block of a pass's description is also run through the
    pass, and when there is a second block, the result must be that one. A
    first line `// attn-opt OPTIONS` names other options to run with. Lines
    that begin with `# ` belong to the module, but are left out of the generated
    pages. What cannot be made a whole module is marked ```mlir-fragment and is
    not checked.
    """

    def __init__(self, root, attn_opt):
        self.root, self.attn_opt = root, attn_opt

    def files(self):
        yield "README.md"
        for top, suffix in (("include", ".td"), ("docs", ".md")):
            for folder, _, names in os.walk(os.path.join(self.root, top)):
                folder = os.path.relpath(folder, self.root)
                if folder == os.path.join("docs", "generated"):
                    continue
                for name in names:
                    if name.endswith(suffix):
                        yield os.path.join(folder, name)

    def getTestsInDirectory(self, testSuite, path_in_suite, litConfig, localConfig):
        for path in sorted(self.files()):
            if not os.path.exists(os.path.join(self.root, path)):
                continue
            for example in find_examples(self.root, path):
                name = "%s:%d" % (path.replace(os.sep, "-"), example.line)
                test = lit.Test.Test(testSuite, path_in_suite + (name,), localConfig)
                test.example = example
                yield test

    def print_ir(self, text, arguments, test):
        command = [self.attn_opt, "-", *arguments]
        done = subprocess.run(
            command,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=test.config.environment,
        )
        if done.returncode:
            raise ValueError(shlex.join(command) + "\n" + done.stderr + text)
        return done.stdout

    def execute(self, test, litConfig):
        example = test.example
        place = "%s:%d: in this example\n" % (example.path, example.line)
        try:
            self.print_ir(example.text, ["--verify-roundtrip"], test)
            arguments = example.arguments()
            if not arguments:
                return lit.Test.PASS, ""
            result = self.print_ir(example.text, arguments, test)
            if example.after:
                wanted = self.print_ir(example.after.text, [], test)
                if result != wanted:
                    diff = difflib.unified_diff(
                        wanted.splitlines(True),
                        result.splitlines(True),
                        "documented result",
                        shlex.join(arguments),
                    )
                    return lit.Test.FAIL, place + "".join(diff)
        except ValueError as error:
            return lit.Test.FAIL, place + str(error)
        return lit.Test.PASS, ""
