"""Runs the cases of a Python test and names each that is skipped, with its reason, for the last lines of `./dev test`.
Where none of them ran, the test as a whole is skipped."""

import os
import subprocess
import sys
import unittest

SKIPPED = 77  # the status that ctest is told of
MARK = "skipped case "
DEBIAN = "/usr/bin/python3"  # the Python that Debian's packages of modules belong to


def need_numpy():
    """Where this Python has no numpy and Debian's own has, that goes on with the test, from its beginning; where
    neither has, the test is skipped."""
    try:
        import numpy  # noqa: F401
        return
    except ImportError:
        pass
    if sys.executable != DEBIAN and subprocess.run([DEBIAN, "-c", "import numpy"], capture_output=True,
                                                   check=False).returncode == 0:
        os.execv(DEBIAN, [DEBIAN, "-B", *sys.argv])
    print("skipped: numpy (Debian's python3-numpy) is not installed")
    sys.exit(SKIPPED)


def run(**options):
    """Instead of unittest.main(): does not return."""
    result = unittest.main(exit=False, **options).result
    for case, reason in result.skipped:
        print(f"{MARK}{case.id().removeprefix('__main__.')}: {reason}", flush=True)
    if result.wasSuccessful() and result.testsRun == len(result.skipped) > 0:
        print("skipped: " + result.skipped[0][1], flush=True)
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
