#!/usr/bin/env python3
"""The first `./dev run` (17.C18): the window, or its picture, before the worker is built. The programs are shell
scripts, and nothing is compiled."""

import faulthandler
import io
import json
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import build, cli, console, first_window  # noqa: E402

PATIENCE_S = 20
# Waits until the file of the worker's build says so, as the window would.
UNTIL = "for i in $(seq 400); do grep -q '\"state\": \"{}\"' {} && exit {}; sleep 0.05; done; exit 99"


class FirstRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.folder / "phasescope"
        self.status = self.folder / "worker_build.json"
        self.picture = self.folder / "window.png"
        self.said = io.StringIO()
        self.addCleanup(console.STOPPING.clear)
        shown = first_window.PICTURE[:4] + [self.picture]
        for patch in (mock.patch.object(sys, "stderr", self.said),
                      mock.patch.multiple(first_window, WINDOW=self.program, STATUS=self.status, PICTURE=shown,
                                          WORKER=self.folder / "worker", OUT=self.folder),
                      mock.patch.multiple(cli, PROGRAM=self.program, WORKER=self.folder / "worker")):
            patch.start()
            self.addCleanup(patch.stop)

    def run_it(self, window, after, display=True):
        """./dev run where the window is this script, and `after` is what the worker's build does."""

        def built(*_, window_built=None, worker_built=None, on_step=None, **__):
            self.program.write_text("#!/bin/sh\n" + window + "\n")
            self.program.chmod(0o755)
            if window_built:
                window_built()
            after(on_step)
            if worker_built:
                worker_built()

        with mock.patch.object(build, "build", built), mock.patch.object(cli, "has_display", lambda: display), \
                mock.patch.object(cli, "first_session_without_display", lambda: 0):
            return cli.main(["run"])

    def state(self):
        return json.loads(self.status.read_text())

    def test_the_window_sees_the_worker_being_built_until_it_is_there(self):
        seen = []

        def worker(on_step):
            seen.append(self.state())
            on_step(43, 117, "model/decoder.cpp")
            seen.append(self.state())

        self.assertEqual(self.run_it(UNTIL.format("done", self.status, 0), worker), 0)
        self.assertEqual(seen[0], {"state": "building", "done": 0, "total": 0, "step": "fetching LibTorch",
                                   "log": str(first_window.BUILD_LOG), "pid": os.getpid()})
        self.assertEqual((seen[1]["done"], seen[1]["total"], seen[1]["step"]), (43, 117, "model/decoder.cpp"))
        self.assertEqual(self.state()["state"], "done")

    def test_closing_the_window_ends_the_build_and_gives_its_status(self):
        def worker(_):
            console.run_quietly(["sleep", "60"], self.folder / "log", "building")

        begin = time.monotonic()
        self.assertEqual(self.run_it("sleep 0.3; exit 3", worker), 3)
        self.assertLess(time.monotonic() - begin, first_window.ENDING_S)
        self.assertIn("the window was closed: the build stops here", self.said.getvalue())
        self.assertNotIn("failed", self.said.getvalue())
        self.assertFalse(self.status.exists())

    def test_a_window_that_is_closed_is_no_failure(self):
        self.assertEqual(self.run_it("sleep 0.3", lambda _: console.run_quietly(
            ["sleep", "60"], self.folder / "log", "building")), 0)

    def test_a_failed_build_leaves_the_window_and_is_told_in_both_places(self):
        def worker(_):
            raise console.DevError("building release failed", log="the/log")

        self.assertEqual(self.run_it(UNTIL.format("failed", self.status, 0), worker), 1)
        self.assertEqual((self.state()["state"], self.state()["log"]), ("failed", "the/log"))
        self.assertIn("building release failed", self.said.getvalue())

    def test_a_window_that_leaves_when_it_is_told_ends_no_build(self):
        """The thread of the build is still on its way when the window's process is gone."""
        say = first_window.say

        def slow_to_say(text):
            time.sleep(0.5)
            say(text)

        def worker(_):
            raise console.DevError("building release failed", log="the/log")

        with mock.patch.object(first_window, "say", slow_to_say):
            self.assertEqual(self.run_it(UNTIL.format("failed", self.status, 0), worker), 1)
        self.assertEqual(self.state()["state"], "failed")
        self.assertNotIn("was closed", self.said.getvalue())

    def test_a_window_that_cannot_be_built_is_an_error(self):
        with mock.patch.object(build, "build", side_effect=console.DevError("no compiler", 7)), \
                mock.patch.object(cli, "has_display", lambda: True):
            self.assertEqual(cli.main(["run"]), 7)
        self.assertIn("no compiler", self.said.getvalue())

    def test_an_interruption_closes_the_window(self):
        with mock.patch.object(first_window.subprocess.Popen, "wait", side_effect=KeyboardInterrupt), \
                mock.patch.object(first_window.OpenedWindow, "close", autospec=True,
                                  side_effect=first_window.OpenedWindow.close) as close:
            self.assertEqual(self.run_it("exec sleep 60", lambda _: None), 130)
        (window,) = close.call_args.args
        self.assertEqual(window.process.wait(PATIENCE_S), -15)

    def test_a_worker_that_is_there_needs_no_first_window(self):
        first_window.WORKER.touch()
        with mock.patch.object(os, "execv") as execv:
            self.run_it("true", lambda _: None)
        self.assertEqual(execv.call_args.args[1], [str(self.program)])

    def test_without_a_display_the_first_picture_is_drawn_beside_the_build(self):
        drawn = self.folder / "drawn"

        def worker(_):
            end = time.monotonic() + PATIENCE_S
            while not drawn.exists() and time.monotonic() < end:
                time.sleep(0.02)
            self.assertTrue(drawn.exists())

        script = f"grep -q building {self.status} && touch {self.picture} {drawn}"
        self.assertEqual(self.run_it(script, worker, display=False), 0)
        self.assertIn("first picture: out/window.png (from the recorded session", self.said.getvalue())

    def test_a_first_picture_that_fails_is_passed_over(self):
        self.assertEqual(self.run_it(f"touch {self.picture}; exit 1", lambda _: None, display=False), 0)
        self.assertNotIn("picture", self.said.getvalue())


class Order(unittest.TestCase):
    """What is configured and built when."""

    def order(self, targets, torch_there_after, window_built=None, worker_built=None):
        """The calls of a build where LibTorch is there after so many runs of ninja."""
        calls = []

        class Fetched:
            def __init__(self, tests):
                calls.append(("fetch", tests))

            def wait_for_compiling(self):
                pass

            def has_torch(self):
                return sum(call[0] == "ninja" for call in calls) >= torch_there_after

            def wait(self):
                calls.append(("wait",))

        def configure(_, werror, torch=True, tests=True, anywhere=False):
            calls.append(("configure", torch))

        with mock.patch.multiple(build, Fetching=Fetched, configure=configure, one_at_a_time=mock.MagicMock(),
                                 ninja=lambda _, group, on_step: calls.append(("ninja", group)),
                                 in_ci=lambda: False):
            build.build("release", targets, tests=False,
                        window_built=window_built and (lambda: calls.append(("window",))),
                        worker_built=worker_built and (lambda: calls.append(("worker",))))
        return calls[1:]

    def test_the_window_and_what_is_common_come_before_libtorch(self):
        self.assertEqual(self.order([build.PROGRAMS], 9, True)[:6], [
            ("configure", False), ("ninja", [build.WINDOW]), ("window",), ("ninja", build.COMMON), ("wait",),
            ("configure", True)])
        self.assertEqual(self.order([], 9)[:4], [
            ("configure", False), ("ninja", [build.WINDOW]), ("ninja", []), ("wait",)])

    def test_when_libtorch_is_there_the_rest_begins(self):
        self.assertEqual(self.order([build.PROGRAMS], 1), [
            ("configure", False), ("ninja", [build.WINDOW]), ("wait",), ("configure", True),
            ("ninja", [build.PROGRAMS])])

    def test_the_worker_comes_before_the_verbs(self):
        self.assertEqual(self.order([build.PROGRAMS], 0, True, True)[4:], [
            ("configure", True), ("ninja", [build.WORKER]), ("worker",), ("ninja", [build.PROGRAMS])])

    def test_with_libtorch_everything_is_configured_once(self):
        self.assertEqual(self.order([build.PROGRAMS], 0, True)[:3], [
            ("configure", True), ("ninja", [build.WINDOW]), ("window",)])
        self.assertEqual(self.order(["model_test"], 0), [
            ("wait",), ("configure", True), ("ninja", ["model_test"])])

    def test_what_does_not_need_the_window_does_not_build_it(self):
        self.assertEqual(self.order(["model_test"], 9)[1], ("ninja", build.COMMON))


if __name__ == "__main__":
    faulthandler.dump_traceback_later(120, exit=True)  # a test that hangs says where
    unittest.main()
