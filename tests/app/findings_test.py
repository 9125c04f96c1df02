"""docs/findings.md against the commands that stand in it: every number with decimals that a finding states
is one that its command answers, rounded as it stands there."""

import json
import os
import re
import shlex
import subprocess
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
PROGRAM = Path(os.environ.get("PHASESCOPE_BUILD", SOURCE / "build/release")) / "bin/phasescope"
PAGE = SOURCE / "docs/findings.md"
STATED = re.compile(r"(?<![\w.^])\d+\.\d+")
PRINTED = re.compile(r"\d+\.?\d*(?:e[-+]?\d+)?")
WITH_ERROR = re.compile(r"(\d+\.\d+) \+- (\d+\.\d+)")
# Commands that read texts many times over, or tens of thousands of their pairs.
LONG = ("acuity", "demand", "xray", "theory tapa", "theory rope tapa")
# Student's t of 69 degrees (tables): what a standard error by text of the 70 bundled ones is widened by.
OF_TEXTS = 1.9949


def findings():
    """(title, text, commands) of each."""
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        commands = re.findall(r"`phasescope ([^`]+)`", section)
        yield section.split("\n")[0], section.split("`phasescope")[0], commands


def answer(command):
    words = shlex.split(command)
    if "--out" in words:
        place = words.index("--out")
        del words[place:place + 2]
    done = subprocess.run([PROGRAM, *words, "--json"], cwd=SOURCE, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    told = json.loads(done.stdout)  # a check that fails ends with 1 and answers all the same
    if "error" in told:
        raise AssertionError(f"{command}: {told['error']}")
    return told


def numbers(value):
    """All of an answer but its curves, without signs; of words those in them, and the ends of 'x +- error'."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key not in ("curves", "provenance", "texts", "statement", "source"):
                yield from numbers(one)
    elif isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, str):
        yield from (float(one) for one in PRINTED.findall(value))
        for middle, error in WITH_ERROR.findall(value):
            yield from (abs(float(middle) + sign * OF_TEXTS * float(error)) for sign in (-1, 1))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield abs(float(value))


class Numbers(unittest.TestCase):
    def compare(self, wanted):
        compared = 0
        for title, text, commands in findings():
            if wanted != any(command.startswith(LONG) for command in commands):
                continue
            answers = [one for command in commands for one in numbers(answer(command))]
            for stated in STATED.findall(text):
                # Half a unit in its last place, and a little of what was rounded before.
                most = 0.52 * 10.0 ** -len(stated.split(".")[1])
                near = min(answers, key=lambda one: abs(one - float(stated)))
                self.assertLessEqual(abs(near - float(stated)), most, f"{stated} of '{title}'")
                compared += 1
        self.assertGreater(compared, 20)


class Quick(Numbers):
    def test_numbers_are_what_the_commands_answer(self):
        self.compare(False)


class Long(Numbers):
    def test_numbers_are_what_the_commands_answer(self):
        self.compare(True)


if __name__ == "__main__":
    unittest.main()
