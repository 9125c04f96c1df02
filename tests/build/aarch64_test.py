#!/usr/bin/env python3
"""The CPU kernels compile for aarch64 (17.A11): the compiler goes over each file and writes nothing.
Skipped where Debian's g++-aarch64-linux-gnu is not installed. Nothing has been run on such a machine."""

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
        files = [*(SOURCE / "kernels").glob("*.cpp"), *(SOURCE / "kernels/cpu").glob("*.cpp"),
                 *(SOURCE / "kernels/variants").glob("*.cpp")]
        self.assertGreater(len(files), 30)
        with tempfile.TemporaryDirectory() as folder:
            # Alone: what else stands beside it is of this machine's processor.
            os.symlink(highway(), Path(folder) / "hwy")
            for file in files:
                done = subprocess.run(
                    [COMPILER, "-std=c++20", "-O1", "-fopenmp", "-fsyntax-only", f"-I{SOURCE}",
                     "-isystem", folder, file], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, f"{file}\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    if COMPILER is None or highway() is None:
        print("skipped: no compiler for aarch64")
        sys.exit(77)
    unittest.main()
