"""docs/findings.md against the commands that stand in it: every number with decimals that a finding states
is one that its command answers, rounded as it stands there, and a number with its interval is one with that
interval."""

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
NUMBER = r"(\d+(?:\.\d+)?)"
INTERVAL = re.compile(NUMBER + r"(?: [a-z]+)?\s\[-?" + NUMBER + r",\s-?" + NUMBER + r"\]")
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


def groups(value):
    """All numbers of an answer but its curves', without signs, those together that an object or a sentence has; of
    sentences the ends of 'x +- error' too."""
    if isinstance(value, dict):
        value = [one for key, one in value.items()
                 if key not in ("curves", "provenance", "texts", "statement", "source")]
    if isinstance(value, list):
        yield [abs(float(one)) for one in value if isinstance(one, (int, float)) and not isinstance(one, bool)]
        for one in value:
            yield from groups(one)
    elif isinstance(value, str):
        yield ([float(one) for one in PRINTED.findall(value)] +
               [abs(float(middle) + sign * OF_TEXTS * float(error))
                for middle, error in WITH_ERROR.findall(value) for sign in (-1, 1)])


def holds(group, stated):
    """Half a unit in its last place, and a little of what was rounded before."""
    most = 0.52 * 10.0 ** -len(stated.partition(".")[2])
    return any(abs(one - float(stated)) <= most for one in group)


class Numbers(unittest.TestCase):
    def compare(self, wanted):
        compared = 0
        for title, text, commands in findings():
            if wanted != any(command.startswith(LONG) for command in commands):
                continue
            answers = [group for command in commands for group in groups(answer(command))]
            for stated in STATED.findall(text):
                self.assertTrue(any(holds(group, stated) for group in answers), f"{stated} of '{title}'")
                compared += 1
            for interval in INTERVAL.findall(text):
                self.assertTrue(any(all(holds(group, one) for one in interval) for group in answers),
                                f"{interval} of '{title}'")
        self.assertGreater(compared, 20)


class Quick(Numbers):
    def test_numbers_are_what_the_commands_answer(self):
        self.compare(False)


class Long(Numbers):
    def test_numbers_are_what_the_commands_answer(self):
        self.compare(True)


if __name__ == "__main__":
    unittest.main()
