"""Building and running the tests, and counting what ran."""

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from . import build, machine
from .console import say
from .paths import CTEST

ASAN_TESTS = "^(formats|protocol|fuzz)"
TIMEOUT_S = 900


class Counts:
    """Passed, failed and skipped cases."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, outcome, number=1):
        setattr(self, outcome, getattr(self, outcome) + number)

    def line(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def left_out(quick, long):
    """The labels that a run leaves out."""
    labels = ["gpu"] if long else ["gpu", "long"]
    return labels + ["slow"] if quick else labels


def test(quick=False, long=False, werror=False, extra=()):
    """Builds everything and runs the tests; the number of failures decides the exit status."""
    counts = Counts()
    folder = build.build("release", werror=werror)
    select = ["-LE", "^(" + "|".join(left_out(quick, long)) + ")$"]
    good = run_ctest(folder, select + list(extra), counts, CTEST)
    if not quick and not extra:
        folder = build.build("asan", werror=werror)
        good = run_ctest(folder, select + ["-R", ASAN_TESTS], counts, CTEST) and good
    say("tests finished")
    print(counts.line(), file=sys.stderr, flush=True)
    return 0 if good and counts.failed == 0 else 1


def run_ctest(folder, arguments, counts, ctest, env=None):
    """Runs ctest in a build folder, adds its cases to counts, and says whether it was content."""
    results = folder / "test-results"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    report = results / "ctest-report.xml"
    say(f"testing {folder.name}")
    command = [ctest, "--test-dir", folder, "--output-on-failure", "--timeout", str(TIMEOUT_S),
               "--no-tests=ignore", "--output-junit", report, f"-j{machine.cores()}",
               *arguments]
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=sys.stderr.fileno(), env=env or build.environment())
    if report.exists():
        count_report(report, results, counts)
    return done.returncode == 0


def count_report(report, results, counts):
    """Counts ctest's tests, and for a GoogleTest program the cases in the file it wrote."""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        outcome = {"run": "passed", "fail": "failed"}.get(case.get("status"), "skipped")
        cases = results / (case.get("name") + ".xml")
        if not count_cases(cases, counts, must_fail=outcome == "failed"):
            counts.add(outcome)


def count_cases(path, counts, must_fail):
    """Adds a GoogleTest file's cases; False if there is none or the program died before writing it.

    A program that failed without a failed case (a crash at exit, a sanitizer's report) counts one.
    """
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return False
    failures = 0
    for case in cases:
        if case.find("failure") is not None:
            counts.add("failed")
            failures += 1
        elif case.get("result") == "skipped" or case.get("status") == "notrun":
            counts.add("skipped")
        else:
            counts.add("passed")
    if must_fail and failures == 0:
        counts.add("failed")
    return bool(cases) or must_fail
