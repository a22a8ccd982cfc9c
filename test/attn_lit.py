"""Test formats of the suite. A module of its own: lit pickles them."""

import os

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
