#!/usr/bin/env python3
"""What nvcc makes of the CUDA kernels: no spills in those of plain scores for any architecture we
build, fewer bytes of machine code and registers with its probes off, and nothing of a probe or a
variant in a kernel that has it off. Compiles files again, with -Xptxas -v, whose lines are in the log;
skipped without a CUDA compiler. The kernels have not been run on a device."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = os.environ.get("PHASESCOPE_BUILD", "")
FORWARD = "attention_forward_kernel"
ARCHITECTURES = ("sm_80", "sm_90a")


def compiler():
    """The nvcc of the build, or None."""
    cache = Path(BUILD) / "CMakeCache.txt"
    if not BUILD or not cache.exists():
        return None
    found = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(.+)$", cache.read_text(), re.MULTILINE)
    return found[1] if found and Path(found[1]).exists() else None


def costs(log):
    """{kernel: (bytes spilled, registers)} of one compilation's log."""
    found = {}
    for part in re.split(r"Compiling entry function ", log)[1:]:
        stores, loads = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads",
                                  part).groups()
        registers = re.search(r"Used (\d+) registers", part)[1]
        found[part.split("'")[1]] = (int(stores) + int(loads), int(registers))
    return found


def code_bytes(cubin):
    """{forward kernel: bytes of machine code}."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(cubin)
        file.flush()
        sections = subprocess.run(["readelf", "-SW", file.name], capture_output=True, text=True,
                                  check=True).stdout
    sizes = re.findall(r"\.text\.(\w+) +PROGBITS +\w+ +\w+ +(\w+)", sections)
    return {name: int(size, 16) for name, size in sizes if FORWARD in name}


def kernels_of(ptx):
    """{forward kernel: its PTX}."""
    parts = {re.match(r"\w+", part)[0]: part for part in re.split(r"\.entry ", ptx)[1:]}
    return {name: part for name, part in parts.items() if FORWARD in name}


def products_and_loads(text):
    """How many mma and ldmatrix instructions a kernel's PTX has, its loops over a tile unrolled."""
    return len(re.findall(r"mma\.sync", text)), len(re.findall(r"ldmatrix\.sync", text))


class Compiled(unittest.TestCase):
    def compile(self, name, *options):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel"
            done = subprocess.run(
                [compiler(), "-std=c++20", "--expt-relaxed-constexpr", "-I", str(SOURCE), *options,
                 "-o", str(path), str(SOURCE / "kernels" / "cuda" / f"{name}.cu")],
                capture_output=True, text=True, check=False)
            print(f"{name} {' '.join(options)}:\n{done.stdout}{done.stderr}")
            self.assertEqual(done.returncode, 0)
            return done.stdout + done.stderr, path.read_bytes()

    def test_the_plain_forward_spills_nothing_and_pays_for_no_probe_that_is_off(self):
        for architecture in ARCHITECTURES:
            with self.subTest(architecture=architecture):
                log, cubin = self.compile("forward_plain", "-cubin", f"-arch={architecture}",
                                          "-Xptxas", "-v")
                cost, code = costs(log), code_bytes(cubin)
                self.assertEqual(len(cost), 8)  # 2 types, 2 head dimensions, probes off and on
                self.assertEqual({spilled for spilled, _ in cost.values()}, {0})
                off = [name for name in cost if "NoProbes" in name]
                self.assertEqual(len(off), 4)
                for name in off:
                    other = name.replace("8NoProbes", "9AllProbes")
                    print(f"{name}: {cost[name][1]} registers, {code[name]} bytes of machine code; "
                          f"with probes {cost[other][1]}, {code[other]}")
                    self.assertLess(code[name], code[other])
                    if "Li64E" in name:  # at 128 both may take all that a thread can have
                        self.assertLess(cost[name][1], cost[other][1])

    def ptx(self, name):
        return kernels_of(self.compile(name, "-ptx", "-arch=compute_80")[1].decode())

    def test_a_load_of_shared_memory_feeds_two_products(self):
        # Of a tile of 64 keys a warp loads 2 (D / 16) 4 fragments of columns for two products each, and
        # its D / 16 fragments of queries once.
        for name, text in self.ptx("forward_plain").items():
            with self.subTest(kernel=name):
                steps = (64 if "Li64E" in name else 128) // 16
                products, loads = products_and_loads(text)
                print(f"{name}: {products} mma, {loads} ldmatrix")
                self.assertEqual(products % (16 * steps), 0)
                self.assertGreaterEqual(products, 16 * steps)
                self.assertLessEqual(loads / products, 9 / 16)

    def test_what_is_off_compiles_away(self):
        plain, tapa, fire = (self.ptx(f"forward_{name}") for name in ("plain", "tapa", "fire"))
        for name, text in plain.items():
            with self.subTest(kernel=name):
                # The table's copies by words and TAPA's cosine; its own kernel shows that they are
                # found where they are.
                self.assertEqual(re.findall(r"cp\.async\.ca|cos\.approx", text), [])
                other = tapa[name.replace("10PlainScore", "9TapaScore")]
                self.assertTrue("cp.async.ca" in other and "cos.approx" in other)
                # FIRE's search of segments: two votes find the ends of a document's tiles, in all.
                self.assertEqual(text.count("vote.sync"), 2)
                other = fire[name.replace("10PlainScore", "9FireScore")]
                self.assertGreater(other.count("vote.sync"), 2)
                # Numbers written for a thread's two rows: the log-sum-exp, and nine probes (the
                # tenth, a key, is an integer).
                probes = 0 if "NoProbes" in name else 9
                self.assertEqual(len(re.findall(r"st\.global\.f32", text)), 2 * (1 + probes))


if __name__ == "__main__":
    if compiler() is None:
        print("no CUDA compiler in this build")
        sys.exit(77)
    unittest.main()
