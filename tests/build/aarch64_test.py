#!/usr/bin/env python3
"""The CPU kernels compile for aarch64 (17.A11): the compiler goes over each file and writes nothing.
Skipped where Debian's g++-aarch64-linux-gnu is not installed. Nothing has been run on such a machine."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("PHASESCOPE_BUILD", SOURCE / "build/release"))
COMMANDS = BUILD / "compile_commands.json"
COMPILER = shutil.which("aarch64-linux-gnu-g++")


def highway():
    """Highway's headers, or None."""
    cache = BUILD / "CMakeCache.txt"
    found = cache.exists() and re.search(r"^PHASESCOPE_HIGHWAY_INCLUDE:\w+=(.+)$",
                                         cache.read_text(), re.MULTILINE)
    headers = Path(found[1] if found else "/usr/include") / "hwy"
    return headers if headers.is_dir() else None


class Aarch64(unittest.TestCase):
    def test_every_cpu_kernel_compiles(self):
        entries = json.loads(COMMANDS.read_text(encoding="utf-8"))
        # Most are made in the build folder (kernels/scores.cmake).
        files = [Path(entry["file"]) for entry in entries if "phasescope_kernels.dir" in entry["command"]]
        self.assertGreater(len(files), 50)
        with tempfile.TemporaryDirectory() as folder:
            # Alone: what else stands beside it is of this machine's processor.
            os.symlink(highway(), Path(folder) / "hwy")
            for file in files:
                done = subprocess.run(
                    [COMPILER, "-std=c++20", "-O1", "-fopenmp", "-fsyntax-only", f"-I{SOURCE}",
                     "-isystem", folder, file], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, f"{file}\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    if COMPILER is None or highway() is None or not COMMANDS.exists():
        print("skipped: no compiler for aarch64, or nothing was configured")
        sys.exit(77)
    unittest.main()
