#!/usr/bin/env python3
"""What ptxas says of the plain CUDA forward kernel: no spills for any architecture we build.
Compiles two files again with -Xptxas -v, whose lines (registers too) are in the log; skipped without
a CUDA compiler. The kernels have not been run on a device."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = os.environ.get("PHASESCOPE_BUILD", "")
FILES = ("forward_bf16_64", "forward_bf16_128")
ARCHITECTURES = ("sm_80", "sm_90a")


def compiler():
    """The nvcc of the build, or None."""
    cache = Path(BUILD) / "CMakeCache.txt"
    if not BUILD or not cache.exists():
        return None
    found = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(.+)$", cache.read_text(), re.MULTILINE)
    return found[1] if found and Path(found[1]).exists() else None


def spilled_bytes(log):
    """{"NoProbes": bytes stored and loaded, "AllProbes": ...} of one compilation's log."""
    spilled = {}
    for part in re.split(r"Compiling entry function ", log)[1:]:
        probes = "NoProbes" if "NoProbes" in part else "AllProbes"
        stores, loads = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads",
                                  part).groups()
        spilled[probes] = int(stores) + int(loads)
    return spilled


class Registers(unittest.TestCase):
    def compile(self, name, architecture):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [compiler(), "-std=c++20", "--expt-relaxed-constexpr", "-I", str(SOURCE), "-cubin",
                 f"-arch={architecture}", "-Xptxas", "-v", "-o", str(Path(folder) / "kernel.cubin"),
                 str(SOURCE / "kernels" / "cuda" / f"{name}.cu")],
                capture_output=True, text=True, check=False)
        print(f"{name}, {architecture}:\n{done.stdout}{done.stderr}")
        self.assertEqual(done.returncode, 0)
        return spilled_bytes(done.stdout + done.stderr)

    def test_forward_spills_nothing(self):
        for name in FILES:
            for architecture in ARCHITECTURES:
                with self.subTest(kernel=name, architecture=architecture):
                    spilled = self.compile(name, architecture)
                    self.assertEqual(spilled, {"NoProbes": 0, "AllProbes": 0})


if __name__ == "__main__":
    if compiler() is None:
        print("no CUDA compiler in this build")
        sys.exit(77)
    unittest.main()
