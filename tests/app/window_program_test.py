"""The window's program: the commands that its views copy run as they stand, and it keeps its session when it
is told to end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from command_line_test import PROGRAMS, InAFolder, shell

SKIPPED = 77
WRITING = "*WriteTheCommandsThatTheyCopy*"


def copied_commands(folder):
    """[(view, command)] of a first start and of a typed text, as window_test writes them."""
    file = folder / "commands.txt"
    subprocess.run([PROGRAMS / "window_test", f"--gtest_filter={WRITING}"], check=True, capture_output=True,
                   env={**os.environ, "PHASESCOPE_COMMANDS_FILE": str(file)})
    return [tuple(line.split("\t", 1)) for line in file.read_text(encoding="utf-8").splitlines()]


class Commands(InAFolder):
    def test_what_views_copy_runs_as_it_stands(self):  # 17.A10, 17.B12
        commands = copied_commands(self.folder)
        self.assertGreater(len({view for view, _ in commands}), 9)
        for view, command in dict.fromkeys(commands):
            with self.subTest(view=view, command=command):
                done = shell(command, self.folder)
                # Status 1 is what tells that a theorem check fails on a model.
                status = 1 if view == "theory" and re.search(r"(?m)^\S+ +\S+ +fails ", done.stdout) else 0
                self.assertEqual((done.returncode, done.stderr.count("phasescope: ")), (status, 0), done.stderr)


def display():
    """A display of its own, and the program that makes it."""
    read, write = os.pipe()
    server = subprocess.Popen(["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x800x24", "-nolisten", "tcp"],
                              pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as number:
        return ":" + number.readline().strip(), server


def children(process):
    """Ids of the processes that it has started."""
    lists = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(child) for each in lists for child in each.read_text().split()]


def is_there(pid):
    return Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s")
        time.sleep(0.05)


class Signals(InAFolder):
    def setUp(self):
        super().setUp()
        self.display, server = display()
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)

    def start(self, session):
        # Its files, and those of its libraries, stay in the folder.
        return subprocess.Popen(
            [PROGRAMS / "phasescope", "view", "rope", "--session", session], cwd=self.folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "DISPLAY": self.display, "HOME": str(self.folder), "LIBGL_ALWAYS_SOFTWARE": "1",
                 "XDG_CONFIG_HOME": str(self.folder), "XDG_CACHE_HOME": str(self.folder)})

    def test_risk17_the_session_is_written_before_the_program_ends(self):  # 17.A9
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(signal=number.name):
                session = self.folder / f"{number.name}.json"
                program = self.start(session)
                self.addCleanup(program.kill)
                # It listens to signals before it starts its worker.
                wait_for(lambda: program.poll() is not None or children(program))
                self.assertIsNone(program.poll(), program.stderr.read() if program.poll() is not None else "")
                workers = children(program)
                session.unlink(missing_ok=True)
                program.send_signal(number)
                _, stderr = program.communicate(timeout=60)
                self.assertEqual((program.returncode, stderr), (128 + number, ""))
                self.assertEqual(json.loads(session.read_text(encoding="utf-8"))["models"], ["rope"])
                wait_for(lambda: not any(is_there(worker) for worker in workers))

    def test_risk17_a_kill_leaves_what_was_there_a_second_before(self):  # 17.A9
        session = self.folder / "killed.json"
        program = self.start(session)
        self.addCleanup(program.kill)
        # The layout of the first frames is a change, which is written when nothing more changes.
        wait_for(lambda: program.poll() is not None or session.exists())
        self.assertIsNone(program.poll())
        workers = children(program)
        program.kill()
        program.wait(60)
        kept = json.loads(session.read_text(encoding="utf-8"))
        self.assertEqual(kept["models"], ["rope"])
        self.assertIn("[Docking]", kept["layout"])
        wait_for(lambda: not any(is_there(worker) for worker in workers))
        again = self.start(session)
        self.addCleanup(again.kill)
        wait_for(lambda: again.poll() is not None or children(again))
        self.assertIsNone(again.poll())
        again.send_signal(signal.SIGTERM)
        again.communicate(timeout=60)
        self.assertEqual(json.loads(session.read_text(encoding="utf-8"))["models"], ["rope"])


if __name__ == "__main__":
    missing = [name for name in ("phasescope", "phasescope-worker", "window_test") if not (PROGRAMS / name).exists()]
    if "Signals" in sys.argv and not shutil.which("Xvfb"):
        missing.append("Xvfb")
    if missing:
        print("skipped: there is no " + ", ".join(missing))
        sys.exit(SKIPPED)
    unittest.main()
