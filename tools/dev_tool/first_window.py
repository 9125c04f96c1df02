"""The first `./dev run`: a window as soon as its program is there, while the worker is still being built."""

import json
import os
import subprocess
import threading

from . import build
from .background import Background
from .console import DevError, Stopped, end_running, say, showing
from .paths import BUILD, OUT, write_mark

PROGRAM = BUILD / "release" / "bin" / "phasescope"
WINDOW = BUILD / "release" / "bin" / build.WINDOW
WORKER = BUILD / "release" / "bin" / "phasescope-worker"
# The window reads it to say how far the worker is.
STATUS = BUILD / "release" / "worker_build.json"
BUILD_LOG = BUILD / "release" / "build.log"
PICTURE = ["view", "rope", "tapa_norm", "--screenshot", OUT / "window.png", "--frames", "3"]
PICTURE_S = 120
ENDING_S = 10


class WorkerStatus:
    """What the window is told of the worker's build, written whole at each step."""

    def __init__(self):
        # A file whose process is gone counts for nothing.
        self._last = {"state": "building", "done": 0, "total": 0, "step": "fetching LibTorch",
                      "log": str(BUILD_LOG), "pid": os.getpid()}

    def begin(self):
        self._write()

    def step(self, done, total, words):
        self._write(done=done, total=total, step=words)

    def end(self, state, log=None):
        self._write(state=state, log=str(log or BUILD_LOG))

    def _write(self, **news):
        self._last.update(news)
        write_mark(STATUS, json.dumps(self._last))


def run():
    """Opens the window and builds the worker beside it; the exit status is the window's."""
    window = OpenedWindow()
    work = Background("worker", window.build_worker)
    try:
        with showing(work.thread):
            window.wait_until_open(work)
            status = window.process.wait()
    except BaseException:
        window.close()
        end_running()
        work.join(ENDING_S)
        raise
    if window.built:
        work.join(ENDING_S)  # a window may leave the moment it is told
    if not work.done():
        say("the window was closed: the build stops here, the same command goes on from there")
        end_running()
        work.join(ENDING_S)
        STATUS.unlink(missing_ok=True)
    # A build that failed has said so when it did.
    status = 128 - status if status < 0 else status
    return status or (1 if work.failed() and not isinstance(window.fault, Stopped) else 0)


class OpenedWindow:
    """The window's process, and the build that goes on behind it."""

    def __init__(self):
        self.process = None
        self.fault = None
        self.built = False  # or failed to be: the window has been told, or is about to be
        self._status = WorkerStatus()
        self._open = threading.Event()

    def build_worker(self):
        try:
            build.build("release", [build.PROGRAMS], tests=False, window_built=self._start, worker_built=self._live,
                        on_step=self._step)
        except DevError as error:
            self.fault = error
            self.built = not isinstance(error, Stopped)
            if self.process and not isinstance(error, Stopped):
                self._status.end("failed", error.log)
                say(f"{error}\nThe window stays open without a worker; the same command builds it again")
            raise
        finally:
            self._open.set()

    def wait_until_open(self, work):
        self._open.wait()
        if self.process is None:
            work.wait()  # raises what kept the window from being built
            raise DevError(f"the build made no {WINDOW}; ./dev doctor says what is missing")

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()

    def _start(self):
        # No lock of ours is inherited: the window may stay open for days.
        self._status.begin()
        self.process = subprocess.Popen([WINDOW])
        say("the window opens with the recorded session; the worker is built meanwhile")
        self._open.set()

    def _live(self):
        self.built = True
        self._status.end("done")

    def _step(self, done, total, words):
        if self.process and not self.built:
            self._status.step(done, total, words)


class FirstPicture:
    """Without a display: the window's picture, from the recorded session, while the worker is built. That
    it cannot be drawn does not matter, it is made again with the worker."""

    def __init__(self):
        self._work = None

    def begin(self):
        WorkerStatus().begin()
        self._work = Background("first picture", draw_recorded)

    def end(self):
        if self._work:
            self._work.join(PICTURE_S)
            STATUS.unlink(missing_ok=True)


def draw_recorded():
    OUT.mkdir(exist_ok=True)
    try:
        done = subprocess.run([WINDOW, *PICTURE], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=PICTURE_S)
    except (OSError, subprocess.TimeoutExpired):
        return
    if done.returncode == 0 and PICTURE[4].exists():
        say("first picture: out/window.png (from the recorded session, the worker is being built)")
