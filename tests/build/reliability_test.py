#!/usr/bin/env python3
"""docs/reliability.md: every row of bad input and faults, and every risk of jobs, has tests of its number, and
the page names them.

`reliability_test.py --write` (./dev docs does it) names them anew; a row whose tests are others than before gets
the date of the day. Below stand the guards that `./dev guards` has taken out, and which tests failed then.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from collections import defaultdict
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
PAGE = SOURCE / "docs" / "reliability.md"
GUARDS = SOURCE / "tests" / "guards.json"
ROWS, RISKS = 38, 22
# Of the page's second list: from the line behind the first of these to the second one.
BEGIN, END = "<!-- written by ./dev guards and ./dev docs -->", "<!-- end of the guards -->"
CASE = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)|^\s+def (test_\w+)\(", re.MULTILINE)
NUMBER = re.compile(r"([Rr]ow|[Rr]isk)(\d+)(?:And(\d+))?(?!\d)")
PROGRAM = re.compile(r"phasescope_test\(\s*(\w+)([^)]*)\)")
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


def files_of_programs():
    """{"formats_test": {"json_test", ...}}: the files of each GoogleTest program, as CMake's lists name them."""
    found = defaultdict(set)
    for path in (SOURCE / "tests").rglob("CMakeLists.txt"):
        for name, words in PROGRAM.findall(path.read_text(encoding="utf-8")):
            found[name + "_test"].update(Path(word).stem for word in words.split() if word.endswith("_test.cpp"))
    return found


def rows_of(page):
    """{number: (input or fault, expected, tests, date)} of the page's table."""
    return {row[1]: row.groups()[1:] for row in map(ROW.match, page.splitlines()) if row}


def tool():
    sys.path.insert(0, str(SOURCE / "tools"))
    from dev_tool import guards as found
    return found


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

    before, rest = "\n".join(map(renewed, page.splitlines())).split(BEGIN)
    return before + BEGIN + "\n" + table_of(guards()) + END + rest.split(END)[1] + "\n"


def guards():
    return json.loads(GUARDS.read_text(encoding="utf-8"))


def table_of(taken_out):
    lines = ["| row | taken out | of | what failed | date |", "|---|---|---|---|---|"]
    for guard in sorted(taken_out, key=lambda one: one["row"]):
        failed = ", ".join(f"`{name}`" for name in guard.get("failed", []))
        lines.append(f"| row {guard['row']} | {guard['guard']} | `{guard['file']}` | {failed} | {guard.get('seen', '')} |")
    return "\n".join(lines) + "\n"


class Page(unittest.TestCase):
    def test_every_row_has_tests_of_its_number(self):
        rows, found = rows_of(PAGE.read_text(encoding="utf-8")), tests_by_row()
        self.assertEqual(list(rows), [str(n + 1) for n in range(ROWS)] + [f"R{n + 1}" for n in range(RISKS)])
        self.assertEqual([number for number in rows if not found[number]], [])
        self.assertEqual(sorted(set(found) - set(rows)), [], "tests of rows that there are not")

    def test_the_page_names_the_tests_that_there_are(self):
        page = PAGE.read_text(encoding="utf-8")
        self.assertEqual(written(page, "today"), page, "./dev docs writes docs/reliability.md")

    def test_every_row_has_a_guard(self):
        self.assertEqual(sorted(set(range(1, ROWS + 1)) - {guard["row"] for guard in guards()}), [])
        for guard in guards():
            self.assertEqual("seen" in guard, bool(guard.get("failed")), guard)

    def test_every_guard_has_cases_in_its_program(self):
        files, cases = files_of_programs(), tests_by_row()
        without = [tool().name_of(guard) for guard in guards()
                   if not any(one.split(": ")[0] in files[guard["program"]] for one in cases[str(guard["row"])])]
        self.assertEqual(without, [], "no case of their row is in their program, so that none can fail")

    def test_long_cases_are_not_waited_for(self):
        cases = tool().cases_of(24)
        self.assertIn("JobProcess.Row24DamagedFilesAreNoObstacleToAResume", cases)
        self.assertEqual([name for name in cases if "Long" in name], [])

    def test_guards_can_still_be_taken_out(self):
        wrong = tool().faults(guards(), lambda name: (SOURCE / name).read_text(encoding="utf-8"))
        self.assertEqual(wrong, [], "their lines have changed: change tests/guards.json, and ./dev guards --only ROW")

    def test_what_failed_without_a_guard_is_still_there(self):
        cases = {one.split(": ")[1] for tests in tests_by_row().values() for one in tests}
        gone = [name for guard in guards() for name in guard.get("failed", []) if name not in cases]
        self.assertEqual(gone, [])

    def test_a_guard_that_is_gone_or_twice_is_told(self):
        guard = {"row": 3, "guard": "gaps", "file": "a.cpp", "before": "if (gap)"}
        self.assertEqual(tool().faults([guard], lambda _: "if (gap) throw"), [])
        self.assertEqual(tool().faults([guard], lambda _: "if (gap) if (gap)"),
                         ["row 3, gaps: a.cpp has its line 2 times, not once"])
        self.assertEqual(tool().faults([guard, guard], lambda _: "if (gap)"), ["row 3, gaps is there twice"])

    def test_guards_that_were_seen_are_left_out(self):
        listed = [{"row": 1, "guard": "a", "seen": "2026-01-01"}, {"row": 1, "guard": "b"}, {"row": 2, "guard": "c"}]
        self.assertEqual(tool().asked_for(listed, [], again=False), listed[1:])
        self.assertEqual(tool().asked_for(listed, [1], again=False), [listed[1]])
        self.assertEqual(tool().asked_for(listed, [1], again=True), listed[:2])

    def test_a_guard_is_taken_out_of_a_copy_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            tree, copy = Path(folder) / "tree", Path(folder) / "copy"
            (tree / "a").mkdir(parents=True)
            for name, words in (("a/b.cpp", "if (gap) throw;"), ("c.cpp", "c")):
                (tree / name).write_text(words)
            names = {"a/b.cpp", "c.cpp"}
            tool().copy_sources(tree, copy, names, times=True)
            self.assertEqual((copy / "a/b.cpp").stat().st_mtime, (tree / "a/b.cpp").stat().st_mtime)
            guard = {"row": 3, "guard": "gaps", "file": "a/b.cpp", "before": "if (gap)", "after": "if (false)"}
            with self.assertRaises(KeyboardInterrupt), tool().without(guard, copy):
                self.assertEqual((copy / "a/b.cpp").read_text(), "if (false) throw;")
                self.assertEqual((tree / "a/b.cpp").read_text(), "if (gap) throw;")
                raise KeyboardInterrupt
            self.assertEqual((copy / "a/b.cpp").read_text(), "if (gap) throw;")
            # Killed in between: the next run begins with what the tree has by then, and builds what changed.
            (copy / "a/b.cpp").write_text("if (false) throw;")
            (copy / "gone.cpp").touch()
            (copy / "build").mkdir()
            (copy / "build/object.o").touch()
            os.utime(tree / "a/b.cpp", (0, 0))
            tool().copy_sources(tree, copy, names)
            self.assertEqual((copy / "a/b.cpp").read_text(), "if (gap) throw;")
            self.assertGreater((copy / "a/b.cpp").stat().st_mtime, (copy / "c.cpp").stat().st_mtime - 1)
            self.assertEqual(sorted(path.name for path in copy.rglob("*") if path.is_file()),
                             ["b.cpp", "c.cpp", "object.o"])

    def test_a_copy_in_the_place_of_the_tree_is_so_for_one_command(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(tool(), "COPY", Path(folder)):
            tool().lend(True)
            if not tool().can_stand_in_place.__wrapped__():
                self.skipTest("mount namespaces are not allowed here")
            (Path(folder) / "mark-of-a-test").touch()
            shown = tool().in_its_place(["sh", "-c", "test -e mark-of-a-test && test ! -e dev"])
            self.assertEqual(subprocess.run(shown, check=False).returncode, 0)
            self.assertFalse((tool().ROOT / "mark-of-a-test").exists())

    def test_what_fails_with_its_guard_tells_of_none(self):
        guard = {"row": 3, "guard": "gaps", "file": "a.cpp", "program": "formats_test"}
        self.assertEqual(list(tool().told(guard, {("formats_test", 3): ["A.Row3_x"]})),
                         ["row 3, gaps: A.Row3_x of formats_test fails with it, too"])

    def test_what_dies_has_failed_too(self):
        said = ("[ RUN      ] A.Row1_x\n[       OK ] A.Row1_x (0 ms)\n[ RUN      ] A.Row1_y\nno\n"
                "[  FAILED  ] A.Row1_y (1 ms)\n[ RUN      ] B.Row1_z\n")
        self.assertEqual(tool().failed_in(said), ["A.Row1_y", "B.Row1_z"])

    def test_numbers_are_read_from_names(self):
        self.assertEqual(numbers_in("Row9And10_X test_row38_y Row2_Risk7 test_risk17_z"),
                         {"9", "10", "38", "2", "R7", "R17"})


if __name__ == "__main__":
    if "--write" in sys.argv:
        day = datetime.date.today().isoformat()
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), day), encoding="utf-8")
        sys.exit(0)
    python_cases.run()
