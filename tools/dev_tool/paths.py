"""Where things are, and how marks of finished work are written."""

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path

from .console import INHERITED, STARTING, say

ROOT = Path(__file__).resolve().parents[2]
PINS = Path(__file__).resolve().parent / "pins"
VENV = ROOT / ".venv"
SITE = VENV / "site-packages"
CUDA = SITE / "nvidia" / "cu13"
NVDISASM = CUDA / "bin" / "nvdisasm"
DEPS = ROOT / ".deps"
CARRY = ROOT / ".carry"
BUILD = ROOT / "build"
OUT = ROOT / "out"

CMAKE = SITE / "cmake" / "data" / "bin" / "cmake"
CTEST = SITE / "cmake" / "data" / "bin" / "ctest"
NINJA = VENV / "bin" / "ninja"
CLANG_FORMAT = SITE / "clang_format" / "data" / "bin" / "clang-format"


def write_mark(path, text):
    """Writes a small file whole or not at all: it says that the work before it is done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with open(partial, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    partial.rename(path)


def read_mark(path):
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def digest(*texts):
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


@contextlib.contextmanager
def one_at_a_time(name):
    """Two ./dev at once wait for each other instead of writing into the same folder. What was started
    meanwhile holds the lock too: compilers outlive a ./dev that is killed. So do two threads of one ./dev;
    a thread that holds a lock must not ask for the same one again, it would wait for itself."""
    DEPS.mkdir(parents=True, exist_ok=True)
    with open(DEPS / f"{name}.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say(f"another ./dev is busy here ({name}); waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        with STARTING:
            INHERITED.add(lock.fileno())
        try:
            yield
        finally:
            with STARTING:
                INHERITED.discard(lock.fileno())
            fcntl.flock(lock, fcntl.LOCK_UN)
