#!/usr/bin/env python3
"""docs/reliability.md: every row of bad input and faults has tests of its number, and the page names them.

`reliability_test.py --write` (./dev docs does it) names them anew; a row whose tests are others than before gets
the date of the day.
"""

import datetime
import os
import re
import sys
import unittest
from collections import defaultdict
from pathlib import Path

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
PAGE = SOURCE / "docs" / "reliability.md"
ROWS = 38
CASE = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)|^\s+def (test_\w+)\(", re.MULTILINE)
NUMBER = re.compile(r"[Rr]ow(\d+)(?:And(\d+))?(?!\d)")
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.*?) \| (.*?) \|$")


def tests_by_row():
    """{row: ["file: case", ...]} of all tests whose names carry a row's number."""
    found = defaultdict(list)
    for path in sorted((SOURCE / "tests").rglob("*_test.*")):
        if path.suffix not in (".cpp", ".py") or path == Path(__file__).resolve():
            continue
        for suite, case, method in CASE.findall(path.read_text(encoding="utf-8")):
            name = f"{suite}.{case}" if suite else method
            for number in {int(one) for one in sum(NUMBER.findall(name), ()) if one}:
                found[number].append(f"{path.stem}: {name}")
    return found


def rows_of(page):
    """{number: (input or fault, expected, tests, date)} of the page's table."""
    return {int(row[1]): row.groups()[1:] for row in map(ROW.match, page.splitlines()) if row}


def named(tests):
    by_file = defaultdict(list)
    for one in tests:
        file, name = one.split(": ")
        by_file[file].append(f"`{name}`")
    return "; ".join(f"{file}: {', '.join(names)}" for file, names in by_file.items())


def written(page, today):
    """The page with the tests that there are."""
    found = tests_by_row()

    def renewed(line):
        row = ROW.match(line)
        if not row:
            return line
        number, fault, expected, before, date = row.groups()
        tests = named(found[int(number)])
        return f"| {number} | {fault} | {expected} | {tests} | {date if tests == before and date else today} |"

    return "\n".join(map(renewed, page.splitlines())) + "\n"


class Page(unittest.TestCase):
    def test_every_row_has_tests_of_its_number(self):
        rows, found = rows_of(PAGE.read_text(encoding="utf-8")), tests_by_row()
        self.assertEqual(list(rows), list(range(1, ROWS + 1)))
        self.assertEqual([number for number in rows if not found[number]], [])
        self.assertEqual(sorted(set(found) - set(rows)), [], "tests of rows that there are not")

    def test_the_page_names_the_tests_that_there_are(self):
        page = PAGE.read_text(encoding="utf-8")
        self.assertEqual(written(page, "today"), page, "./dev docs writes docs/reliability.md")

    def test_numbers_are_read_from_names(self):
        self.assertEqual(NUMBER.findall("Row9And10_X test_row38_y Row2"), [("9", "10"), ("38", ""), ("2", "")])


if __name__ == "__main__":
    if "--write" in sys.argv:
        day = datetime.date.today().isoformat()
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), day), encoding="utf-8")
        sys.exit(0)
    unittest.main()
