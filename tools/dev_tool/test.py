"""Building and running the tests, and counting what ran."""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from . import build, debian, machine
from .console import say
from .paths import CTEST

# What the sanitizers' builds run: of `asan` what they compile quickly, of the others, under --long, the rest. What
# is long without them is left out (kernels_scalar and the like, pictures): they take ten times as long.
ASAN_TESTS = "^(formats|protocol|tasks|worker_core|training_core|fuzz)"
ASAN_ALL_TESTS = "formats(_slow)?|protocol|tasks|worker_core|training_core|kernels|kernels_threads|widgets|app|window"
TSAN_TESTS = "^(protocol|worker_core|training_core|kernels_threads|window_threads)$"
FUZZERS = "phasescope_fuzzers"
TIMEOUT_S = 900
# Of what a test that passed has said: a Python test names the cases that it skipped at its end (tests/python_cases.py).
KEPT_BYTES = 1 << 20
SKIPPED_CASE = re.compile(r"^skipped case (\S+): (.*)$", re.MULTILINE)


# Skipped for what the tested thing is, a known gap, not for what is missing here.
GAPS = ("has no fused form", "answers are texts", "samples are of the user's own files", "draws its positions",
        "its normaliser reads", "reads q too", "its family cannot be read", "is noise in float32", "has no ranges of keys",
        "its pairs go through a network")


class Counts:
    """Passed, failed and skipped cases, and which families of them (suites, tests that are no GoogleTest
    program) ran nothing for want of something here."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self._families = {}  # name -> [cases that ran or are known gaps, {reason of one that is skipped: its name}]

    def add(self, outcome, family, reason="", name=""):
        setattr(self, outcome, getattr(self, outcome) + 1)
        ran, lacking = self._families.setdefault(family, [0, {}])
        if outcome == "skipped" and not any(gap in reason for gap in GAPS):
            lacking.setdefault(reason or "it did not say why", name or family)
        else:
            self._families[family][0] = ran + 1

    def line(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def lacking(self):
        """A line for each reason for which cases were skipped here, with the first of each family by name."""
        named = {}
        for _, reasons in self._families.values():
            for reason, name in reasons.items():
                named.setdefault(reason, []).append(name)
        return [f"skipped, {reason}: {', '.join(names)}" for reason, names in named.items()]

    def empty_families(self):
        """Families of which nothing ran, each for want of something."""
        return sorted(name for name, (ran, reasons) in self._families.items() if ran == 0 and reasons)


def left_out(quick, long):
    """The labels that a run leaves out."""
    labels = ["gpu"] if long else ["gpu", "long"]
    return labels + ["slow"] if quick else labels


def test(quick=False, long=False, werror=False, extra=()):
    """Builds everything and runs the tests; the number of failures decides the exit status."""
    counts = Counts()
    if long:
        os.environ[debian.SERVERS] = "1"
    folder = build.build("release", werror=werror, anywhere=long)
    select = ["-LE", "^(" + "|".join(left_out(quick, long)) + ")$"]
    good = run_ctest(folder, select + list(extra), counts, CTEST)
    if not quick and not extra:
        good = (long_sanitizers if long else quick_sanitizers)(select, counts, werror) and good
    say("tests finished")
    return 0 if told(counts) and good else 1


def quick_sanitizers(select, counts, werror):
    return run_ctest(build.build("asan", werror=werror), select + ["-R", ASAN_TESTS], counts, CTEST)


def long_sanitizers(select, counts, werror):
    """Kernels and window too, races, and the fuzz targets by libFuzzer where there is clang."""
    libfuzzer = bool(shutil.which("clang++"))
    folder = build.build("asan-all", werror=werror)
    # Clang before 16 cannot compile the window (it lacks parts of C++20), so sessions are fuzzed here.
    here = "fuzz_.*_3s|fuzz_session_60s|window_threads" if libfuzzer else "fuzz_.*|window_threads"
    good = run_ctest(folder, [*select, "-R", f"^({ASAN_ALL_TESTS}|{here})$"], counts, CTEST)
    # A race in a worker that a test has started fails that test by ending the worker: its report alone is read by nobody.
    races = {**build.environment(), "TSAN_OPTIONS": "halt_on_error=1"}
    good = run_ctest(build.build("tsan", werror=werror), select + ["-R", TSAN_TESTS], counts, CTEST, races) and good
    if libfuzzer:
        seeds = {"PHASESCOPE_FUZZ_CASES": str(folder / "fuzz-cases")}
        fuzz = build.build("fuzz", [FUZZERS], werror=werror)
        # The tests that keep the seeds have run above, in the other build.
        good = run_ctest(fuzz, ["-R", r"^fuzz_.*_60s$", "-FA", "fuzz_cases"], counts, CTEST,
                         {**build.environment(), **seeds}) and good
    return good


def told(counts):
    """Says what ran and what was skipped, and whether that is well: in CI every family runs."""
    empty = counts.empty_families()
    in_ci = bool(os.environ.get("CI"))
    lines = counts.lacking() + ([f"nothing ran of {', '.join(empty)}" + (", and CI runs all" if in_ci else "")]
                                if empty else [])
    for line in [*lines, counts.line()]:
        print(line, file=sys.stderr, flush=True)
    return counts.failed == 0 and not (in_ci and empty)


def run_ctest(folder, arguments, counts, ctest, env=None):
    """Runs ctest in a build folder, adds its cases to counts, and says whether it was content.

    Two more tests run at once than there are cores: many wait for other processes, for locks and for clocks.
    """
    results = folder / "test-results"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    report = results / "ctest-report.xml"
    say(f"testing {folder.name}")
    command = [ctest, "--test-dir", folder, "--output-on-failure", "--timeout", str(TIMEOUT_S),
               "--no-tests=ignore", "--output-junit", report, f"-j{machine.cores() + 2}",
               "--test-output-size-passed", str(KEPT_BYTES),
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
        name = case.get("name")
        if not count_cases(results / (name + ".xml"), counts, must_fail=outcome == "failed"):
            said = case.findtext("system-out") or ""
            whole = [line for line in said.splitlines() if line.startswith("skipped: ")]
            counts.add(outcome, name, whole[-1].removeprefix("skipped: ") if whole else "")
            if outcome == "passed":
                for one, reason in SKIPPED_CASE.findall(said):
                    counts.add("skipped", name, reason, f"{name}, {one}")


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
        family = case.get("classname")  # whichever part of a program runs it
        if case.find("failure") is not None:
            counts.add("failed", family)
            failures += 1
        elif case.get("result") == "skipped" or case.get("status") == "notrun":
            counts.add("skipped", family, why_skipped(case), f"{case.get('classname')}.{case.get('name')}")
        else:
            counts.add("passed", family)
    if must_fail and failures == 0:
        counts.add("failed", path.stem)
    return bool(cases) or must_fail


def why_skipped(case):
    """What GTEST_SKIP() was given: the message has its place in a line before."""
    skipped = case.find("skipped")
    message = (skipped.get("message") or "") if skipped is not None else ""
    return " ".join(message.split("\n", 1)[-1].split())
