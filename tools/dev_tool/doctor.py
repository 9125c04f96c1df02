"""What the machine has, and what is missing."""

import ctypes.util
import os
import platform
import shutil
import sys

from . import debian, machine, sources, wheels
from .console import output_of
from .paths import BUILD, CARRY, CMAKE, CUDA, NINJA


def doctor():
    """Prints a line for each thing; the exit status says whether something needed is missing."""
    missing = []
    for name, found, needed in rows():
        print(f"{'ok     ' if found else 'MISSING' if needed else 'absent '} {name}: {found or 'not there'}",
              file=sys.stderr)
        if needed and not found:
            missing.append(name)
    if missing:
        print("./dev setup fetches what is missing: " + ", ".join(missing), file=sys.stderr)
    return 1 if missing else 0


def rows():
    """(name, what was found, whether it is needed)."""
    lacking = [package.name for package in debian.missing() if not package.optional]
    yield "system", system(), True
    yield "python", f"{platform.python_version()} at {sys.executable}", True
    yield "pip", output_of([sys.executable, "-m", "pip", "--version"]), True
    yield "compiler", first_line(output_of(["g++", "--version"])), True
    yield "Debian packages", "" if lacking else "all there", True
    yield "wheels", "all there" if wheels.ready() else "", True
    yield "source archives", "all there" if sources.ready() else "", True
    yield "cmake", first_line(output_of([CMAKE, "--version"])), True
    yield "ninja", output_of([NINJA, "--version"]), True
    why = wheels.why_cuda()
    yield "CUDA kernels", (f"compiled here, since {why}" if why else "not compiled here, since there is no GPU "
                           "driver (./dev build --cuda compiles them)"), False
    yield "nvcc", last_line(output_of([CUDA / "bin" / "nvcc", "--version"])), False
    yield "ccache", shutil.which("ccache"), False
    yield "GPU", first_line(output_of(["nvidia-smi", "--query-gpu=name,memory.total,driver_version",
                                       "--format=csv,noheader"])), False
    yield "display", os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY"), False
    yield "Xvfb", shutil.which("Xvfb"), False
    yield "librsvg", ctypes.util.find_library("rsvg-2"), False
    yield "built", ", ".join(sorted(path.parent.name for path in BUILD.glob("*/build.ninja"))), False
    yield "carried", str(CARRY) if CARRY.is_dir() else "", False


def system():
    return (f"{distribution()}, {platform.machine()}, {machine.cores()} cores, "
            f"{machine.memory() / machine.GIB:.0f} GiB memory, {machine.jobs()} compile jobs at once")


def distribution():
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            fields = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
        return fields.get("PRETTY_NAME", "Linux").strip('"')
    except OSError:
        return platform.system()


def first_line(text):
    return text.splitlines()[0] if text else ""


def last_line(text):
    return text.splitlines()[-1] if text else ""
