#!/usr/bin/env python3
"""Requests (17.B12): what is said of an option is said once, no handler reads a parameter by its name, the option
that CONTRIBUTING.md adds touches two files, which are as it shows them, and an analysis ten (17.B14)."""

import os
import re
import unittest
from collections import Counter
from pathlib import Path

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
HELP = re.compile(r'\.help\s*=\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')
# How a parameter would be read without its request's list of fields.
BY_HAND = re.compile(r'\bparams(?:\.(?:at|value|contains|find)\(|\[)\s*"(\w+)"')
FOLDERS = ("analysis", "app", "formats", "kernels", "model", "protocol", "tasks", "training", "widgets", "worker")
# The methods of the tests' worker, which break it on request, have no struct.
OF_TESTS = {"how", "status", "seconds"}


def helps(text):
    """What is said of each field, its pieces put together."""
    return ["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', words)) for words in HELP.findall(text)]


def hunks(diff):
    """[(file, [line])] of a diff without line numbers, whose parts of a file are separated by "..."."""
    found, path = [], None
    for line in diff.splitlines():
        if line.startswith("+++ "):
            path = line[4:]
            found.append((path, []))
        elif line == "...":
            found.append((path, []))
        else:
            found[-1][1].append(line)
    return found


class Requests(unittest.TestCase):
    def test_what_is_said_of_an_option_is_said_once(self):
        said = Counter()
        for path in [*(SOURCE / "protocol/messages").glob("*.h"), SOURCE / "app/report/report.h"]:
            said.update(helps(path.read_text(encoding="utf-8")))
        self.assertGreater(len(said), 150)
        self.assertEqual([words for words, times in said.items() if times > 1], [])

    def test_no_handler_reads_a_parameter_by_its_name(self):
        names = set()
        for folder in ("worker", "training", "analysis"):
            for path in (SOURCE / folder).rglob("*.cpp"):
                names.update(BY_HAND.findall(path.read_text(encoding="utf-8")))
        self.assertEqual(names, OF_TESTS)

    def test_the_option_of_the_recipe_touches_two_files_that_are_as_it_shows_them(self):
        recipe = (SOURCE / "CONTRIBUTING.md").read_text(encoding="utf-8").split("**An option**")[1]
        parts = hunks(re.search(r"```diff\n(.*?)```", recipe, re.DOTALL).group(1))
        self.assertEqual(len({path for path, _ in parts}), 2)
        for path, lines in parts:
            before = "\n".join(line[1:] for line in lines if not line.startswith("+")) + "\n"
            after = "\n".join(line[1:] for line in lines) + "\n"
            text = (SOURCE / path).read_text(encoding="utf-8")
            with self.subTest(path=path, lines=lines):
                self.assertNotEqual(before, after)
                self.assertEqual(text.count("\n" + before), 1)

    def test_an_analysis_touches_ten_files_and_a_view_on_it_three_more(self):
        own = re.compile(r"\bQuery(Request|Result|View)\b|\bquery_(rows|verb|figures|view)\b|\b(messages|verbs)/query\.")
        touched = {str(path.relative_to(SOURCE)) for folder in FOLDERS for path in (SOURCE / folder).rglob("*")
                   if path.suffix in (".h", ".cpp", ".txt") and own.search(path.read_text(encoding="utf-8"))}
        of_its_view = {"app/views/query_view.h", "app/views/query_view.cpp", "app/views/views.cpp"}
        self.assertLessEqual(of_its_view, touched)
        self.assertEqual(touched - of_its_view, {
            "protocol/messages/query.h", "analysis/query_rows.h", "analysis/query_rows.cpp", "analysis/CMakeLists.txt",
            "worker/handle_analysis.cpp", "app/verbs/query.cpp", "app/verbs/factories.h", "app/CMakeLists.txt",
            "app/figures/query_figures.h", "app/figures/query_figures.cpp"})


if __name__ == "__main__":
    unittest.main()
