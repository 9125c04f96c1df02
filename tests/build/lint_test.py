#!/usr/bin/env python3
"""What ./dev lint says of the sources as they are, and that it finds what is wrong."""

import importlib.util
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import lint, paths, tidy  # noqa: E402

HAS_CODESPELL = (paths.SITE / "codespell_lib").is_dir() or importlib.util.find_spec("codespell_lib")


class Sources(unittest.TestCase):
    """As ./dev lint, without the layers, which are a test of their own."""

    @unittest.skipUnless(paths.CLANG_FORMAT.exists(), "clang-format is not there")
    def test_they_are_formatted(self):
        self.assertEqual(lint.formatting(), "")

    @unittest.skipUnless(HAS_CODESPELL, "codespell is not there")
    def test_they_are_spelt_right(self):
        self.assertEqual(lint.spelling(), "")

    def test_subjects_of_new_commits_are_as_the_others(self):
        self.assertEqual(lint.commits(), "")


class Faults(unittest.TestCase):
    @unittest.skipUnless(HAS_CODESPELL, "codespell is not there")
    def test_a_misspelt_word_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            page.write_text("This is " + "rec" + "ieved.\n")
            self.assertIn("rec" + "ieved", lint.spelling([str(page)]))
            page.write_text("This is received.\n")
            self.assertEqual(lint.spelling([str(page)]), "")

    @unittest.skipIf(tidy.missing(), "no clang-tidy, or nothing was built")
    def test_clang_tidy_finds_what_is_used_after_it_was_moved(self):
        with tempfile.TemporaryDirectory(dir=paths.ROOT) as folder, mock.patch.object(tidy, "OF_EACH", Path(folder)):
            source = Path(folder) / "x.cpp"
            (Path(folder) / "compile_commands.json").write_text(json.dumps([{
                "directory": folder, "file": str(source), "arguments": ["clang++", "-std=c++20", "-c", str(source)]}]))
            for wrong in (False, True):
                source.write_text("#include <string>\n#include <utility>\nstd::string f(std::string a) {\n"
                                  "  std::string b = std::move(a);\n" + f"  return b + {'a' if wrong else 'b'};\n}}\n")
                self.assertEqual(["use-after-move" in line for line in tidy.found_in(str(source))], [True] * wrong)

    def test_words_for_clang_are_those_of_the_build_without_gccs_own(self):
        words = tidy.plain_words("ccache g++ -I. -DX=1 -Wall -Winvalid-pch -include a/cmake_pch.hxx -std=gnu++20 -MD "
                                 "-MT x.o -MF x.d -o x.o -c /a/x.cpp".split())
        self.assertEqual(words, ["clang++", "-I.", "-DX=1", "-std=gnu++20"])

    def test_subjects(self):
        for good in ("Take the looks of all views for right", "Keep one checksum: of the file"):
            self.assertEqual(lint.wrong_subject(good), "")
        for wrong in ("fix", "fix: a thing", "Fixed", "Mend it.", "mend it", "Mend " + "x" * 70):
            self.assertIn(wrong, lint.wrong_subject(wrong))


if __name__ == "__main__":
    python_cases.run()
