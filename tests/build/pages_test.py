#!/usr/bin/env python3
"""The pages show what is there: every link leads to a file, every picture is drawn by the command above it."""

import os
import re
import struct
import sys
import unittest
import zlib
from pathlib import Path

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import pictures, png  # noqa: E402
from dev_tool.console import DevError  # noqa: E402

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


PATH = re.compile(r"`([\w.-]+/[\w./{},*-]*)`")


def spelt_out(path):
    """"a/{b,c}.h" as a/b.h and a/c.h."""
    braces = re.fullmatch(r"(.*)\{(.*)\}(.*)", path)
    return [braces[1] + one + braces[3] for one in braces[2].split(",")] if braces else [path]


def pages():
    return [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").glob("*.md"))]


class Pages(unittest.TestCase):
    def test_every_link_leads_to_a_file(self):
        for page in pages():
            for target in LINK.findall(page.read_text()):
                if "://" not in target:
                    self.assertTrue((page.parent / target).exists(), f"{page.name} links to {target}")

    def test_every_path_that_is_named_is_there(self):
        tops = {path.name for path in SOURCE.iterdir() if not path.name.startswith(".")} - {"build", "out"}
        named = 0
        for page in pages():
            for words in PATH.findall(page.read_text()):
                if words.split("/")[0] not in tops or re.search(r"[A-Z]{4}|[*]", words):
                    continue
                for path in spelt_out(words):
                    named += 1
                    there = (SOURCE / path).exists() or list(SOURCE.glob(path + ".*"))
                    self.assertTrue(there, f"{page.name} names {path}")
        self.assertGreater(named, 100)

    def test_braces_are_several_paths(self):
        self.assertEqual(spelt_out("a/{b,c}_d.cpp"), ["a/b_d.cpp", "a/c_d.cpp"])
        self.assertEqual(spelt_out("a/b.h"), ["a/b.h"])

    def test_the_readme_counts_what_there_is(self):
        readme = " ".join((SOURCE / "README.md").read_text().split())
        families = set(re.findall(r"^      (\w+)_family\(\),$", (SOURCE / "model/families/families.cpp").read_text(),
                                  re.MULTILINE))
        of_hub = families - {"phasescope", "ape_public", "tape_public"}
        self.assertIn(f"It reads {len(of_hub)} families of checkpoints from Hugging Face's hub", readme)
        statements = re.findall(r"^### `", (SOURCE / "docs/theory.md").read_text(), re.MULTILINE)
        self.assertIn(f"one of {len(statements)} statements", readme)
        words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
        models = [path for path in (SOURCE / "assets/models").iterdir() if path.is_dir()]
        self.assertIn(f"{words[len(models)].capitalize()} small models", readme)
        findings = re.findall(r"^## \d+\. ", (SOURCE / "docs/findings.md").read_text(), re.MULTILINE)
        self.assertIn(f"{words[len(findings)]} things that came of asking", readme)

    def test_the_version_and_torchs_are_the_same_everywhere(self):
        def first(pattern, path):
            return re.search(pattern, (SOURCE / path).read_text(encoding="utf-8"), re.MULTILINE)[1]

        ours = first(r"^project\(phasescope VERSION ([\d.]+)", "CMakeLists.txt")
        self.assertEqual(first(r'^version = "([\d.]+)"', "tools/python/pyproject.toml"), ours)
        self.assertEqual(first(r'"version": "([\d.]+)"', "tools/python/phasescope/worker.py"), ours)
        self.assertEqual(first(r"pip install torch==([\d.]+)", "README.md"),
                         first(r"^torch==([\d.]+) ", "tools/dev_tool/pins/wheels.txt"))

    def test_every_picture_has_its_command_and_every_file_its_page(self):
        shown = set()
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

    def test_the_window_is_a_picture_too(self):
        for place in ("images/tutorial/a.png", "images/a.png"):
            text = f"`phasescope view rope --screenshot out/a.png`\n\n![a]({place})\n"
            self.assertEqual(pictures.listed(text),
                             [("phasescope view rope --screenshot out/a.png", place, "a.png")])


    def test_a_picture_may_take_two_commands(self):
        self.assertEqual(
            pictures.steps("phasescope convert a.json --to random --out out/a && phasescope patterns out/a --out out/p"),
            [(["convert", "a.json", "--to", "random", "--out", "out/a"], "out/a"),
             (["patterns", "out/a", "--out", "out/p"], "out/p")])
        self.assertEqual(pictures.steps("phasescope view rope --screenshot out/w.png"),
                         [(["view", "rope", "--screenshot", "out/w.png"], "out")])


def png_file(width, height, pixels, rules):
    """RGBA with a rule for each line, filtered as the format's description says."""
    lines, above = b"", bytes(width * 4)
    for y in range(height):
        line = bytes(pixels[y * width * 4:(y + 1) * width * 4])
        left = [line[i - 4] if i >= 4 else 0 for i in range(len(line))]
        corner = [above[i - 4] if i >= 4 else 0 for i in range(len(line))]
        lines += bytes([rules[y]]) + bytes((line[i] - png.guessed(rules[y], left[i], above[i], corner[i])) & 255
                                           if rules[y] else line[i] for i in range(len(line)))
        above = line
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return (png.SIGNATURE + png.chunk(b"IHDR", header) + png.chunk(b"IDAT", zlib.compress(lines)) +
            png.chunk(b"IEND", b""))


class SmallPictures(unittest.TestCase):
    def test_a_picture_of_few_colours_keeps_them_all(self):
        width, height = 7, 5
        pixels = b"".join(bytes([40 * (x % 3), 60 * (y % 4), 10, 255]) for y in range(height) for x in range(width))
        small = png.smaller(png_file(width, height, pixels, [0, 1, 2, 3, 4]))
        place = small.index(b"PLTE")
        palette = small[place + 4:place + 4 + struct.unpack(">I", small[place - 4:place])[0]]
        place = small.index(b"IDAT")
        rows = zlib.decompress(small[place + 4:place + 4 + struct.unpack(">I", small[place - 4:place])[0]])
        found = b"".join(palette[3 * n:3 * n + 3] + b"\xff" for y in range(height)
                         for n in rows[y * (width + 1) + 1:(y + 1) * (width + 1)])
        self.assertEqual(found, pixels)

    def test_of_more_colours_the_commonest_stay_and_a_scale_has_no_bands(self):
        greys = [bytes([i, i, i, 255]) for i in range(200)]
        scale = [bytes([i, 100, 255 - i, 255]) for i in range(256)]
        palette, number = png.numbered(list(png.colors(b"".join(greys * 3 + scale), 4)))
        self.assertEqual(len(palette), 256)
        for color in greys[:128]:
            self.assertEqual(palette[number[color[:3]]], color[:3])
        # 128 colours are left for 256 of the scale and 72 greys: every third step at least is kept.
        for color in scale + greys:
            self.assertLess(png.distance(palette[number[color[:3]]], color[:3]), 3 * 2 ** 2 + 1)


if __name__ == "__main__":
    unittest.main()
