"""Runs the cases of a Python test and names each that is skipped, with its reason, for the last lines of `./dev test`.
Where none of them ran, the test as a whole is skipped."""

import sys
import unittest

SKIPPED = 77  # the status that ctest is told of
MARK = "skipped case "


def run(**options):
    """Instead of unittest.main(): does not return."""
    result = unittest.main(exit=False, **options).result
    for case, reason in result.skipped:
        print(f"{MARK}{case.id().removeprefix('__main__.')}: {reason}", flush=True)
    if result.wasSuccessful() and result.testsRun == len(result.skipped) > 0:
        print("skipped: " + result.skipped[0][1], flush=True)
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
