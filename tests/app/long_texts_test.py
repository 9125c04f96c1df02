"""Every measure of a text of 32,768 tokens: it ends, answers, and takes less than 2 GB with the worker that it starts."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
PROGRAM = Path(os.environ.get("PHASESCOPE_BUILD", SOURCE / "build/release")) / "bin/phasescope"
# The maps of one layer's four heads in float32 take 17 GB.
TOKENS = 32768
MOST_BYTES = 2_000_000_000
COMMANDS = (
    "pair rope --head L2H1 --query 32000 --key 150", "map rope --head L2H1", "heads rope", "patterns tape",
    "patterns cape_kerple", "addressing rope", "profile rope", "distance rope", "compare rope tapa_norm",
    "ablate rope --head L3H1", "demand rope", "xray rope", "shift rope --by 3",
    # A pass for each band and seed, one after the other: of all of them it takes over half an hour.
    "acuity rope --bands 1:3,64:256 --seeds 1",
)


def answer_of(command, text, folder):
    """Its status, its answer, what it said, and the bytes that the larger of its two processes had at its peak."""
    with open(folder / "answer", "wb") as answer, open(folder / "said", "wb") as said:
        started = subprocess.Popen([PROGRAM, *command.split(), "--text", text, "--length", str(TOKENS), "--json"],
                                   stdin=subprocess.DEVNULL, stdout=answer, stderr=said)
        # Of a child and of those that it has waited for: the most that one of them ever had.
        _, status, usage = os.wait4(started.pid, 0)
    return (os.waitstatus_to_exitcode(status), json.loads((folder / "answer").read_text() or "{}"),
            (folder / "said").read_text(), usage.ru_maxrss * 1024)


class Long(unittest.TestCase):
    def test_every_measure_ends_within_its_memory(self):
        texts = SOURCE / "assets/texts/long.jsonl"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "long.txt").write_text(json.loads(texts.read_text().splitlines()[0])["text"])
            for command in COMMANDS:
                with self.subTest(command):
                    status, answer, said, peak = answer_of(command, folder / "long.txt", folder)
                    self.assertEqual(status, 0, said)
                    self.assertNotIn("error", answer)
                    self.assertLess(peak, MOST_BYTES)


if __name__ == "__main__":
    unittest.main()
