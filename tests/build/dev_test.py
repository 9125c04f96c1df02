#!/usr/bin/env python3
"""What ./dev does by itself: pins, unpacking, marks of finished work, counting of tests."""

import faulthandler
import fcntl
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import zipfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import build, cli, console, gpu_test, machine, paths, sources, test, wheels  # noqa: E402


class Pins(unittest.TestCase):
    def test_every_wheel_is_pinned_and_hashed(self):
        self.assertIn("torch", wheels.pins())
        for line in wheels.pins().values():
            self.assertRegex(line, r"^[a-z0-9-]+==[0-9.]+ --hash=sha256:[0-9a-f]{64}$")

    def test_without_a_gpu_driver_what_only_a_gpu_needs_is_left_out(self):
        some, everything = wheels.pins(gpu=False), wheels.pins(gpu=True)
        self.assertLess({"torch", "cmake", "nvidia-cuda-runtime", "nvidia-cuda-cupti"}, set(some))
        self.assertLess(set(some), set(everything))
        self.assertNotIn("nvidia-cudnn-cu13", some)
        with mock.patch.object(wheels, "GPU_DRIVER", (os.devnull,)):
            with_driver = wheels.complete_mark()
        with mock.patch.object(wheels, "GPU_DRIVER", ("/nowhere",)):
            self.assertNotEqual(wheels.complete_mark(), with_driver)

    def test_what_libtorch_loads_everywhere_is_fetched_everywhere(self):
        library = paths.SITE / "torch" / "lib" / "libtorch_cpu.so"
        if not library.exists():
            self.skipTest("LibTorch is not there")
        loaded = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
        names = {name for name in re.findall(r"^\s*lib(\w+)\.so", loaded, re.MULTILINE)
                 if name.startswith(("cu", "nv", "nccl"))}
        self.assertEqual(names, {"cupti", "cudart"})

    def test_every_source_archive_is_pinned_and_hashed(self):
        for folder, _, version, sha256, kept in sources.pins():
            self.assertRegex(version, r"^[0-9.]+$")
            self.assertRegex(sha256, r"^[0-9a-f]{64}$")
            self.assertTrue(folder and kept)


class Unpacking(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_a_wheel_puts_programs_into_bin_and_the_rest_into_site_packages(self):
        wheel = self.folder / "x-1.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("x/lib.txt", "library")
            archive.writestr("x-1.data/scripts/tool", "#!/bin/sh\n")
            archive.writestr("x-1.data/data/share/x", "left out")
        venv = self.folder / "venv"
        with mock.patch.multiple(wheels, VENV=venv, SITE=venv / "site"):
            wheels.unpack(wheel)
        self.assertEqual((venv / "site/x/lib.txt").read_text(), "library")
        self.assertTrue(os.access(venv / "bin/tool", os.X_OK))
        self.assertEqual(len([path for path in venv.rglob("*") if path.is_file()]), 2)

    def test_a_source_archive_gives_only_what_was_asked_for(self):
        archive = self.folder / "x.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for name in ("x-1/keep/a.h", "x-1/keep/examples/b.c", "x-1/other/c.h", "x-1/keep/../../d.h"):
                tar.addfile(tarfile.TarInfo(name), io.BytesIO())
        out = self.folder / "out"
        sources.unpack(archive, out, ["keep/", "-keep/examples/"])
        self.assertEqual([str(path.relative_to(out)) for path in out.rglob("*.*")], ["keep/a.h"])

    def test_libraries_get_the_names_that_linkers_ask_for(self):
        (self.folder / "lib").mkdir()
        (self.folder / "lib/libcudart.so.13").write_text("")
        with mock.patch.object(wheels, "CUDA", self.folder):
            wheels.make_links()
            wheels.make_links()
        self.assertEqual(os.readlink(self.folder / "lib/libcudart.so"), "libcudart.so.13")
        self.assertTrue((self.folder / "lib64/libcudart.so").exists())


class Interruptions(unittest.TestCase):
    def test_a_mark_is_written_whole_or_not_at_all(self):
        with tempfile.TemporaryDirectory() as folder:
            mark = Path(folder) / "mark"
            with mock.patch.object(os, "fsync", side_effect=KeyboardInterrupt):
                self.assertRaises(KeyboardInterrupt, paths.write_mark, mark, "done")
            self.assertEqual(paths.read_mark(mark), "")
            paths.write_mark(mark, "done")
            self.assertEqual(paths.read_mark(mark), "done")

    def test_a_wheel_that_was_interrupted_leaves_no_mark(self):
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.multiple(wheels, VENV=Path(folder) / "venv", DEPS=Path(folder) / "deps"), \
                    mock.patch.object(wheels, "pip_download", side_effect=KeyboardInterrupt):
                self.assertRaises(KeyboardInterrupt, wheels.fetch_and_unpack, "x==1 --hash=sha256:0")
                self.assertFalse(wheels.mark_of("x==1 --hash=sha256:0").exists())

    def test_a_lock_is_held_until_what_was_started_under_it_is_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            lock = Path(folder) / "build.lock"
            program = (f"import sys; sys.path.insert(0, {str(SOURCE / 'tools')!r})\n"
                       "from pathlib import Path; from dev_tool import console, paths\n"
                       f"paths.DEPS = Path({folder!r})\n"
                       "with paths.one_at_a_time('build'):\n"
                       "    console.run_quietly(['sh', '-c', 'touch started; sleep 60'], 'log', 'x')\n")
            child = subprocess.Popen([sys.executable, "-B", "-c", program], start_new_session=True,
                                     stderr=subprocess.DEVNULL, cwd=folder)
            self.addCleanup(os.killpg, child.pid, signal.SIGKILL)
            self.assertTrue(self.within(20, (Path(folder) / "started").exists))
            child.kill()
            child.wait()
            self.assertTrue(self.is_locked(lock))

    @staticmethod
    def is_locked(path):
        try:
            with open(path, encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False

    @staticmethod
    def within(seconds, holds):
        end = time.monotonic() + seconds
        while not holds() and time.monotonic() < end:
            time.sleep(0.05)
        return holds()

    def test_an_end_from_outside_ends_what_was_started(self):
        program = (f"import sys; sys.path.insert(0, {str(SOURCE / 'tools')!r})\n"
                   "from dev_tool import build, cli, console\n"
                   "build.set_up = lambda: console.run_quietly(\n"
                   "    ['sh', '-c', 'touch started; exec sleep 60'], 'log', 'set-up')\n"
                   "sys.exit(cli.main(['setup']))\n")
        with tempfile.TemporaryDirectory() as folder:
            child = subprocess.Popen([sys.executable, "-B", "-c", program], stderr=subprocess.PIPE,
                                     cwd=folder)
            self.assertTrue(self.within(20, (Path(folder) / "started").exists))
            child.send_signal(signal.SIGTERM)
            said = child.communicate(timeout=20)[1]
            self.assertEqual(child.returncode, 130)
            self.assertIn(b"goes on from here", said)


class Counting(unittest.TestCase):
    REPORT = """<testsuite><testcase name="a" status="run"/><testcase name="b" status="fail"/>
        <testcase name="c" status="notrun"/><testcase name="d" status="fail"/></testsuite>"""
    CASES = """<testsuites><testsuite><testcase name="x" status="run" result="completed"/>
        <testcase name="y" status="run" result="skipped"/>{}</testsuite></testsuites>"""
    FAILURE = '<testcase name="z" status="run" result="completed"><failure message="no"/></testcase>'

    SKIPPED = """<testsuites><testsuite>
        <testcase name="x" classname="Here" status="run" result="completed"/>
        <testcase name="y" classname="Here" status="run" result="skipped">
            <skipped message="a_test.cpp:7&#x0A;no references beside the project"/></testcase>
        <testcase name="z" classname="{}" status="run" result="skipped">
            <skipped message="a_test.cpp:9&#x0A;{}"/></testcase></testsuite></testsuites>"""

    def count(self, **cases):
        return self.counted(**cases).line()

    def counted(self, **cases):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "ctest-report.xml"
            report.write_text(self.REPORT)
            for name, text in cases.items():
                (Path(folder) / f"{name}.xml").write_text(text)
            counts = test.Counts()
            test.count_report(report, Path(folder), counts)
        return counts

    def test_without_case_files_ctest_is_counted(self):
        self.assertEqual(self.count(), "1 passed, 2 failed, 1 skipped")

    def test_cases_are_counted_where_a_program_wrote_them(self):
        self.assertEqual(self.count(a=self.CASES.format("")), "1 passed, 2 failed, 2 skipped")
        self.assertEqual(self.count(b=self.CASES.format(self.FAILURE)), "2 passed, 2 failed, 2 skipped")

    def test_what_is_skipped_is_told_by_name_with_its_reason(self):
        lacking = self.counted(a=self.SKIPPED.format("There", "no sshd on this machine")).lacking()
        self.assertIn("skipped, no references beside the project: Here.y", lacking)
        self.assertIn("skipped, no sshd on this machine: There.z", lacking)
        self.assertIn("skipped, it did not say why: c", lacking)

    def test_every_family_is_named(self):
        reason = "no references beside the project"
        lacking = self.counted(a=self.SKIPPED.format("There", reason)).lacking()
        self.assertIn(f"skipped, {reason}: Here.y, There.z", lacking)

    def test_cases_that_a_python_test_skips_are_named(self):
        said = ("<system-out>..s\nOK (skipped=1)\nskipped case Packages.test_deb: this system makes no packages\n"
                "</system-out>")
        report = self.REPORT.replace('name="a" status="run"/>', f'name="a" status="run">{said}</testcase>')
        with mock.patch.object(type(self), "REPORT", report):
            counts = self.counted()
        self.assertEqual(counts.line(), "1 passed, 2 failed, 2 skipped")
        self.assertIn("skipped, this system makes no packages: a, Packages.test_deb", counts.lacking())
        self.assertEqual(counts.empty_families(), ["c"])

    def test_a_python_test_names_what_it_skips(self):
        program = ("import sys, unittest\nsys.path.insert(0, {!r})\nimport python_cases\n"
                   "class Cases(unittest.TestCase):\n"
                   "    @unittest.skip('no moon')\n    def test_a(self): pass\n{}"
                   "if __name__ == '__main__': python_cases.run()\n")
        more = "    def test_b(self): self.assertEqual(1, {})\n"
        for rest, status, said in (("", 77, "skipped: no moon"), (more.format(1), 0, "skipped case Cases.test_a: no moon"),
                                   (more.format(2), 1, "skipped case Cases.test_a: no moon")):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "a_test.py"
                path.write_text(program.format(str(SOURCE / "tests"), rest), encoding="utf-8")
                done = subprocess.run([sys.executable, "-B", path], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (status, said))

    def test_a_family_of_which_nothing_ran_is_a_failure_in_ci(self):
        counts = self.counted(a=self.SKIPPED.format("There", "no sshd on this machine"))
        counts.failed = 0
        self.assertEqual(counts.empty_families(), ["There", "c"])
        with mock.patch.object(sys, "stderr", io.StringIO()) as said:
            with mock.patch.dict(os.environ, {"CI": ""}):
                self.assertTrue(test.told(counts))
            with mock.patch.dict(os.environ, {"CI": "true"}):
                self.assertFalse(test.told(counts))
        self.assertIn("nothing ran of There, c, and CI runs all", said.getvalue())

    def test_known_gaps_are_no_want_of_something(self):
        counts = self.counted(a=self.SKIPPED.format("There", "its term has no fused form"))
        self.assertEqual(counts.empty_families(), ["c"])
        self.assertEqual(len(counts.lacking()), 2)

    def test_a_crash_after_good_cases_is_a_failure(self):
        self.assertEqual(self.count(b=self.CASES.format("")), "2 passed, 2 failed, 2 skipped")

    def test_a_cut_case_file_is_a_failure(self):
        self.assertEqual(self.count(b=self.CASES[:60]), "1 passed, 2 failed, 1 skipped")


class Sanitizers(unittest.TestCase):
    """Which builds and which of their tests the sanitizers get."""

    def runs(self, long, clang):
        ran = []

        def ctest(folder, arguments, *_):
            ran.append((folder.name, arguments[arguments.index("-R") + 1]))
            return folder.name != "tsan"  # one that fails fails all, and the rest still runs

        which = {"clang++": "/usr/bin/clang++"} if clang else {}
        with mock.patch.object(test.build, "build", lambda preset, *_, **__: Path("build") / preset), \
                mock.patch.object(test, "run_ctest", ctest), mock.patch.object(test.shutil, "which", which.get):
            good = (test.long_sanitizers if long else test.quick_sanitizers)([], test.Counts(), False)
        return dict(ran), good

    def test_what_compiles_quickly_is_looked_at_every_time(self):
        ran, good = self.runs(long=False, clang=True)
        self.assertTrue(good)
        self.assertEqual(list(ran), ["asan"])
        for name in ("formats", "training_core", "worker_core", "fuzz_job_folder_3s"):
            self.assertRegex(name, ran["asan"])

    def test_long_has_kernels_window_races_and_libfuzzer_where_clang_is(self):
        ran, good = self.runs(long=True, clang=True)
        self.assertFalse(good)
        self.assertEqual(list(ran), ["asan-all", "tsan", "fuzz"])
        for name in ("kernels", "window", "fuzz_session_60s", "fuzz_gguf_3s"):
            self.assertRegex(name, ran["asan-all"])
        self.assertNotRegex("fuzz_gguf_60s", ran["asan-all"])
        self.assertRegex("fuzz_gguf_60s", ran["fuzz"])
        self.assertRegex("kernels_threads", ran["tsan"])

    def test_without_clang_every_target_has_its_minute_by_mutations(self):
        ran, _ = self.runs(long=True, clang=False)
        self.assertEqual(list(ran), ["asan-all", "tsan"])
        self.assertRegex("fuzz_gguf_60s", ran["asan-all"])

    def test_every_preset_is_one_of_the_builds(self):
        presets = json.loads((paths.ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
        self.assertEqual({one["name"] for one in presets if not one.get("hidden")}, set(build.PRESETS))


class GpuTests(unittest.TestCase):
    """./dev test --gpu, with the builds and the test run left out."""

    def run_it(self, gpu, tools, good=True):
        """Its status, and the names of what it called."""
        calls = []

        def called(name, result):
            return lambda *_, **__: calls.append(name) or result

        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(gpu_test, "FOLDER", Path(folder)), \
                mock.patch.object(gpu_test, "has_gpu", lambda: gpu), \
                mock.patch.object(gpu_test, "python_torch", lambda: None), \
                mock.patch.object(gpu_test, "first", lambda _: Path("there") if tools else None), \
                mock.patch.object(gpu_test, "one_at_a_time", mock.MagicMock()), \
                mock.patch.object(gpu_test, "run_quietly", called("build", None)), \
                mock.patch.object(test, "run_ctest", called("ctest", good)), \
                mock.patch.object(sys, "stderr", io.StringIO()) as said:
            return gpu_test.test([]), calls, said.getvalue()

    def test_without_a_gpu_nothing_is_built_and_all_is_well(self):
        status, calls, said = self.run_it(gpu=False, tools=False)
        self.assertEqual((status, calls), (0, []))
        self.assertIn("there is no GPU here", said)

    def test_with_a_gpu_the_tests_are_built_and_run(self):
        self.assertEqual(self.run_it(gpu=True, tools=True)[:2], (0, ["build", "build", "ctest"]))
        self.assertEqual(self.run_it(gpu=True, tools=True, good=False)[0], 1)

    def test_with_a_gpu_missing_tools_are_named(self):
        with self.assertRaisesRegex(console.DevError, "nvcc, torch$"):
            self.run_it(gpu=True, tools=False)


class Options(unittest.TestCase):
    def test_everybody_has_precompiled_headers_and_ci_warnings_as_errors(self):
        for ci, want in (("true", {"-DPHASESCOPE_PCH=ON", "-DPHASESCOPE_WERROR=ON"}),
                         ("", {"-DPHASESCOPE_PCH=ON", "-DPHASESCOPE_WERROR=OFF"})):
            with mock.patch.dict(os.environ, {"CI": ci}):
                words = {word for word in build.options("release", werror=False)
                         if "PCH" in word or "WERROR" in word}
            self.assertEqual(words, want)

    def test_no_cuda_is_compiled_where_no_driver_is_and_nobody_asks(self):  # 17.C17
        here = {"CI": "", wheels.ASKED_FOR_CUDA: ""}
        with mock.patch.object(wheels, "has_gpu_driver", lambda: False), \
                mock.patch.object(wheels, "CUDA", Path("/nowhere")):
            with mock.patch.dict(os.environ, here):
                self.assertFalse(wheels.wants_nvcc())
            for asked in ({"CI": "true"}, {wheels.ASKED_FOR_CUDA: "1"}):
                with mock.patch.dict(os.environ, here | asked):
                    self.assertTrue(wheels.wants_nvcc())
        with mock.patch.object(wheels, "has_gpu_driver", lambda: True), mock.patch.dict(os.environ, here):
            self.assertTrue(wheels.wants_nvcc())

    def words(self, **how):
        with mock.patch.object(wheels, "wants_nvcc", lambda: True), \
                mock.patch.object(build, "CUDA", Path("/")), mock.patch.object(Path, "exists", lambda _: True):
            return build.options("release", False, **how)

    def test_what_leaves_ci_has_kernels_that_devices_run(self):
        with mock.patch.dict(os.environ, {"CI": "true"}):
            self.assertLess({"-DCMAKE_CUDA_FLAGS=-Xcicc -O0", "-DPHASESCOPE_CUDA_ARCHITECTURES=80-virtual"},
                            set(self.words()))
            self.assertLess({"-DCMAKE_CUDA_FLAGS=", "-DPHASESCOPE_CUDA_ARCHITECTURES="},
                            set(self.words(anywhere=True)))

    def test_without_libtorch_nothing_that_needs_it_is_configured(self):
        self.assertLess({"-DPHASESCOPE_TORCH_DIR=", "-DPHASESCOPE_CUDA=OFF"}, set(self.words(torch=False)))
        self.assertLess({f"-DPHASESCOPE_TORCH_DIR={paths.SITE}/torch", "-DPHASESCOPE_CUDA=ON"},
                        set(self.words(torch=True)))

    def test_the_programs_alone_are_built_without_the_tests_until_those_are_asked_for(self):
        # Tests run what lesser processors would; the programs alone have this one's kernels.
        alone = {"-DPHASESCOPE_TESTS=OFF", "-DPHASESCOPE_SIMD_ALONE=ON"}
        tested = {"-DPHASESCOPE_TESTS=ON", "-DPHASESCOPE_SIMD_ALONE=OFF"}
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(build, "BUILD", Path(folder)):
            self.assertLess(alone, set(build.options("release", False, tests=False)))
            self.assertLess(tested, set(build.options("release", False, tests=True)))
            cache = Path(folder) / "release" / "CMakeCache.txt"
            cache.parent.mkdir()
            for before, want in (("ON", tested), ("OFF", alone)):
                cache.write_text(f"PHASESCOPE_TESTS:BOOL={before}\n")
                self.assertLess(want, set(build.options("release", False, tests=False)))

    def test_kernels_are_compiled_for_this_processor_unless_they_leave_it(self):
        with mock.patch.object(machine, "simd", lambda: "avx2"):
            for preset in ("release", "asan"):
                self.assertIn("-DPHASESCOPE_SIMD=avx2", build.options(preset, False))
                self.assertIn("-DPHASESCOPE_SIMD=all", build.options(preset, False, anywhere=True))

    def test_a_processor_is_known_by_the_best_of_its_instruction_sets(self):
        flags = sorted(set().union(*machine.SIMD.values()))
        for lacking, want in (("", "avx3"), ("avx512bw", "avx2"), ("fma", "sse4"), ("aes", "all")):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "cpuinfo"
                path.write_text("model name\t: X\nflags\t\t: " + " ".join(f for f in flags if f != lacking) + "\n")
                with mock.patch.object(machine, "CPUINFO", path):
                    self.assertEqual(machine.simd(), want)


class Times(unittest.TestCase):
    def test_object_files_of_a_folder_count_once_and_since_a_time(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / ".ninja_log"
            log.write_text("# ninja log v6\n"
                           "0\t9000\t99\tkernels/old.o\tf\n"
                           "0\t1500\t100\tkernels/a.o\tf\n"
                           "0\t2500\t101\tkernels/a.o\tf\n"
                           "500\t1000\t102\tkernels/cuda/b.o\tf\n"
                           "0\t700\t102\tkernels/libkernels.a\tf\n"
                           "0\t800\t102\tmodel/c.o\tf\n", encoding="utf-8")
            self.assertEqual(build.compiled(log, "kernels/", 100), (2, 3.0))
            self.assertIn("kernels/: 2 files in 3 s", build.kernels_line(Path(folder), 100))
            self.assertEqual(build.slowest_line(Path(folder), 100),
                             "slowest to compile: kernels/a 2 s, model/c 1 s, kernels/cuda/b 0 s")
        self.assertEqual(build.compiled(log, "kernels/", 0), (0, 0))


class Verbs(unittest.TestCase):
    def setUp(self):
        silence = mock.patch.object(sys, "stderr", io.StringIO())
        silence.start()
        self.addCleanup(silence.stop)

    def test_unknown_words_are_bad_usage(self):
        self.assertEqual(cli.main(["doctor", "--colour"]), 2)

    def test_alone_it_says_what_it_can_do(self):
        self.assertEqual(cli.main([]), 2)
        self.assertEqual([verb for verb in cli.VERBS if f"\n    {verb} " not in sys.stderr.getvalue()], [])

    def test_what_follows_run_belongs_to_the_program(self):
        with mock.patch.object(build, "build"), mock.patch.object(os, "execv") as execv, \
                mock.patch.object(cli, "PROGRAM", Path(sys.executable)):
            cli.main(["run", "capture", "rope", "--help"])
        self.assertEqual(execv.call_args.args[1][1:], ["capture", "rope", "--help"])

    def test_cuda_before_the_programs_own_arguments_is_ours(self):
        for given, want in ((["--cuda", "map", "--cuda"], ["map", "--cuda"]), (["map", "--cuda"], None)):
            with mock.patch.object(build, "build"), mock.patch.object(os, "execv") as execv, \
                    mock.patch.object(cli, "PROGRAM", Path(sys.executable)), \
                    mock.patch.dict(os.environ, {wheels.ASKED_FOR_CUDA: ""}):
                cli.main(["run", *given])
                asked = os.environ[wheels.ASKED_FOR_CUDA] == "1"
            self.assertEqual((execv.call_args.args[1][1:], asked), (want or given, want is not None))

    def test_build_and_test_take_cuda_too(self):
        for verb, called in (("build", (build, "build")), ("test", (test, "test"))):
            with mock.patch.object(*called, return_value=0), \
                    mock.patch.dict(os.environ, {wheels.ASKED_FOR_CUDA: ""}):
                cli.main([verb, "--cuda"])
                self.assertEqual(os.environ[wheels.ASKED_FOR_CUDA], "1")

    def test_a_recording_is_made_by_the_program_that_was_built(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(build, "build") as built, \
                mock.patch.object(cli, "ROOT", Path(folder)), \
                mock.patch.object(cli, "RECORDING", Path(folder) / "first"), \
                mock.patch.object(cli, "run_on_stderr", return_value=0) as ran:
            self.assertEqual(cli.main(["record"]), 0)
            self.assertEqual(ran.call_args.args[0], ["view", "--record", cli.RECORDING])
        self.assertEqual(built.call_args.args[1], ["phasescope_programs"])

    def test_further_options_of_test_go_to_ctest(self):
        with mock.patch.object(test, "test", return_value=0) as run:
            cli.main(["test", "--quick", "-R", "formats"])
        self.assertEqual(run.call_args.args, (True, False, False, ["-R", "formats"]))

    def test_an_interruption_says_how_to_go_on(self):
        with mock.patch.object(build, "set_up", side_effect=KeyboardInterrupt):
            self.assertEqual(cli.main(["setup"]), 130)
        self.assertIn("goes on from here", sys.stderr.getvalue())

    def test_progress_names_the_source_file(self):
        words = "Building CXX object app/CMakeFiles/phasescope_app.dir/cli/cli.cpp.o"
        self.assertEqual(console.short_step(words), "app/cli/cli.cpp")

    def test_a_failing_program_shows_its_output(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(console.DevError, "step failed with status 3"):
                console.run_quietly(["sh", "-c", "echo the reason; exit 3"], Path(folder) / "log", "step")
        self.assertIn("the reason", sys.stderr.getvalue())


if __name__ == "__main__":
    faulthandler.dump_traceback_later(120, exit=True)  # a test that hangs says where
    python_cases.run()
