#!/usr/bin/env python3
"""A folder that was configured without LibTorch and then with it compiles nothing twice (17.C18): what both have
is made by the same commands. Configured for real, nothing is built; skipped without LibTorch."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import build, paths, sources, wheels  # noqa: E402

PATIENCE_S = 600


def run(*command):
    return subprocess.run([str(word) for word in command], cwd=SOURCE, capture_output=True, text=True,
                          check=True, timeout=PATIENCE_S).stdout


class TwoStages(unittest.TestCase):
    def test_what_is_built_first_is_built_once(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(build, "CUDA", Path("/nowhere")):
            first, all_of_it = (self.commands(folder, torch) for torch in (False, True))
        self.assertGreater(len(first), 200)
        self.assertEqual(first - all_of_it, set())
        self.assertGreater(len(all_of_it), len(first))

    def commands(self, folder, torch):
        run(paths.CMAKE, "--preset", "release", "-B", folder, *build.options("release", False, torch))
        targets = run(paths.NINJA, "-C", folder, "-t", "targets", "all")
        for name in [build.WINDOW, *build.COMMON]:
            self.assertIn(f"{name}: phony", targets)
        self.assertEqual("phasescope-worker: phony" in targets, torch)
        return set(run(paths.NINJA, "-C", folder, "-t", "commands").splitlines())


if __name__ == "__main__":
    if not (paths.NINJA.exists() and wheels.there(["torch", *wheels.TOOLS]) and sources.ready()):
        print("skipped: LibTorch or the tools are not there")
        sys.exit(77)
    unittest.main()
