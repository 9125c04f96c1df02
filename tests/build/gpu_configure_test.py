#!/usr/bin/env python3
"""What `./dev test --gpu` would build, configured as it does it with the tools of this machine: no
device is needed for that. Nothing is built; skipped where a tool is missing."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import console, gpu_test  # noqa: E402


class Configured(unittest.TestCase):
    def test_the_kernels_and_a_model_on_them_are_tested(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(gpu_test, "FOLDER", Path(folder)):
            gpu_test.configure(TOOLS)
            needed = subprocess.run(
                [TOOLS["ninja"], "-C", folder, "-t", "inputs", "phasescope_gpu_tests"],
                capture_output=True, text=True, check=True).stdout.split()
            labelled = subprocess.run(
                [TOOLS["ctest"], "--test-dir", folder, "-N", "-L", "^gpu$"],
                capture_output=True, text=True, check=True).stdout
        for name in ("kernels_cuda", "model_cuda"):
            self.assertIn(f"bin/{name}_test", needed)
            self.assertRegex(labelled, rf"Test +#\d+: {name}\n")
        self.assertFalse([name for name in needed if "emulation" in name])


if __name__ == "__main__":
    try:
        TOOLS = gpu_test.tools()
    except console.DevError as absent:
        print(f"skipped: {absent}")
        sys.exit(77)
    unittest.main()
