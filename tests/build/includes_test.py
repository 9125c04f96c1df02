#!/usr/bin/env python3
"""No include is forgotten where a precompiled header hides that, or a neighbour that is compiled together
with the file (17.C17). The builds of ./dev read LibTorch's headers, and through them most of the standard library's,
before every file of model/, analysis/, training/, worker/ and their tests, and compile most folders' files in
groups; here the compiler goes over every file alone, headers too, and writes nothing.

A file that asks for all of <ATen/ATen.h>, and among the tests for GoogleTest's header too, itself or through a
header of ours, has what was precompiled anyway and is not looked at. All others take the two cores of a small
machine about ten minutes, so that is a long test (--all); without it, those that differ from the main branch, or
from the last commit. CI looks at one part in PARTS of the others too, which one follows from the commit: all of
them by and by.
"""

import concurrent.futures
import functools
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("PHASESCOPE_BUILD", SOURCE / "build/release"))
FOLDERS = ("formats", "protocol", "model", "analysis", "training", "worker", "widgets", "app")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
# What is precompiled (cmake/PhasescopePch.cmake), and what includes it whole; and what is besides for tests.
PRECOMPILED = re.compile(r"ATen/ATen\.h$|torch/(torch|all|extension|types)\.h$|torch/csrc/autograd/")
PRECOMPILED_FOR_TESTS = re.compile(r"gtest/gtest\.h$")
FILE_S = 300
# The others of a larger change have their turn in CI, or are looked at by the long test.
MOST_CHANGED = 12
# Of ten minutes one part in so many is about 20 s, which CI has.
PARTS = 32


def reaches(path, wanted, seen=None):
    """Whether a file reaches a header of such a name by includes of ours."""
    seen = set() if seen is None else seen
    if path in seen:
        return False
    seen.add(path)
    for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
        if wanted.match(name):
            return True
        inner = next((place / name for place in (SOURCE, path.parent) if (place / name).is_file()), None)
        if inner and reaches(inner, wanted, seen):
            return True
    return False


def includes_precompiled(path):
    """Whether a file asks for all that is precompiled for files of its folder."""
    is_test = path.is_relative_to(SOURCE / "tests")
    return reaches(path, PRECOMPILED) and (not is_test or reaches(path, PRECOMPILED_FOR_TESTS))


def commands():
    """{source file: its words for the compiler, which writes nothing}, without the precompiled header."""
    entries = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    return {source: without_precompiled(shlex.split(entry["command"]))
            for entry in entries for source in sources_of(Path(entry["file"]))}


def sources_of(path):
    """The file, or those of ours that are compiled together as it."""
    if path.parent.name != "Unity":
        return [path]
    return [Path(name) for name in INCLUDE.findall(path.read_text(encoding="utf-8"))]


def without_precompiled(words):
    kept = []
    words = iter(words[1:] if words[0].endswith("ccache") else words)
    for word in words:
        if word in ("-o", "-c", "-include"):
            next(words)
        elif not re.match(r"-(O|W|g|fpch)", word):
            kept.append(word)
    return [*kept, "-w", "-fsyntax-only", "-xc++", "-"]


@functools.cache
def looked_at():
    """The files of ours that what is precompiled could hide something of."""
    files = []
    for folder in FOLDERS:
        for root in (SOURCE / folder, SOURCE / "tests" / folder):
            files += [path for path in sorted(root.rglob("*")) if path.suffix in (".h", ".cpp")]
    return [path for path in files if not includes_precompiled(path)]


def git(*words):
    done = subprocess.run(["git", "-C", SOURCE, *words], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.split() if done.returncode == 0 else []


def changed():
    """Files that differ from the main branch or, on it, from the commit before; none without git."""
    head = git("rev-parse", "HEAD")
    bases = [git("merge-base", "HEAD", branch) for branch in ("origin/main", "main")]
    base = next((found for found in bases if found and found != head), git("rev-parse", "HEAD~1"))
    names = git("diff", "--name-only", *base) + git("ls-files", "--others", "--exclude-standard") if base else []
    return {SOURCE / name for name in names}


def part_of(name):
    """The part that a file belongs to, whatever other files there are."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % PARTS


def in_turn(files, commit):
    """The part of some files whose turn it is at a commit."""
    turn = int(commit[:8], 16) % PARTS
    return [path for path in files if part_of(str(path.relative_to(SOURCE))) == turn]


def in_ci():
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def words_for(path, known):
    """Those of the file itself; for a header those of a file that includes it (two targets of a folder may see
    other libraries), or else of a neighbour. None where nothing there is built."""
    if path in known:
        return known[path]
    folder = path.relative_to(SOURCE).parts[:2 if path.is_relative_to(SOURCE / "tests") else 1]
    neighbours = sorted(other for other in known if other.is_relative_to(SOURCE.joinpath(*folder)))
    name = str(path.relative_to(SOURCE))
    users = (other for other in neighbours if name in INCLUDE.findall(other.read_text(encoding="utf-8")))
    found = next(users, neighbours[0] if neighbours else None)
    return known[found] if found else None


def fault(text, words):
    """The compiler's first words on a text that lacks an include; empty where it lacks none."""
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False, timeout=FILE_S, cwd=SOURCE)
    return "" if done.returncode == 0 else done.stderr[:600]


class Includes(unittest.TestCase):
    def test_a_forgotten_include_is_found(self):
        words = words_for(SOURCE / "model" / "x.h", commands())
        self.assertEqual(fault("#include <vector>\nstd::vector<int> f();", words), "")
        self.assertIn("vector", fault("std::vector<int> f();", words))

    def test_a_header_has_the_words_of_who_includes_it(self):
        known, header = commands(), SOURCE / "tests/app/window_scenario.h"
        words = words_for(header, known)
        self.assertEqual(words, known[SOURCE / "tests/app/window_first_hour_test.cpp"])
        self.assertEqual(fault(f'#include "{header}"\n', words), "")

    def test_every_file_has_its_turn(self):
        files = looked_at()
        turns = [in_turn(files, f"{turn:08x}") for turn in range(PARTS)]
        self.assertEqual(sorted(sum(turns, [])), sorted(files))
        self.assertLess(max(len(turn) for turn in turns), 2 * len(files) / PARTS)

    def test_no_include_is_forgotten(self):
        known, files = commands(), looked_at()
        self.assertGreater(len(files), 200)
        if not ALL:
            new, head = changed(), git("rev-parse", "HEAD")
            turn = in_turn(files, *head) if in_ci() and head else []
            files = list(dict.fromkeys([path for path in files if path in new][:MOST_CHANGED] + turn))
        texts = [(f'#include "{path}"\n', words_for(path, known)) for path in files]
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            faults = list(pool.map(lambda case: fault(*case) if case[1] else "", texts))
        print(f"{len(files)} files", file=sys.stderr)
        self.assertFalse([fault for fault in faults if fault], "\n".join(faults))


ALL = "--all" in sys.argv
if __name__ == "__main__":
    if not (BUILD / "compile_commands.json").exists() or "model/" not in (
            BUILD / "compile_commands.json").read_text(encoding="utf-8"):
        print("skipped: no build folder with LibTorch")
        sys.exit(77)
    sys.argv = [word for word in sys.argv if word != "--all"]
    unittest.main()
