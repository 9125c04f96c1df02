#!/usr/bin/env python3
"""./dev new: what it writes of every kind, where its lines go, and that taking it back leaves nothing."""

import os
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import console, new  # noqa: E402

LISTS = sorted({line.path for kind in new.KINDS.values() for line in kind.lines} | {".clang-format"})


class InACopy(unittest.TestCase):
    """The lists of the sources, and nothing else of them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path in LISTS:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / path, self.root / path)
        for kind in new.KINDS.values():
            for place in kind.files.values():
                (self.root / place).parent.mkdir(parents=True, exist_ok=True)
        patched = mock.patch.object(new, "ROOT", self.root)
        patched.start()
        self.addCleanup(patched.stop)

    def all(self):
        return {str(path.relative_to(self.root)): path.read_text() for path in self.root.rglob("*") if path.is_file()}

    def places(self, kind, name):
        return {new.renamed(place, name) for place in new.KINDS[kind].files.values()}


class New(InACopy):
    def test_every_kind_has_its_files_lines_and_a_test_that_fails_with_a_sentence(self):
        for kind, name in ((kind, "an_odd_name") for kind in new.KINDS):
            before = self.all()
            said = new.make(kind, name)
            after = self.all()
            with self.subTest(kind=kind):
                self.assertEqual(set(after) - set(before), self.places(kind, name))
                for place in self.places(kind, name):
                    self.assertNotRegex(after[place], "NEW_NAME|NewName")
                self.assertRegex("".join(after[place] for place in self.places(kind, name) if "_test" in place),
                                 r'TEST\(AnOddName\w*, \w+\) \{\s+FAIL\(\) << "write me: ')
                for line in new.KINDS[kind].lines:
                    self.assertEqual(self.times(after[line.path], new.renamed(line.text, name)), 1, line)
                    self.assertEqual(self.times(before[line.path], new.renamed(line.text, name)), 0, line)
                self.assertTrue(any(line.startswith("left to do: ") for line in said), said)
                # A page lists it, and a test compares the two; of views the pictures are compared.
                self.assertRegex("\n".join(said), r"left to do: .*\./dev " + ("looks" if kind == "view" else "docs"))
            new.take_away(kind, name)

    @staticmethod
    def times(text, line):
        """Of a line, alone or beside others of its list."""
        return len(re.findall(rf"(?<!\w){re.escape(line.strip())}", text))

    def test_lines_of_ordered_lists_stand_in_order(self):
        for name in ("aaa", "mmm", "zzz"):
            new.make("check", name)
        registry = (self.root / "analysis/theory/registry.cpp").read_text()
        includes = re.findall(r'^#include "analysis/theory/(?!check|verdicts)(\w+)\.h"$', registry, re.MULTILINE)
        self.assertEqual(includes, sorted(includes))
        self.assertLess({"aaa", "mmm", "zzz"}, set(includes))

    def test_taking_it_back_leaves_all_as_it_was(self):
        for name in ("a", "zz_9"):
            for kind in new.KINDS:
                for tidy in (new.tidy, lambda _: None):
                    before = self.all()
                    with self.subTest(kind=kind, name=name), mock.patch.object(new, "tidy", tidy):
                        new.make(kind, name)
                        self.assertNotEqual(self.all(), before)
                        new.take_away(kind, name)
                        self.assertEqual(self.all(), before)

    def test_two_of_a_kind_are_taken_back_one_by_one(self):
        before = self.all()
        for kind in new.KINDS:
            new.make(kind, "demo")
            new.make(kind, "demo_more")
            new.take_away(kind, "demo")
            new.take_away(kind, "demo_more")
            self.assertEqual(self.all(), before, kind)

    def test_what_is_there_stays(self):
        new.make("check", "demo")
        before = self.all()
        with self.assertRaisesRegex(console.DevError, "demo.h is there already"):
            new.make("check", "demo")
        self.assertEqual(self.all(), before)

    def test_what_somebody_has_worked_on_stays(self):
        new.make("check", "demo")
        path = self.root / "analysis/theory/demo.cpp"
        path.write_text(path.read_text().replace("write me: what is stated", "all swans are white"))
        before = self.all()
        with self.assertRaisesRegex(console.DevError, "demo.cpp is no longer as it was made"):
            new.take_away("check", "demo")
        self.assertEqual(self.all(), before)

    def test_a_list_that_is_not_as_expected_is_named_and_nothing_is_written(self):
        (self.root / "analysis/CMakeLists.txt").write_text("empty\n")
        before = self.all()
        with self.assertRaisesRegex(console.DevError, "analysis/CMakeLists.txt has no line like"):
            new.make("check", "demo")
        self.assertEqual(self.all(), before)

    def test_names_that_are_none_are_refused(self):
        for name in ("", "Demo", "a-b", "_a", "a__b", "9a", "../x"):
            self.assertRaises(console.DevError, new.new, "check", name)


if __name__ == "__main__":
    unittest.main()
