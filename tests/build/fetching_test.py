#!/usr/bin/env python3
"""What ./dev fetches (17.C17, 17.C19): Debian packages, wheels and archives beside each other, and what it says of a
machine that cannot build. Nothing is downloaded here."""

import contextlib
import faulthandler
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import (background, console, debian, fetching, machine, other_systems,  # noqa: E402
                      paths, wheels)

PATIENCE_S = 20


class Quiet(unittest.TestCase):
    """Each test has a folder of its own for what ./dev writes, and what it says is kept."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        console.STOPPING.clear()
        self.addCleanup(console.STOPPING.clear)
        self.replace(paths, DEPS=self.folder)
        self.said = io.StringIO()
        silence = mock.patch.object(sys, "stderr", self.said)
        silence.start()
        self.addCleanup(silence.stop)

    def replace(self, module, **values):
        patch = mock.patch.multiple(module, **values)
        patch.start()
        self.addCleanup(patch.stop)


class Machine(Quiet):
    def test_other_processors_and_old_c_libraries_are_refused(self):
        machine.check()
        with mock.patch.object(machine.platform, "machine", lambda: "aarch64"):
            self.assertRaisesRegex(console.DevError, "aarch64", machine.check)
        with mock.patch.object(machine.os, "confstr", lambda _: "glibc 2.27"):
            self.assertRaisesRegex(console.DevError, r"2\.27.*2\.28", machine.check)
        with mock.patch.object(machine.os, "confstr", side_effect=ValueError):
            self.assertRaisesRegex(console.DevError, "not glibc", machine.check)

    def test_an_old_compiler_and_an_old_json_are_named(self):
        header = self.folder / "json.hpp"
        header.write_text("#define NLOHMANN_JSON_VERSION_MAJOR 3\n#define NLOHMANN_JSON_VERSION_MINOR 10\n")
        with mock.patch.object(machine, "output_of", lambda _: "11.4.0"), \
                mock.patch.object(machine, "JSON_HEADERS", ("/nowhere",)):
            machine.check_compiler()
            with mock.patch.object(machine, "output_of", lambda _: "10.2.1"):
                self.assertRaisesRegex(console.DevError, "g.. 11 or newer", machine.check_compiler)
            with mock.patch.object(machine, "JSON_HEADERS", ("/nowhere", header)):
                self.assertRaisesRegex(console.DevError, r"3\.10, and 3\.11 is needed", machine.check_compiler)

    def test_a_python_without_pip_is_told_what_to_type(self):
        with mock.patch.object(machine, "output_of", lambda _: None):
            self.assertRaisesRegex(console.DevError, "install -y python3-pip", machine.check_pip)

    def test_too_small_a_disk_is_named(self):
        machine.check_disk(1, self.folder)
        self.assertRaisesRegex(console.DevError, "about 1000000.0 GB", machine.check_disk, 10**15, self.folder)

    def limits(self, files, cores=8):
        """(cores, memory) on a machine of so many cores with these files of limits."""
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text + "\n")
        with mock.patch.object(machine, "CGROUPS", self.folder), \
                mock.patch.object(machine.os, "sched_getaffinity", lambda _: set(range(cores))), \
                mock.patch.object(machine.os, "sysconf", lambda name: 1 << 20 if "PHYS" in name else 1 << 16), \
                mock.patch.object(machine.os, "cpu_count", lambda: cores):
            return machine.cores(), machine.memory(), machine.jobs(), machine.limits_line()

    def test_without_limits_the_whole_machine_is_used(self):
        self.assertEqual(self.limits({"cpu.max": "max 100000", "memory.max": "max"}), (8, 64 << 30, 8, ""))

    def test_a_container_of_version_2_limits_cores_and_memory(self):
        found = self.limits({"cpu.max": "350000 100000", "memory.max": str(5 << 30)})
        self.assertEqual(found[:3], (3, 5 << 30, 2))
        self.assertIn("2 compile jobs at once, there being 5.0 GiB of memory", found[3])

    def test_a_container_of_version_1_limits_cores_and_memory(self):
        found = self.limits({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000",
                             "memory/memory.limit_in_bytes": str(9 << 30)})
        self.assertEqual(found[:3], (1, 9 << 30, 1))
        self.assertIn("1 compile job at once, there being 1 of 8 cores", found[3])


class DebianPackages(Quiet):
    def setUp(self):
        super().setUp()
        self.replace(debian, DEPS=self.folder, ABSENT=self.folder / "absent", WITHOUT=self.folder / "without",
                     UNFINISHED=self.folder / "none", output_of=lambda *_, **__: "yes")
        self.replace(debian.shutil, which=lambda name: name)
        self.calls = []

    def install(self, missing, allowed, fails=lambda command: False, tests=True):
        """What apt-get is called with where all but `missing` is there and some commands fail."""
        there = {package.name for package in debian.wanted()} - set(missing)

        def run(command, *_, **__):
            self.calls.append(command)
            if fails(command):
                raise console.DevError("apt-get failed")
            there.update(command)

        with mock.patch.object(debian, "installed", lambda names: set(names) & there), \
                mock.patch.object(debian, "apt_prefix", lambda: ["env"] if allowed else None), \
                mock.patch.object(debian, "run_quietly", run):
            return debian.install(tests)

    def test_the_list_is_read_with_its_marks(self):
        packages = {package.name: package for package in debian.wanted()}
        self.assertEqual(packages["g++"], ("g++", False, False, "compiler"))
        self.assertEqual(packages["xvfb"][1:3], (True, True))
        self.assertTrue(packages["ccache"].optional)
        self.assertNotIn("libgtest-dev", [package.name for package in debian.wanted(tests=False)])

    def test_without_the_right_to_install_what_is_needed_is_named(self):
        with self.assertRaisesRegex(console.DevError, r"type\n  sudo apt-get install .* libhwy-dev$"):
            self.install({"libhwy-dev", "ccache"}, allowed=False)

    def test_without_the_right_to_install_what_is_optional_is_said_once(self):
        self.install({"ccache"}, allowed=False)
        self.assertIn("ccache (makes rebuilding quick)", self.said.getvalue())
        said = self.said.getvalue()
        self.assertFalse(self.install({"ccache"}, allowed=False))
        self.assertEqual(self.said.getvalue(), said)
        debian.try_again()
        self.assertTrue(self.install({"ccache"}, allowed=False))

    def test_the_programs_do_not_ask_for_what_only_tests_need(self):
        self.assertFalse(self.install({"libgtest-dev", "xvfb"}, allowed=False, tests=False))
        self.assertRaises(console.DevError, self.install, {"libgtest-dev"}, allowed=False)

    def test_without_a_network_what_is_optional_is_left(self):
        self.install({"ccache", "xauth"}, allowed=True, fails=lambda command: "update" in command)
        self.assertEqual(len(self.calls), 1)
        self.assertRegex(self.said.getvalue(), r"going on without optional .*ccache.*xauth")

    def test_what_is_needed_is_tried_alone_where_all_together_fail(self):
        self.install({"ccache", "libhwy-dev"}, allowed=True, fails=lambda command: "ccache" in command)
        self.assertEqual(self.calls[-1][-1], "libhwy-dev")
        self.assertNotIn("ccache", self.calls[-1])

    def test_what_is_needed_and_cannot_be_installed_stops(self):
        self.assertRaises(console.DevError, self.install, {"libhwy-dev"}, allowed=True,
                          fails=lambda command: "install" in command)

    def test_an_end_from_outside_is_no_missing_package(self):
        def stopped(_):
            raise console.Stopped()

        self.assertRaises(console.Stopped, self.install, {"ccache"}, allowed=True, fails=stopped)
        self.assertNotIn("going on without", self.said.getvalue())


class OtherSystems(Quiet):
    def test_what_is_missing_is_named_as_it_is_called_there(self):
        for manager, name in (("dnf", "json-devel"), ("pacman", "nlohmann-json"), ("zypper", "nlohmann_json-devel")):
            with mock.patch.object(other_systems.shutil, "which", lambda word, it=manager: word == it), \
                    mock.patch.object(other_systems, "output_of",
                                      lambda command: None if "json" in command[-1] else "there"):
                self.assertRegex(other_systems.what_is_needed(), rf"sudo {manager} .*{name}\n")
                with mock.patch.object(other_systems, "output_of", lambda _: "there"):
                    self.assertEqual(other_systems.what_is_needed(), "")

    def test_it_is_said_once(self):
        self.replace(other_systems, SAID=self.folder / "said", what_is_needed=lambda: "type this")
        other_systems.say_what_is_needed()
        other_systems.say_what_is_needed()
        self.assertEqual(self.said.getvalue().count("type this"), 1)


class Wheels(Quiet):
    OLD, NEW, OTHER = "torch==1 --hash=sha256:0", "torch==2 --hash=sha256:1", "x==1 --hash=sha256:2"

    def setUp(self):
        super().setUp()
        self.replace(wheels, DEPS=self.folder / "deps", VENV=self.folder / "venv", SITE=self.folder / "venv/site",
                     CUDA=self.folder / "venv/site/cuda", COMPLETE=self.folder / "venv/complete",
                     pip_download=self.download)
        self.replace(machine, check_pip=lambda: None)
        (wheels.CUDA / "lib").mkdir(parents=True)
        self.driver(False)
        self.fetched = []

    def driver(self, there):
        self.replace(wheels, GPU_DRIVER=(os.devnull,) if there else ("/nowhere",))

    def pin(self, *lines):
        self.replace(wheels, pins=lambda *_: {line.split("==")[0]: line for line in lines})

    def download(self, line, folder):
        """A wheel with what is of interest in LibTorch's."""
        name, version = re.match(r"([a-z]+)==(\d+)", line).groups()
        self.fetched.append(name)
        folder.mkdir(parents=True)
        members = [f"{name}/lib/lib{name}_cpu.so", f"{name}/lib/lib{name}_cuda.so", f"{name}/include/{name}.h",
                   f"{name}/a.py", f"{name}/only_{version}.h"]
        record = f"{name}-{version}.dist-info/RECORD"
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
            for member in members:
                archive.writestr(member, line)
            archive.writestr(record, "".join(f"{member},sha256=x,1\n" for member in [*members, record]))

    def files(self):
        return {str(path.relative_to(wheels.SITE)) for path in wheels.SITE.rglob("*") if path.is_file()}

    def test_without_a_driver_the_cuda_half_is_not_unpacked_and_a_driver_brings_it(self):
        self.pin(self.NEW)
        self.assertTrue(wheels.install())
        self.assertIn("torch/lib/libtorch_cpu.so", self.files())
        self.assertIn("torch/include/torch.h", self.files())
        self.assertFalse({"torch/lib/libtorch_cuda.so", "torch/a.py"} & self.files())
        self.assertFalse(wheels.install())
        self.driver(True)
        wheels.COMPLETE.unlink()
        self.assertTrue(wheels.install())
        self.assertIn("torch/lib/libtorch_cuda.so", self.files())
        # A driver that goes takes nothing with it.
        self.driver(False)
        wheels.COMPLETE.unlink()
        self.assertFalse(wheels.install())

    def test_a_driver_asks_for_more_than_what_is_complete_without(self):
        without = wheels.complete_mark()
        self.driver(True)
        self.assertNotEqual(wheels.complete_mark(), without)

    def test_what_is_left_out_is_nothing_that_the_worker_loads(self):
        library = paths.SITE / "torch" / "lib"
        if not library.exists():
            self.skipTest("LibTorch is not there")
        loaded = subprocess.run(["ldd", library / "libtorch_cpu.so", library / "libc10.so"], timeout=PATIENCE_S,
                                capture_output=True, text=True, check=True).stdout
        names = set(re.findall(r"^\s*(lib\S+\.so\S*) =>", loaded, re.MULTILINE))
        self.assertIn("libc10.so", names)
        for name in [*names, "libtorch_cpu.so"]:
            self.assertIsNone(wheels.TORCH_WITHOUT_GPU.match(f"torch/lib/{name}"), name)
        self.assertIsNone(wheels.TORCH_WITHOUT_GPU.match("torch-2.11.0.dist-info/licenses/LICENSE"))
        for name in ("torch/lib/libtorch_cuda.so", "torch/lib/libtorch.so", "torch/bin/protoc", "torch/nn/x.py"):
            self.assertIsNotNone(wheels.TORCH_WITHOUT_GPU.match(name), name)

    def test_a_changed_pin_fetches_that_wheel_alone(self):
        self.pin(self.OLD, self.OTHER)
        wheels.install()
        self.pin(self.NEW, self.OTHER)
        wheels.install()
        self.assertEqual(sorted(self.fetched[:2]) + self.fetched[2:], ["torch", "x", "torch"])
        self.assertIn("torch/only_2.h", self.files())
        self.assertIn("x/only_1.h", self.files())
        self.assertFalse({"torch/only_1.h", "torch-1.dist-info/RECORD"} & self.files())
        self.assertFalse(wheels.mark_of(self.OLD, part=True).exists())

    def test_a_wheel_that_was_fetched_and_not_unpacked_is_not_fetched_again(self):
        self.pin(self.NEW)
        with mock.patch.object(wheels, "unpack", side_effect=console.Stopped):
            self.assertRaises(console.Stopped, wheels.install)
        self.assertEqual(self.files(), set())
        wheels.install()
        self.assertEqual(self.fetched, ["torch"])
        self.assertIn("torch/lib/libtorch_cpu.so", self.files())

    def test_a_removal_that_was_interrupted_is_done_again(self):
        self.pin(self.OLD, self.OTHER)
        wheels.install()
        self.pin(self.OTHER)
        with mock.patch.object(wheels, "remove", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, wheels.drop_outdated)
        wheels.drop_outdated()
        self.assertNotIn("torch/only_1.h", self.files())

    def test_cmake_and_ninja_are_told_of_before_libtorch_is_there(self):
        tools_there, unpacked = threading.Event(), []

        def fetch(line):
            if line.startswith("torch"):
                self.assertTrue(tools_there.wait(PATIENCE_S))
            unpacked.append(line.split("==")[0])
            paths.write_mark(wheels.mark_of(line), "x")
            return line

        self.pin("torch==1 --hash=0", "cmake==1 --hash=0", "ninja==1 --hash=0")
        self.replace(wheels, fetch_and_unpack=fetch)
        wheels.install(tools_there)
        self.assertEqual(unpacked[-1], "torch")


class Threads(Quiet):
    def test_a_lock_keeps_two_threads_apart_and_lets_both_through(self):
        inside, most = [], []

        def work():
            with paths.one_at_a_time("x"):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.05)
                inside.pop()

        works = [background.Background("x", work) for _ in range(4)]
        self.assertTrue(all(one.join(PATIENCE_S) for one in works))
        self.assertEqual(most, [1, 1, 1, 1])

    def test_programs_start_while_locks_come_and_go(self):
        def lock():
            for _ in range(200):
                with paths.one_at_a_time("y"):
                    pass

        work = background.Background("lock", lock)
        started = 0
        while started == 0 or (not work.done() and started < 1000):
            console.run_quietly(["true"], self.folder / "log", "true")
            started += 1
        work.wait()
        self.assertGreater(started, 0)
        self.assertEqual(console.INHERITED, set())

    def test_an_end_reaches_programs_of_other_threads_and_none_starts_after(self):
        started = self.folder / "started"
        work = background.Background("sleep", lambda: console.run_quietly(
            ["sh", "-c", f"touch {started}; exec sleep 60"], self.folder / "log", "sleep"))
        end = time.monotonic() + PATIENCE_S
        while not started.exists() and time.monotonic() < end:
            time.sleep(0.02)
        console.end_running()
        self.assertTrue(work.join(PATIENCE_S))
        self.assertRaises(console.Stopped, work.wait)
        self.assertRaises(console.Stopped, console.run_quietly, ["true"], self.folder / "log", "true")

    def test_progress_of_what_goes_on_beside_stays_unseen(self):
        def progress(text):
            with mock.patch.object(console, "_last_progress", -1e9):
                console.progress(text)

        background.Background("x", lambda: progress("beside")).join(PATIENCE_S)
        progress("shown")
        with console.showing(None):
            background.Background("x", lambda: progress("while waiting")).join(PATIENCE_S)
        self.assertNotIn("beside", self.said.getvalue())
        self.assertIn("shown", self.said.getvalue())
        self.assertIn("while waiting", self.said.getvalue())


class Together(Quiet):
    """Debian packages, archives and wheels, each replaced by a wait for the others."""

    def start(self, **parts):
        works = {"packages": lambda _: False, "archives": lambda: False, "wheels": lambda tools: False, **parts}
        self.replace(fetching.debian, install=works["packages"])
        self.replace(fetching.sources, install=works["archives"])
        self.replace(fetching.wheels, install=works["wheels"])
        self.replace(fetching.machine, check_compiler=lambda: None)
        return fetching.Fetching()

    def test_all_three_go_on_at_once(self):
        meeting = threading.Barrier(3)

        def meet(*_):
            meeting.wait(PATIENCE_S)
            return True

        self.start(packages=meet, archives=meet, wheels=meet).wait()
        self.assertRegex(self.said.getvalue(), "fetched: Debian packages in .* Dear ImGui in .* LibTorch and tools in")

    def test_compiling_does_not_wait_for_libtorch(self):
        arrives = threading.Event()
        self.addCleanup(arrives.set)

        def fetch(tools):
            tools.set()
            arrives.wait(PATIENCE_S)

        all_of_it = self.start(wheels=fetch)
        all_of_it.wait_for_compiling()
        self.assertFalse(all_of_it.has_torch())
        arrives.set()
        all_of_it.wait()
        self.assertTrue(all_of_it.has_torch())

    def test_a_failed_download_of_libtorch_is_told_after_the_window(self):
        def fail(tools):
            tools.set()
            raise console.DevError("no network")

        for tools_are_there in (True, False):
            with mock.patch.object(wheels, "there", lambda _, it=tools_are_there: it):
                all_of_it = self.start(wheels=fail)
                with contextlib.nullcontext() if tools_are_there else self.assertRaises(console.DevError):
                    all_of_it._wheels.join(PATIENCE_S)
                    all_of_it.wait_for_compiling()
                self.assertRaises(console.DevError, all_of_it.wait)

    def test_nothing_is_said_where_all_is_there(self):
        self.start().wait()
        self.assertEqual(self.said.getvalue(), "")


if __name__ == "__main__":
    faulthandler.dump_traceback_later(120, exit=True)  # a test that hangs says where
    python_cases.run()
