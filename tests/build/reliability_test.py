#!/usr/bin/env python3
"""docs/reliability.md: every row of bad input and faults, and every risk of jobs, has tests of its number, and
the page names them.

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
ROWS, RISKS = 38, 22
CASE = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)|^\s+def (test_\w+)\(", re.MULTILINE)
NUMBER = re.compile(r"([Rr]ow|[Rr]isk)(\d+)(?:And(\d+))?(?!\d)")
ROW = re.compile(r"^\| (R?\d+) \| (.+?) \| (.+?) \|(.*?)\|(.*?)\|$")


def numbers_in(name):
    """Of a test's name: "12" for row 12, "R12" for risk 12."""
    return {("R" if kind in ("Risk", "risk") else "") + number
            for kind, *numbers in NUMBER.findall(name) for number in numbers if number}


def tests_by_row():
    """{row: ["file: case", ...]} of all tests whose names carry a row's number."""
    found = defaultdict(list)
    for path in sorted((SOURCE / "tests").rglob("*_test.*")):
        if path.suffix not in (".cpp", ".py") or path == Path(__file__).resolve():
            continue
        for suite, case, method in CASE.findall(path.read_text(encoding="utf-8")):
            name = f"{suite}.{case}" if suite else method
            for number in numbers_in(name):
                found[number].append(f"{path.stem}: {name}")
    return found


def rows_of(page):
    """{number: (input or fault, expected, tests, date)} of the page's table."""
    return {row[1]: row.groups()[1:] for row in map(ROW.match, page.splitlines()) if row}


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
        number, fault, expected, before, date = (group.strip() for group in row.groups())
        tests = named(found[number])
        return f"| {number} | {fault} | {expected} | {tests} | {date if tests == before and date else today} |"

    return "\n".join(map(renewed, page.splitlines())) + "\n"


class Page(unittest.TestCase):
    def test_every_row_has_tests_of_its_number(self):
        rows, found = rows_of(PAGE.read_text(encoding="utf-8")), tests_by_row()
        self.assertEqual(list(rows), [str(n + 1) for n in range(ROWS)] + [f"R{n + 1}" for n in range(RISKS)])
        self.assertEqual([number for number in rows if not found[number]], [])
        self.assertEqual(sorted(set(found) - set(rows)), [], "tests of rows that there are not")

    def test_the_page_names_the_tests_that_there_are(self):
        page = PAGE.read_text(encoding="utf-8")
        self.assertEqual(written(page, "today"), page, "./dev docs writes docs/reliability.md")

    def test_numbers_are_read_from_names(self):
        self.assertEqual(numbers_in("Row9And10_X test_row38_y Row2_Risk7 test_risk17_z"),
                         {"9", "10", "38", "2", "R7", "R17"})


if __name__ == "__main__":
    if "--write" in sys.argv:
        day = datetime.date.today().isoformat()
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), day), encoding="utf-8")
        sys.exit(0)
    unittest.main()
