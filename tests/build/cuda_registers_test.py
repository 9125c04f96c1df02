#!/usr/bin/env python3
"""What nvcc makes of the CUDA kernels: no spills in the forward passes of plain scores, tables and TAPA for any
architecture we build, products, loads of shared memory and instructions as they were counted, and nothing of a probe or
a variant in a kernel that has it off. Compiles files again, with -Xptxas -v, whose lines are in the log;
skipped without a CUDA compiler. The kernels have not been run on a device."""

import functools
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = os.environ.get("PHASESCOPE_BUILD", "")
sys.path[:0] = [str(SOURCE / "tools"), str(SOURCE / "tools" / "device")]

import spills  # noqa: E402
from dev_tool import counted, machine_code, paths, roofline  # noqa: E402

FORWARD = "attention_forward_kernel"
ARCHITECTURES = ("sm_80", "sm_90a")
HOPPER_FORMS = ("hopper_plain", "hopper_table", "hopper_tapa", "hopper_tape")
# What the Hopper form still lacks, to become less: ptxas puts fences of its own before products of these (C7519), or lets
# those of a head of 128 channels wait for each other for want of registers (C7512).
HOPPER_WARNINGS = {"hopper_tapa": {"C7512", "C7519"}, "hopper_tape": {"C7519"}}
HOPPER_BACKWARD = "one_pass_hopper"
HOPPER_BACKWARD_FORMS = ("hopper_plain", "hopper_table")


def compiler():
    """The nvcc of the build, or None."""
    cache = Path(BUILD) / "CMakeCache.txt"
    if not BUILD or not cache.exists():
        return None
    found = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(.+)$", cache.read_text(), re.MULTILINE)
    return found[1] if found and Path(found[1]).exists() else None


def source_of(name):
    """The file of a unit: those of the lines of a list are made in the build."""
    path = SOURCE / "kernels" / "cuda" / f"{name}.cu"
    return path if path.exists() else Path(BUILD) / "kernels" / "cuda" / f"{name}.cu"


@functools.lru_cache(maxsize=None)
def compiled(name, *options):
    """What nvcc ends with, says and writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel"
        done = subprocess.run([compiler(), "-std=c++20", "--expt-relaxed-constexpr", "-I", str(SOURCE), *options,
                               "-o", str(path), str(source_of(name))], capture_output=True, text=True, check=False)
        print(f"{name} {' '.join(options)}:\n{done.stdout}{done.stderr}")
        return done.returncode, done.stdout + done.stderr, path.read_bytes() if path.exists() else b""


def costs(log):
    """{kernel: (bytes spilled, registers)} of one compilation's log."""
    found = {}
    for part in re.split(r"Compiling entry function ", log)[1:]:
        stores, loads = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads",
                                  part).groups()
        registers = re.search(r"Used (\d+) registers", part)[1]
        found[part.split("'")[1]] = (int(stores) + int(loads), int(registers))
    return found


def kernels_of(ptx):
    """{forward kernel: its PTX}."""
    parts = {re.match(r"\w+", part)[0]: part for part in re.split(r"\.entry ", ptx)[1:]}
    return {name: part for name, part in parts.items() if FORWARD in name}


def products_and_loads(text):
    """How many mma and ldmatrix instructions a kernel's PTX has, its loops over a tile unrolled."""
    return len(re.findall(r"mma\.sync", text)), len(re.findall(r"ldmatrix\.sync", text))


class Compiled(unittest.TestCase):
    def compile(self, name, *options):
        status, log, made = compiled(name, *options)
        self.assertEqual(status, 0)
        return log, made

    def cubin(self, name, architecture):
        """(what ptxas says, the file)"""
        return self.compile(name, "-cubin", f"-arch={architecture}", "-Xptxas", "-v")

    def spills_as_listed(self, unit, architecture, part=""):
        """{kernel: (bytes, registers)} of a unit, of those named so, each of which spills no more than spills.py has it;
        what that does not name, nothing."""
        found = {name: cost for name, cost in costs(self.cubin(unit, architecture)[0]).items() if re.search(part, name)}
        self.assertEqual({name: spilt for name, (spilt, _) in found.items()
                          if spilt > (spills.most(name, architecture) or 0)}, {}, (unit, architecture))
        return found

    def plain_forward_spills_nothing(self, architecture):
        cost = self.spills_as_listed("forward_plain", architecture)  # with sums by distance and top keys
        plain = [name for name in cost if FORWARD in name]
        self.assertEqual([spills.most(name, architecture) for name in plain], [0] * 8)

    def test_the_plain_forward_spills_nothing_on_ampere(self):
        self.plain_forward_spills_nothing("sm_80")

    def test_the_plain_forward_spills_nothing_on_hopper(self):
        self.plain_forward_spills_nothing("sm_90a")

    def test_the_forward_passes_of_tables_and_of_tapa_spill_nothing(self):
        for name in ("forward_table", "forward_table_multiplied", "forward_tapa"):
            for architecture in ARCHITECTURES:
                with self.subTest(name=name, architecture=architecture):
                    cost = self.spills_as_listed(name, architecture)
                    self.assertEqual(len([kernel for kernel in cost if FORWARD in kernel]), 8)

    @unittest.skipUnless(paths.NVDISASM.exists(), "nvdisasm of the pinned wheel is not there")
    def test_the_machine_code_has_the_instructions_that_were_counted(self):
        for unit, kernels in counted.UNITS.items():
            for architecture in ARCHITECTURES if not unit.startswith("hopper") else ("sm_90a",):
                with self.subTest(unit=unit, architecture=architecture):
                    found = self.disassembled(self.cubin(unit, architecture)[1])
                    for kernel, part in kernels.items():
                        for d in counted.COUNTED[architecture][kernel]:
                            self.holds_what_was_counted(kernel, d, architecture, found, part.format(d=d))

    def disassembled(self, cubin):
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            code = subprocess.run([paths.NVDISASM, "-c", file.name], capture_output=True, text=True, check=True).stdout
        return machine_code.functions(code)

    def holds_what_was_counted(self, kernel, d, architecture, found, part):
        """Of both 16-bit types. Products and matrix loads are those of roofline.py, by a trip; other instructions, which
        this nvcc makes of these sources, are at most those that the page's table goes by, and not much fewer."""
        mine = {name: code for name, code in found.items() if re.search(part, name)}
        self.assertEqual(len(mine), 2, part)
        trips = roofline.trips(kernel, d)
        for name, code in mine.items():
            with self.subTest(kernel=name):
                products = roofline.warp_products(kernel, d) // trips
                loads = roofline.warp_loads(kernel, d) // trips
                trip = machine_code.trip_of(*code, products, loads, "gradient" in kernel)
                self.assertIsNotNone(trip, f"no way has {products} products")
                self.assertEqual(trip.loads + counted.KEPT.get((kernel, architecture), 0), loads)
                for listed, one in zip(counted.counted(kernel, d, architecture), (trip.others, trip.turns, trip.special)):
                    self.assertLessEqual(one * trips, listed)
                    self.assertGreaterEqual(one * trips, 0.9 * listed)

    def test_the_hopper_form_spills_nothing_and_keeps_its_products_in_flight(self):
        for name in HOPPER_FORMS:
            with self.subTest(name=name):
                found = self.spills_as_listed(name, "sm_90a")
                backward = [kernel for kernel in found if HOPPER_BACKWARD in kernel]
                self.assertEqual(len(backward), 4 if name in HOPPER_BACKWARD_FORMS else 0)
                self.assertEqual(len(found), 8 + 2 * len(backward))  # of each also what joins dq
                log = self.cubin(name, "sm_90a")[0]
                # C7510: products are waited for one by one; C7519: a fence that nobody wrote; C7508: registers stay
                # as they are.
                warned = set(re.findall(r"C75\d\d|setmaxnreg", log))
                self.assertEqual(warned - HOPPER_WARNINGS.get(name, set()), set())

    def test_the_hopper_form_has_as_many_products_as_were_counted(self):
        text = self.compile("hopper_plain", "-ptx", "-arch=compute_90a")[1].decode()
        parts = {re.match(r"\w+", part)[0]: part for part in re.split(r"\.entry ", text)[1:]}
        parts = {name: part for name, part in parts.items() if "hopper_kernel" in name}
        self.assertEqual(len(parts), 12)
        for name, part in parts.items():
            with self.subTest(kernel=name):
                d = 64 if "Li64E" in name else 128
                products, matrix_loads = len(re.findall(r"wgmma\.mma_async", part)), len(re.findall(r"ldmatrix", part))
                if HOPPER_BACKWARD in name:
                    # Scores and d_out . v, one for each 16 channels; dv and dk, one for each 16 queries and 64 channels.
                    # dq, of 64 channels, one for each 16 keys of two tiles, of the first or of the second, each with a
                    # load of its left operand.
                    self.assertEqual(products, 2 * d // 16 + 2 * 4 * (d // 64) + 8 + 4 + 4)
                    self.assertEqual(matrix_loads, 8 + 4 + 4)
                else:
                    # Of a tile alone and of one that another follows: two places of each product.
                    self.assertEqual(products, 2 * roofline.group_products(d))
                self.assertEqual(re.findall(r"mma\.sync|cp\.async\.c[ag]", part), [])

    def ptx(self, name):
        return kernels_of(self.compile(name, "-ptx", "-arch=compute_80")[1].decode())

    def test_loads_of_shared_memory_feed_as_many_products_as_were_counted(self):
        # Of a tile of 64 keys a warp loads 8 (D / 16) fragments of columns, for two products of each
        # 16 queries, and its queries once, or twice where keys are taken by 32. Kernels of two bands
        # have that three times: for both, and for each where it alone sees a tile. A loop over 32
        # keys stands there once.
        for name, text in self.ptx("forward_plain").items():
            with self.subTest(kernel=name):
                d = 64 if "Li64E" in name else 128
                kernel = "forward" if "NoProbes" in name else "probes"
                bands, steps = roofline.BANDS[kernel][d], d // 16
                halves = 64 // roofline.WIDTH[kernel][d]
                in_all, forms = (4, 3) if bands == 2 else (1, 1)
                self.assertEqual(products_and_loads(text),
                                 (in_all * 16 * steps // halves,
                                  in_all * steps + forms * 8 * steps // halves))

    def test_a_table_s_gradient_takes_no_product_more(self):
        # What sums it is the kernel that makes dq, with the same products and loads of tiles; there is none beside it.
        text = self.compile("backward_table", "-ptx", "-arch=compute_80")[1].decode()
        parts = {re.match(r"\w+", part)[0]: part for part in re.split(r"\.entry ", text)[1:]}
        names = {re.search(r"attention_(\w+?)_kernel", name)[1] for name in parts}
        self.assertEqual(names, {"delta", "dkv", "dq", "dq_table", "join_dq", "one_pass", "sinks", "sums", "table"})
        summing = {name: part for name, part in parts.items() if "dq_table" in name}
        self.assertEqual(len(summing), 4)
        for name, part in summing.items():
            with self.subTest(kernel=name):
                alone = parts[name.replace("25attention_dq_table", "19attention_dq")]
                self.assertGreater(products_and_loads(alone)[0], 0)
                self.assertEqual(products_and_loads(part), products_and_loads(alone))

    def test_dq_with_a_table_s_gradient_hardly_spills(self):
        for architecture in ARCHITECTURES:
            found = self.spills_as_listed("backward_table", architecture, "_dq_|one_pass")
            self.assertTrue(any("dq_table" in name for name in found))

    def test_wide_heads_hardly_spill(self):
        for name in ("forward_plain_wide", "backward_plain_wide", "forward_table_wide", "backward_table_wide"):
            for architecture in ARCHITECTURES:
                found = self.spills_as_listed(name, architecture)
                self.assertTrue(any("Li192" in kernel for kernel in found) and any("Li256" in kernel for kernel in found))

    def test_the_backward_pass_in_one_kernel_spills_nothing(self):
        for architecture in ARCHITECTURES:
            self.assertEqual(len(self.spills_as_listed("backward_plain", architecture, "one_pass|join_dq")), 8)

    def test_the_backward_pass_with_phases_and_states_spills_no_more_than_it_did(self):
        for name in ("backward_tapa", "backward_tape"):
            for architecture in ARCHITECTURES:
                found = self.spills_as_listed(name, architecture)
                for part in ("one_pass", "dkv"):
                    self.assertTrue(any(f"attention_{part}_kernel" in kernel for kernel in found), part)

    def test_the_backward_pass_in_one_kernel_has_five_products(self):
        # Each 8 D / 16 mma a warp (32 x 32 x D, or as many): every product stands once in a loop over tiles.
        text = self.compile("backward_plain", "-ptx", "-arch=compute_80")[1].decode()
        parts = {re.match(r"\w+", part)[0]: part for part in re.split(r"\.entry ", text)[1:]}
        parts = {name: part for name, part in parts.items() if "one_pass" in name}
        self.assertEqual(len(parts), 4)
        for name, part in parts.items():
            with self.subTest(kernel=name):
                d = 64 if "Li64E" in name else 128
                self.assertEqual(products_and_loads(part), (5 * 8 * d // 16, roofline.loads("one pass", d)))

    def test_what_is_off_compiles_away(self):
        plain, tapa = (self.ptx(f"forward_{name}") for name in ("plain", "tapa"))
        for name, text in plain.items():
            with self.subTest(kernel=name):
                # The table's copies by words and TAPA's cosine; its own kernel shows that they are
                # found where they are.
                self.assertEqual(re.findall(r"cp\.async\.ca|cos\.approx", text), [])
                other = tapa[name.replace("10PlainScore", "9TapaScore")]
                self.assertTrue("cp.async.ca" in other and "cos.approx" in other)
                # Numbers written for a thread's two rows of a band: the log-sum-exp, and nine probes
                # (the tenth, a key, is an integer).
                probes = 0 if "NoProbes" in name else 9
                bands = roofline.BANDS["probes" if probes else "forward"][64 if "Li64E" in name else 128]
                self.assertEqual(len(re.findall(r"st\.global\.f32", text)), 2 * bands * (1 + probes))


if __name__ == "__main__":
    if compiler() is None:
        print("skipped: no CUDA compiler in this build")
        sys.exit(77)
    python_cases.run()
