#!/usr/bin/env python3
"""Every case of a GoogleTest program runs exactly once: where ctest runs a program in pieces, by filters or
by parts, the pieces together are all of it and share nothing. Programs that are not built are left out. Of a Python
test that ctest runs class by class no class is forgotten."""

import ast
import json
import os
import subprocess
import sys
import unittest
from collections import Counter, defaultdict
from pathlib import Path

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("PHASESCOPE_BUILD", SOURCE / "build/release"))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import paths  # noqa: E402

# A test with one of these repeats cases in another way; it is no piece.
REPEATS = ("PHASESCOPE_SIMD", "ATEN_CPU_CAPABILITY")
PATIENCE_S = 120


def tests_of_ctest():
    listing = subprocess.run([paths.CTEST, "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True,
                             text=True, check=True, timeout=PATIENCE_S).stdout
    return json.loads(listing)["tests"]


def classes_of(source):
    """Those of a Python test that have cases."""
    return {one.name for one in ast.parse(source).body if isinstance(one, ast.ClassDef)
            and any(isinstance(member, ast.FunctionDef) and member.name.startswith("test") for member in one.body)}


def forgotten_classes(commands, source_of):
    """["a_test.py: Class"] of classes that none of these commands runs."""
    named = defaultdict(set)
    for command in commands:
        for at, word in enumerate(command):
            if word.endswith("_test.py"):
                words = [one for one in command[at + 1:] if not one.startswith("-")]
                named[word].update(words or classes_of(source_of(word)))
    return [f"{Path(path).name}: {name}" for path, names in sorted(named.items())
            for name in sorted(classes_of(source_of(path)) - names)]


def tests_by_googletest():
    """[(program, its environment)] by ctest's own list."""
    found = []
    for test in tests_of_ctest():
        properties = {one["name"]: one["value"] for one in test["properties"]}
        if "GTEST_OUTPUT" in json.dumps(properties.get("ENVIRONMENT_MODIFICATION", "")):
            words = dict(word.split("=", 1) for word in properties.get("ENVIRONMENT", []))
            found.append((Path(test.get("command", ["-"])[0]), words))
    return found


def pieces():
    """{program: [the environment of each of its tests]}."""
    found = defaultdict(list)
    for program, words in tests_by_googletest():
        if program.exists() and not any(name in words for name in REPEATS):
            found[program].append(words)
    return found


def cases(program, only="*"):
    """The names that a filter leaves."""
    listing = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={only}"], capture_output=True,
                             text=True, check=True, timeout=PATIENCE_S).stdout
    suite, names = "", []
    for line in listing.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + word)
        elif word.endswith("."):
            suite = word
    return names


def times_run(program, environments):
    """How often each case runs. A part of a piece has its share of each: they must add up to one."""
    counts = Counter()
    by_filter = defaultdict(list)
    for words in environments:
        by_filter[words.get("GTEST_FILTER", "*")].append(words)
    for only, alike in by_filter.items():
        parts = Counter((words.get("GTEST_TOTAL_SHARDS", "1"), words.get("GTEST_SHARD_INDEX", "0")) for words in alike)
        total = int(next(iter(parts))[0])
        whole = parts == Counter({(str(total), str(index)): 1 for index in range(total)})
        counts.update({name: 1 if whole else 2 for name in cases(program, only)})
    return counts


class Scratch(unittest.TestCase):
    def test_every_test_has_a_folder_of_its_own_for_what_its_cases_name(self):
        """testing::TempDir() is /tmp without it, where two tests that run at once write one file."""
        folders = [words.get("TEST_TMPDIR", "/nowhere") for _, words in tests_by_googletest()]
        self.assertEqual([folder for folder in folders if not Path(folder).is_dir()], [])
        self.assertEqual(len(folders), len(set(folders)))


class Cases(unittest.TestCase):
    def test_every_case_runs_once(self):
        for program, environments in sorted(pieces().items()):
            with self.subTest(program=program.name):
                counts = times_run(program, environments)
                expected = set(cases(program))
                self.assertEqual(expected - set(counts), set(), "run by no test")
                self.assertEqual([name for name, count in counts.items() if count != 1], [], "run more than once")

    def test_every_class_of_a_python_test_runs(self):
        commands = [test.get("command", []) for test in tests_of_ctest()]
        self.assertEqual(forgotten_classes(commands, lambda path: Path(path).read_text(encoding="utf-8")), [])

    def test_a_class_that_is_forgotten_is_found(self):
        source = "class Base(X):\n  def setUp(self): pass\nclass A(Base):\n  def test_a(self): pass\n" \
                 "class B(Base):\n  def test_b(self): pass\n"
        self.assertEqual(forgotten_classes([["python", "-B", "/x/y_test.py", "A"]], lambda _: source), ["y_test.py: B"])
        self.assertEqual(forgotten_classes([["python", "/x/y_test.py", "A"], ["python", "/x/y_test.py"]],
                                           lambda _: source), [])

    def test_parts_that_miss_or_repeat_one_are_found(self):
        for program in list(pieces())[:1]:
            part = [{"GTEST_TOTAL_SHARDS": "2", "GTEST_SHARD_INDEX": index} for index in ("0", "1")]
            self.assertEqual(set(times_run(program, part).values()), {1})
            self.assertEqual(set(times_run(program, part[:1]).values()), {2})
            self.assertEqual(set(times_run(program, part + part[1:]).values()), {2})


if __name__ == "__main__":
    if not (BUILD / "CTestTestfile.cmake").exists() or not paths.CTEST.exists():
        print("skipped: no build folder")
        sys.exit(77)
    if not pieces():
        print("skipped: no test program is built")
        sys.exit(77)
    unittest.main()
