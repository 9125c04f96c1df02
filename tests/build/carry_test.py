#!/usr/bin/env python3
"""./dev carry --out, the script of the first ten minutes on a device, and ./dev bench --import: the whole way
with the kernels' emulation in place of a device, and what is made of programs that fail, hang or say nothing."""

import contextlib
import importlib.util
import io
import json
import os
import re
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = os.environ.get("PHASESCOPE_BUILD", "")
sys.path[:0] = [str(SOURCE / "tools"), str(SOURCE / "tools" / "device")]

import spills  # noqa: E402
from dev_tool import bench_import, carry, console  # noqa: E402


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


first_minutes = loaded(SOURCE / "tools" / "device" / "first_minutes.py")

GOOGLETEST = """\
Note: Google Test filter = */plain
[==========] Running 4 tests from 2 test suites.
[ RUN      ] Kernels/Cuda.One/plain
[       OK ] Kernels/Cuda.One/plain (3 ms)
[ RUN      ] Kernels/Cuda.Two/plain
cuda_test.cpp:12: Failure
[  FAILED  ] Kernels/Cuda.Two/plain, where GetParam() = 4-byte object <00-00 00-00> (7 ms)
[ RUN      ] Kernels/Cuda.Three/plain
[  SKIPPED ] Kernels/Cuda.Three/plain (0 ms)
[ RUN      ] Kernels/Cuda.Four/plain
"""

SASS = """\
\tcode for sm_90a
\t\tFunction : _Z24attention_forward_kernelI10PlainScoreE
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                    /* 0x00000a00ff017b82 */
                                                                             /* 0x000fe20000000800 */
        /*0010*/                   LDSM.16.M88.4 R4, [R2+UR4] ;              /* 0x0 */
        /*0020*/              @!P0 HMMA.16816.F32.BF16 R8, R4, R12, RZ ;     /* 0x0 */
        /*0030*/             @UP1  UIADD3 UR4, UR4, 0x1, URZ ;               /* 0x0 */
        /*0040*/                   HMMA.16816.F32.BF16 R8, R4, R14, R8 ;     /* 0x0 */
        /*0050*/                   STL.64 [R1], R8 ;                         /* 0x0 */
        /*0060*/                   NOP;                                      /* 0x0 */
\t\tFunction : other
        /*0000*/                   EXIT ;                                    /* 0x0 */
"""

USAGE = """\
Fatbin elf code:
================
arch = sm_90a
Resource usage:
 Common:
  GLOBAL:0
 Function _Z24attention_forward_kernelI10PlainScoreE:
  REG:168 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:720 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


class Reading(unittest.TestCase):
    def test_tests_that_end_and_one_that_does_not(self):
        self.assertEqual(first_minutes.results_of(GOOGLETEST), {
            "Kernels/Cuda.One/plain": "passed", "Kernels/Cuda.Two/plain": "failed",
            "Kernels/Cuda.Three/plain": "skipped", "Kernels/Cuda.Four/plain": "unfinished"})

    def test_machine_code_is_counted_by_function(self):
        self.assertEqual(first_minutes.counts_of_sass(SASS), {
            "_Z24attention_forward_kernelI10PlainScoreE": {"all": 6, "LDSM": 1, "HMMA": 2, "STL": 1},
            "other": {"all": 1}})

    def test_registers(self):
        self.assertEqual(first_minutes.resources_of(USAGE), {
            "_Z24attention_forward_kernelI10PlainScoreE": {"registers": 168, "stack": 0, "shared": 0}})

    def test_a_table_after_other_lines(self):
        self.assertEqual(first_minutes.table_of('a warning\n{"rows": []}\n'), {"rows": []})
        self.assertIsNone(first_minutes.table_of("nothing was measured"))


def forward_kernel(score, d=128, name="forward", probes="NS1_8NoProbesE"):
    """As gcc's and nvcc's ABI has its name."""
    return f"_ZN10phasescope7kernels4cuda24attention_{name}_kernelI13__nv_bfloat16Li{d}E{probes}NS1_{score}ELi{d}EEEvT_"


PLAIN, WRAPPED = "10PlainScore", "10TokenScoreINS1_10PlainScoreEE"


class Spills(unittest.TestCase):
    def test_names_are_read(self):
        self.assertEqual(spills.kernel_of(forward_kernel(PLAIN)), ("forward", 128, "No", "PlainScore"))
        self.assertEqual(spills.kernel_of(forward_kernel("9TapaScore", 64, "dq", "")), ("dq", 64, None, "TapaScore"))
        self.assertEqual(spills.kernel_of(forward_kernel(WRAPPED)).score, "TokenScoreINS1_10PlainScore")
        self.assertIsNone(spills.kernel_of("_ZN10phasescope7kernels4cuda14documents_hereEv"))

    def test_limits(self):
        for name, architecture, most in (
                (forward_kernel(PLAIN), "sm_80", 0), (forward_kernel(PLAIN, 192), "sm_80", 48),
                (forward_kernel(WRAPPED), "sm_80", None), (forward_kernel("9TapaScore", 128, "distances", ""), "sm_80", 48),
                (forward_kernel("9TapaScore", 128, "distances", ""), "sm_90a", 0),
                (forward_kernel("9TapeScore", 128, "dkv", ""), "sm_90a", 1100)):
            self.assertEqual(spills.most(name, architecture), most, name)

    def test_what_is_listed_is_in_the_sources(self):
        text = "".join(path.read_text(encoding="utf-8") for path in sorted((SOURCE / "kernels" / "cuda").glob("*.cu*")))
        for one in spills.LIMITS:
            for kernel in one.kernels:
                self.assertIn(f"attention_{kernel}_kernel", text)
            for score in one.scores:
                self.assertIn(f"struct {score}", text)


class DeviceTests(unittest.TestCase):
    """A kind that skips a case on every device would never count as verified."""
    OF_THIS_DEVICE = ("reason;", '"A block of this device has', '"This device has')

    def test_no_case_is_skipped_but_for_what_a_device_lacks(self):
        files = [*(SOURCE / "tests" / "kernels").glob("cuda_*_test.cpp"), SOURCE / "tests/kernels/cuda_test.cpp",
                 SOURCE / "tests/kernels/device_case.h"]
        for path in files:
            for said in re.findall(r"GTEST_SKIP\(\) << (.*)", path.read_text(encoding="utf-8")):
                self.assertTrue(said.startswith(self.OF_THIS_DEVICE), f"{path.name}: {said}")


class Programs(unittest.TestCase):
    """Stand-ins for the test program."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, then):
        path = self.folder / first_minutes.TESTS
        path.write_text(f"""#!/bin/sh
case "$1" in
  --gtest_list_tests) printf 'Kernels/Cuda.\\n  IsRightAtEverySize/plain  # GetParam() = 0\\n' ;;
  --gtest_filter=CudaChecks*) printf '[ RUN      ] CudaChecks.One\\n[       OK ] CudaChecks.One (1 ms)\\n' ;;
  *) {then} ;;
esac
""", encoding="utf-8")
        path.chmod(0o755)

    def run_them(self, seconds=60):
        return first_minutes.run_tests(self.folder, first_minutes.Clock(seconds / 60), 0, False)

    def test_all_that_passes(self):
        self.write("printf '[ RUN      ] Kernels/Cuda.One/plain\\n[       OK ] Kernels/Cuda.One/plain (1 ms)\\n'")
        step = self.run_them()
        self.assertTrue(step["passed"])
        self.assertEqual(sorted(step["kinds"]), ["checks", "plain"])

    def test_one_that_is_killed_spoils_its_own_kind(self):
        self.write("printf '[ RUN      ] Kernels/Cuda.One/plain\\n'; kill -9 $$")
        step = self.run_them()
        self.assertFalse(step["passed"])
        self.assertEqual(step["kinds"]["plain"]["unfinished"], 1)
        self.assertEqual(step["kinds"]["checks"]["passed"], 1)
        self.assertIn("plain", step["failures"])

    def test_one_that_hangs_takes_no_more_than_its_time(self):
        self.write("printf '[ RUN      ] Kernels/Cuda.One/plain\\n'; exec sleep 60")
        begin = time.monotonic()
        step = self.run_them(seconds=1)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(step["kinds"]["plain"]["unfinished"], 1)

    def test_one_that_runs_nothing_does_not_pass(self):
        self.write("true")
        self.assertFalse(self.run_them()["passed"])

    def test_a_length_that_takes_too_long_loses_no_other(self):
        path = self.folder / first_minutes.BENCH
        path.write_text('#!/bin/sh\n[ "$2" = 32768 ] && exec sleep 60\necho "{\\"rows\\": [{\\"n\\": $2}]}"\n',
                        encoding="utf-8")
        path.chmod(0o755)
        step = first_minutes.run_table(self.folder, {"torch": "2.11.0"}, first_minutes.Clock(2 / 60), False)
        self.assertEqual([row["n"] for row in step["table"]["rows"]], [2048, 8192])
        self.assertEqual((step["absent_lengths"], step["passed"]), (["32768"], False))

    def test_the_worker_finds_the_cuda_runtime_beside_libtorch(self):
        site = self.folder / "site-packages"
        for name in ("torch/lib", "nvidia/cu13/lib", "nvidia/cu13/bin"):
            (site / name).mkdir(parents=True)
        with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": "/before"}):
            self.assertEqual(first_minutes.library_path(str(site / "torch" / "lib")),
                             f"{site}/torch/lib:{site}/nvidia/cu13/lib:/before")

    def test_no_sanitizer_is_no_pass(self):
        with mock.patch.object(first_minutes, "program", lambda _: None):
            step = first_minutes.run_sanitizers(self.folder, first_minutes.Clock(1), 0, 80)
        self.assertEqual(step, {"passed": False, "absent": "compute-sanitizer is not there"})

    def test_every_sanitizer_has_its_share_of_the_time(self):
        self.write("true")
        tool = self.folder / "compute-sanitizer"
        tool.write_text('#!/bin/sh\n[ "$2" != racecheck ]\n', encoding="utf-8")
        tool.chmod(0o755)
        with mock.patch.object(first_minutes, "program", lambda _: tool):
            step = first_minutes.run_sanitizers(self.folder, first_minutes.Clock(1), 0, 80)
        self.assertFalse(step["passed"])
        self.assertEqual({name: one["passed"] for name, one in step["tools"].items()},
                         {"memcheck": True, "racecheck": False, "synccheck": True, "initcheck": True})

    def test_a_sanitizer_that_is_cut_short_has_found_nothing(self):
        self.write("true")
        tool = self.folder / "compute-sanitizer"
        tool.write_text('#!/bin/sh\ncase "$2" in memcheck) exec sleep 60 ;; racecheck) exit 9 ;; '
                        'synccheck) exit 1 ;; esac\n', encoding="utf-8")
        tool.chmod(0o755)
        with mock.patch.object(first_minutes, "program", lambda _: tool):
            step = first_minutes.run_sanitizers(self.folder, first_minutes.Clock(4 / 60), 0, 80)
        self.assertEqual({name: one["said"] for name, one in step["tools"].items()},
                         {"memcheck": "did not finish", "racecheck": "found an error", "synccheck": "ended with status 1",
                          "initcheck": "passed"})
        result = good_result() | {"sanitizers": step}
        self.assertEqual(bench_import.doubts_of(result), [
            "memcheck did not finish, racecheck found an error, synccheck ended with status 1"])

    def test_those_that_run_at_once_have_the_time_of_all(self):
        clock = first_minutes.Clock(8 / 60, at_once=4)
        shares = [clock.share(number, 8, reserved=4) for number in range(8)]
        for share, expected in zip(shares, (2, 2.3, 2.7, 3.2, 4, 4, 4, 4)):
            self.assertAlmostEqual(share, expected, delta=0.2)

    def measure_with_mode(self, mode):
        """What is found on a device of that compute mode, a step that runs several programs in place of the tests, and how
        many of these there were at once."""
        (self.folder / "nvidia-smi").write_text(
            f'#!/bin/sh\ncase "$*" in *compute_mode*) echo "NVIDIA H200, 9.0, 580.1, 143771, {mode}" ;; *) exit 2 ;; esac\n',
            encoding="utf-8")
        (self.folder / "nvidia-smi").chmod(0o755)
        running, most, lock = [], [], threading.Lock()

        def program():
            with lock:
                running.append(1)
                most.append(len(running))
            time.sleep(0.05)
            with lock:
                running.pop()

        def steps(_, clock, *rest):
            clock.side_by_side([program] * 6)
            return {"passed": True}

        names = ("run_tests", "run_sanitizers", "check_machine_code", "run_models", "run_table")
        with contextlib.ExitStack() as stack:
            for name in names:
                stack.enter_context(mock.patch.object(first_minutes, name, steps if name == "run_tests" else
                                                      lambda *_: {"passed": True}))
            stack.enter_context(mock.patch.object(first_minutes, "AT_ONCE", 3))
            stack.enter_context(mock.patch.dict(os.environ, {"PATH": f"{self.folder}:{os.environ['PATH']}"}))
            said = stack.enter_context(mock.patch.object(sys, "stderr", io.StringIO()))
            result = first_minutes.measure(self.folder, {}, first_minutes.Clock(1), False)
            return result, max(most), said.getvalue()

    def test_a_device_for_one_process_has_one_at_a_time(self):
        for mode in ("Exclusive_Process", "Exclusive_Thread"):
            result, most, said = self.measure_with_mode(mode)
            self.assertEqual((most, result["device"]["compute_mode"]), (1, mode))
            self.assertIn(f"the device's compute mode is {mode}: one program at a time", said)
        for mode in ("Default", "[N/A]"):
            result, most, said = self.measure_with_mode(mode)
            self.assertEqual((most, result["device"]["compute_mode"]), (3, mode))
            self.assertNotIn("one program at a time", said)

    def test_a_device_that_takes_no_process_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "NVIDIA H200 takes no program: its compute mode is Prohibited"):
            self.measure_with_mode("Prohibited")

    def look_at_machine_code(self, functions, usage="", then=""):
        """What is found where cuobjdump prints these functions: {name: an opcode}."""
        code = "".join(f"Function : {name}\n        /*0010*/  {opcode} R1, R2 ;\n" for name, opcode in functions.items())
        (self.folder / "code").write_text(code, encoding="utf-8")
        tool = self.folder / "cuobjdump"
        tool.write_text(f'#!/bin/sh\n[ "$1" = -sass ] && {{ {then or ":"} ; cat {self.folder}/code; }}\n{usage or ":"}\n',
                        encoding="utf-8")
        tool.chmod(0o755)
        with mock.patch.object(first_minutes, "program", lambda _: tool):
            return first_minutes.check_machine_code(self.folder, 86, first_minutes.Clock(2 / 60), 0)

    def test_spills_of_what_may_spill_are_none_of_plain(self):
        fine = {forward_kernel(PLAIN): "HMMA", forward_kernel(PLAIN, 192): "STL", forward_kernel(WRAPPED): "LDL"}
        found = self.look_at_machine_code(fine)
        self.assertEqual((found["passed"], found["spilling"], found["architecture"]), (True, [], "sm_80"))
        found = self.look_at_machine_code({**fine, forward_kernel(PLAIN, 64): "STL"})
        self.assertEqual((found["passed"], found["spilling"]), (False, [forward_kernel(PLAIN, 64)]))

    def test_machine_code_that_was_not_looked_at_is_no_spill(self):
        fine = {forward_kernel(PLAIN): "HMMA"}
        wrapped = {forward_kernel(WRAPPED): "STL"}
        for found, why in ((self.look_at_machine_code(fine, then="exec sleep 60"), "cuobjdump -sass ran out of time"),
                           (self.look_at_machine_code(fine, usage="exit 3"), "resource-usage ended with status 3"),
                           (self.look_at_machine_code(wrapped), "names no forward kernel of plain")):
            self.assertIsNone(found["passed"])
            self.assertIn(why, found["absent"])
            self.assertEqual(bench_import.doubts_of(good_result() | {"machine_code": found}), [])

    def test_whole_models_run_where_the_worker_does(self):
        self.assertEqual(first_minutes.run_models(self.folder, {"torch": "2.11.0"}, first_minutes.Clock(1), 0),
                         {"passed": None, "absent": "the programs hold no worker"})
        (self.folder / "phasescope-worker").touch()
        phasescope = self.folder / "phasescope"
        phasescope.write_text('#!/bin/sh\ncase "$*" in *one_billion*) exit 4 ;; esac\n'
                              'echo "{\\"rows\\": [{\\"words\\": \\"$*\\"}]}"\n', encoding="utf-8")
        phasescope.chmod(0o755)
        with mock.patch.object(first_minutes, "torch_libraries", lambda _: (str(self.folder / "torch" / "lib"), "")):
            step = first_minutes.run_models(self.folder, {"torch": "2.11.0"}, first_minutes.Clock(1), 0)
        self.assertFalse(step["passed"])
        self.assertIn("ended with status 4", step["failures"]["one_billion.json"])
        words = step["tables"]["desk_rope.json"]["rows"][0]["words"]
        self.assertTrue(words.startswith("bench step ") and "--device cuda" in words and "cuda-unverified" in words, words)
        self.assertEqual(set(carry.CONFIGS), set(first_minutes.MODELS))
        self.assertTrue(all(path.exists() for path in carry.CONFIGS.values()))

    def test_what_is_found_in_the_hopper_form_alone_does_not_count_against_the_other(self):
        self.write("true")
        tool = self.folder / "compute-sanitizer"
        tool.write_text('#!/bin/sh\ncase "$*" in *Hopper/*) exit 9 ;; esac\n', encoding="utf-8")
        tool.chmod(0o755)
        with mock.patch.object(first_minutes, "program", lambda _: tool):
            step = first_minutes.run_sanitizers(self.folder, first_minutes.Clock(1), 0, 90)
        self.assertTrue(step["passed"])
        self.assertEqual({name for name, one in step["tools"].items() if not one["passed"]},
                         {f"hopper_{name}" for name in first_minutes.SANITIZERS})


def good_result():
    whole = {"passed": 3, "failed": 0, "skipped": 0, "unfinished": 0}
    names = set().union(*bench_import.KINDS.values(), *bench_import.HOPPER.values()) | {"checks"}
    kinds = {kind: dict(whole) for kind in names}
    return {"format": bench_import.FORMAT, "emulated": False, "bundle": {"changed": False},
            "device": {"name": "NVIDIA H200", "capability": 90}, "tests": {"passed": True, "kinds": kinds},
            "sanitizers": {"passed": True, "tools": {"hopper_memcheck": {"passed": True}}}, "machine_code": {"passed": None}, "times": {"passed": True}}


class Import(unittest.TestCase):
    def test_all_that_passed_is_verified(self):
        self.assertEqual(bench_import.doubts_of(good_result()), [])

    def test_anything_else_is_not(self):
        def tape_fails(result):
            result["tests"]["kinds"]["tape"]["failed"] = 1

        def tape_is_skipped(result):
            result["tests"]["kinds"]["tape"]["skipped"] = 1

        def tape_is_absent(result):
            del result["tests"]["kinds"]["tape"]

        def there_is_another_kind(result):
            result["tests"]["kinds"]["sparse"] = result["tests"]["kinds"]["tape"]

        changes = {
            "tests of tape did not all pass": tape_fails,
            "tests of tape did not all pass ": tape_is_skipped,
            "no tests of tape": tape_is_absent,
            "tests of sparse, which no kernel is known for": there_is_another_kind,
            "compute-sanitizer is not there": lambda r: r.update(
                sanitizers={"passed": False, "absent": "compute-sanitizer is not there"}),
            "sanitizers did not pass": lambda r: r.pop("sanitizers"),
            "times did not pass": lambda r: r.update(times={"passed": False}),
            "the programs were built from changed sources": lambda r: r.update(bundle={"changed": True}),
            "the machine code of plain spills": lambda r: r.update(machine_code={"passed": False}),
        }
        for sentence, change in changes.items():
            with self.subTest(sentence):
                result = good_result()
                change(result)
                self.assertEqual(bench_import.doubts_of(result), [sentence.strip()])

    def test_whole_models_are_said(self):
        row = {"name": "desk_rope", "device": "cuda:0", "tokens_per_second": 12345.6, "to_device": 2, "to_host": 1,
               "kernel": "cuda-unverified"}
        said = bench_import.said_of_models({"tables": {"desk_rope.json": {"rows": [row]}},
                                            "failures": {"one_billion.json": "did not finish: \nmore"}})
        self.assertEqual(said, ["desk_rope on cuda:0: 12,346 tokens a second, 2 copies to the device and 1 back, attention by "
                                "cuda-unverified", "one_billion.json did not finish: "])
        self.assertEqual(bench_import.said_of_models({"passed": None, "absent": "the programs hold no worker"}), [])

    def test_the_list_keeps_other_architectures(self):
        empty = bench_import.LIST.read_text(encoding="utf-8")
        names = set(bench_import.KINDS)
        once = bench_import.with_kernels(empty, 90, names)
        self.assertEqual(once.count(", 90},"), len(bench_import.KINDS))
        self.assertTrue(once.startswith("//"))
        self.assertEqual(bench_import.with_kernels(once, 90, names), once)
        both = bench_import.with_kernels(once, 80, names)
        self.assertEqual((both.count(", 80},"), both.count(", 90},")), (len(bench_import.KINDS),) * 2)

    def test_every_kernel_of_the_sources_has_kinds_that_test_it(self):
        scores = bench_import.SCORE.findall(bench_import.SCORES.read_text(encoding="utf-8"))
        on_cuda = {name for name, passes in scores if passes}
        kinds = bench_import.KIND.findall(bench_import.KIND_LIST.read_text(encoding="utf-8"))
        self.assertEqual(set().union(*bench_import.KINDS.values()), {kind for kind, score in kinds if score in on_cuda})
        self.assertTrue(all(bench_import.KINDS.values()))
        by_hand = {path.stem.removeprefix("forward_") for path in (SOURCE / "kernels" / "cuda").glob("forward_*.cu")}
        self.assertLess(by_hand | {"plain", "plain_wide", "table_tokens"}, set(bench_import.KINDS))
        self.assertEqual(bench_import.HOPPER["hopper_table"], {"hopper_table", "hopper_table_signed"})

    def test_the_hopper_form_is_verified_by_its_own_tests(self):
        result = good_result()
        self.assertEqual(bench_import.passed_in_hopper_form(result), set(bench_import.HOPPER))
        result["tests"]["kinds"]["hopper_tapa_linear"]["failed"] = 1
        del result["tests"]["kinds"]["hopper_tape"]
        self.assertEqual(bench_import.doubts_of(result), [])
        self.assertEqual(bench_import.passed_in_hopper_form(result), {"hopper_plain", "hopper_table"})
        for tools in ({}, {"hopper_memcheck": {"passed": True}, "hopper_racecheck": {"passed": False}}):
            result["sanitizers"]["tools"] = tools
            self.assertEqual(bench_import.passed_in_hopper_form(result), set())

    def test_other_files_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "result.json"
            for text, sentence in (("{", "cannot be read"), ("{}", "is no result"), (json.dumps(
                    {**good_result(), "emulated": True}), "is of the kernels' emulation"), (json.dumps(
                        {**good_result(), "device": {}}), "does not say which device")):
                path.write_text(text, encoding="utf-8")
                with self.subTest(sentence), self.assertRaisesRegex(console.DevError, sentence):
                    bench_import.read(path)

    def test_what_passed_is_written_and_the_page_made(self):
        with tempfile.TemporaryDirectory() as folder:
            kernels, path = Path(folder) / "verified.inc", Path(folder) / "result.json"
            kernels.write_text(bench_import.LIST.read_text(encoding="utf-8"), encoding="utf-8")
            for result, count in ((good_result() | {"sanitizers": {"passed": False}}, 0),
                                  (good_result(), len(bench_import.KINDS) + len(bench_import.HOPPER))):
                path.write_text(json.dumps(result), encoding="utf-8")
                with mock.patch.object(bench_import, "LIST", kernels), mock.patch.object(bench_import, "ROOT", Path(folder)), \
                        mock.patch.object(bench_import, "show", lambda given: given), \
                        mock.patch.object(sys, "stderr", io.StringIO()):
                    self.assertEqual(bench_import.take([str(path)]), str(path))
                self.assertEqual(kernels.read_text(encoding="utf-8").count("90"), count)


class Bundle(unittest.TestCase):
    def test_programs_that_are_not_there_are_named(self):
        with tempfile.TemporaryDirectory() as folder, \
                self.assertRaisesRegex(console.DevError, "made no cuda_emulation_test, cuda_bench_emulated"):
            carry.bundle(Path(folder) / "out", Path(folder), carry.EMULATED, True)

    def test_one_that_is_too_large_is_refused(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(carry, "MOST_BYTES", 10), \
                self.assertRaisesRegex(console.DevError, "more than the"):
            carry.bundle(Path(folder), Path("/bin"), {"true": "true"}, True)

    @unittest.skipUnless(BUILD and all((Path(BUILD) / "bin" / name).exists() for name in carry.EMULATED.values()),
                         "the emulation is not built")
    def test_the_whole_way_with_the_emulation_in_place_of_a_device(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "bundle"
            self.assertLess(carry.bundle(out, Path(BUILD) / "bin", carry.EMULATED, True), carry.MOST_BYTES)
            result = Path(folder) / "result.json"
            script = loaded(out / "first_minutes.py")
            with mock.patch.object(sys, "stdout", io.StringIO()), mock.patch.object(sys, "stderr", io.StringIO()):
                self.assertEqual(script.main(["--out", str(result), "--minutes", "3"]), 0)
            said = json.loads(result.read_text(encoding="utf-8"))
            # The same tests as on a device: every kernel has its kinds among them.
            self.assertEqual(set(said["tests"]["kinds"]),
                             set().union(*bench_import.KINDS.values(), *bench_import.HOPPER.values()) | {"checks"})
            self.assertEqual({kind: one for kind, one in said["tests"]["kinds"].items() if not bench_import.whole(one)}, {})
            rows = said["times"]["table"]["rows"]
            forms = (SOURCE / "kernels" / "problems" / "bench_forms.cpp").read_text(encoding="utf-8")
            # Relative keys have no kernel there.
            self.assertEqual({row["variant"] for row in rows},
                             set(re.findall(r'\{"(\w+)",', forms)) - {"relative_keys"})
            self.assertTrue(all(row["ms"] > 0 for row in rows))
            with self.assertRaisesRegex(console.DevError, "emulation"):
                bench_import.read(result)


if __name__ == "__main__":
    python_cases.run()
