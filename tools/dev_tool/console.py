"""Progress on stderr, and running other programs. Several threads may do both at once."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

START = time.monotonic()
# Descriptors that every program started here keeps open: locks last until the last of them is gone.
INHERITED = set()
# Held while a program starts and while INHERITED loses a descriptor: none is closed in between.
STARTING = threading.Lock()
# Set when everything shall end: nothing is started any more.
STOPPING = threading.Event()
NINJA_STEP = re.compile(r"^\[(\d+)/(\d+)\]\s*(.*)")


class DevError(Exception):
    """A sentence for the person at the terminal: what went wrong and what to do."""

    def __init__(self, message, status=1, log=None):
        super().__init__(message)
        self.status = status
        self.log = log


class Stopped(DevError):
    """This work was told to end, and nobody needs to hear of it again."""

    def __init__(self):
        super().__init__("stopped; the same command goes on from here", 130)


def say(text):
    """One line that stays."""
    with _writing:
        clear_progress()
        print(f"[dev {time.monotonic() - START:5.0f} s] {text}", file=sys.stderr, flush=True)


_writing = threading.RLock()
_line_open = False
_last_progress = 0.0
_running = set()
# The thread whose progress is shown; None while it waits for the others.
_shown = threading.main_thread()


@contextlib.contextmanager
def showing(thread):
    """The progress of this thread alone is shown meanwhile; of every thread where it is None."""
    global _shown
    before, _shown = _shown, thread
    try:
        yield
    finally:
        _shown = before


def progress(text):
    """A line that the next one overwrites; where stderr is no terminal, a line every ten seconds. What
    goes on beside the work that is shown stays unseen."""
    if _shown in (None, threading.current_thread()):
        with _writing:
            write_progress(text)


def write_progress(text):
    global _line_open, _last_progress
    now = time.monotonic()
    if sys.stderr.isatty():
        width = max(20, terminal_width() - 1)
        line = f"[dev {now - START:5.0f} s] {text}"[:width]
        sys.stderr.write("\r\033[K" + line)
        sys.stderr.flush()
        _line_open = True
    elif now - _last_progress >= 10:
        print(f"[dev {now - START:5.0f} s] {text}", file=sys.stderr, flush=True)
        _last_progress = now


def clear_progress():
    global _line_open
    with _writing:
        if _line_open:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            _line_open = False


def terminal_width():
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return 80


def run_quietly(command, log, title, env=None, cwd=None, on_step=None, show_failure=True):
    """Runs a program into a log file, shows its last step as progress, and on failure its output.
    `on_step` is called with (done, total, words) of each of ninja's steps."""
    log = Path(log)
    log.parent.mkdir(parents=True, exist_ok=True)
    tail = []
    with open(log, "a", encoding="utf-8") as out:
        out.write("$ " + shlex.join(map(str, command)) + "\n")
        process = start(command, env, cwd)
        try:
            for line in process.stdout:
                out.write(line)
                tail = follow(line.rstrip("\n"), tail, title, on_step)
            status = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        finally:
            _running.discard(process)
            process.stdout.close()
    clear_progress()
    if STOPPING.is_set() and status != 0:
        raise Stopped()
    if status in (-signal.SIGINT, 128 + signal.SIGINT):
        raise DevError(f"{title} was interrupted", 130)
    if status != 0:
        if show_failure:
            with _writing:
                print("\n".join(tail), file=sys.stderr)
        raise DevError(f"{title} failed with status {status}; all of its output is in {log}", log=log)


def start(command, env, cwd):
    """The started program; no other thread closes a lock that it inherits meanwhile."""
    with STARTING:
        if STOPPING.is_set():
            raise Stopped()
        process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env=env, cwd=cwd, text=True, errors="replace",
            pass_fds=tuple(INHERITED))
        _running.add(process)
        return process


def end_running():
    """Ends the programs that other threads wait for, and lets none start."""
    with STARTING:
        STOPPING.set()
        for process in list(_running):
            process.terminate()


def follow(line, tail, title, on_step=None):
    """Shows a line of output as progress and keeps what a reader needs if the program fails."""
    step = NINJA_STEP.match(line)
    if step:
        if on_step:
            on_step(int(step.group(1)), int(step.group(2)), short_step(step.group(3)))
        progress(f"{title}: {step.group(1)} of {step.group(2)}, {short_step(step.group(3))}")
        return (tail + [line])[-1:] if not any("FAILED" in old for old in tail) else tail
    if line.strip():
        progress(f"{title}: {line.strip()[:100]}")
    return (tail + [line])[-200:]


def short_step(words):
    """ "Building CXX object app/CMakeFiles/x.dir/cli/cli.cpp.o" as "app/cli/cli.cpp"."""
    path = words.split(" ")[-1]
    return re.sub(r"(CMakeFiles/[^/]+\.dir/|\.o$|.*/\.deps/)", "", path)


def output_of(command, env=None):
    """Standard output of a program, or None if it is not there or fails."""
    try:
        done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", env=env, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
