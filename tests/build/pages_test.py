#!/usr/bin/env python3
"""The pages show what is there: every link leads to a file, every picture is drawn by the command above it."""

import os
import re
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import pictures  # noqa: E402
from dev_tool.console import DevError  # noqa: E402

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def pages():
    return [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").glob("*.md"))]


class Pages(unittest.TestCase):
    def test_every_link_leads_to_a_file(self):
        for page in pages():
            for target in LINK.findall(page.read_text()):
                if "://" not in target:
                    self.assertTrue((page.parent / target).exists(), f"{page.name} links to {target}")

    def test_every_picture_has_its_command_and_every_file_its_page(self):
        shown = {"window.png"}
        for page in sorted((SOURCE / "docs").glob("*.md")):
            for command, place, _ in pictures.listed(page.read_text()):
                self.assertTrue(command.startswith("phasescope "))
                shown.add(place.removeprefix("images/"))
        images = SOURCE / "docs" / "images"
        files = {str(path.relative_to(images)) for path in images.rglob("*") if path.is_file()}
        self.assertEqual(files, shown)

    def test_a_picture_without_a_command_is_refused(self):
        text = "- picture: `phasescope theory --out out/t`\n\n![a](images/theory/a_b.svg)\n"
        self.assertEqual(pictures.listed(text),
                         [("phasescope theory --out out/t", "images/theory/a_b.svg", "a_b.svg")])
        with self.assertRaises(DevError):
            pictures.listed("![a](images/theory/a_b.svg)")


if __name__ == "__main__":
    unittest.main()
