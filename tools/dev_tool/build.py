"""Configure and build one preset."""

import os
import shutil
import time

from . import debian, sources, wheels
from .console import run_quietly, say
from .paths import (BUILD, CMAKE, CUDA, NINJA, ROOT, VENV, digest, one_at_a_time, read_mark,
                    write_mark)

PRESETS = ("release", "debug", "asan", "fuzz")
GIB = 1 << 30
# A translation unit that includes LibTorch's headers takes up to this much memory to compile.
MEMORY_PER_JOB = 2 * GIB


def set_up():
    """Everything that has to be fetched; nothing when it is all there."""
    debian.install()
    wheels.install()
    sources.install()


def jobs():
    """Compile jobs at once: the cores this process may use, as far as memory reaches."""
    cores = len(os.sched_getaffinity(0))
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return cores
    return max(1, min(cores, memory // MEMORY_PER_JOB))


def in_ci():
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def options(preset, werror):
    """The -D words that depend on the machine; the fixed ones are in CMakePresets.json."""
    words = {"PHASESCOPE_WERROR": "ON" if werror or in_ci() else "OFF"}
    # From nothing this halves the build. What it hides, a forgotten include, one job of CI looks for.
    words["PHASESCOPE_PCH"] = "ON"
    if preset == "release":
        words["PHASESCOPE_CUDA"] = "ON" if (CUDA / "bin" / "nvcc").exists() else "OFF"
    ccache = shutil.which("ccache")
    for language in ("C", "CXX", "CUDA") if ccache else ():
        name = f"CMAKE_{language}_COMPILER_LAUNCHER"
        words[name] = os.environ.get(name, ccache)
    return [f"-D{name}={value}" for name, value in sorted(words.items())]


def environment():
    """PATH with the pinned programs first; OpenMP threads that wait leave the core to other tests, and
    ccache takes files behind a precompiled header."""
    return {"OMP_WAIT_POLICY": "passive", "CCACHE_SLOPPINESS": "pch_defines,time_macros", **os.environ,
            "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}


def configure(preset, werror):
    """Runs CMake when its options changed or it never finished; ninja does it for changed files."""
    folder = BUILD / preset
    words = options(preset, werror)
    presets = (ROOT / "CMakePresets.json").read_text(encoding="utf-8")
    mark = digest(presets, str(ROOT), *words)
    if read_mark(folder / "configured") == mark and (folder / "build.ninja").exists():
        return
    # The mark goes first: a configure that fails or is interrupted is done again.
    (folder / "configured").unlink(missing_ok=True)
    run_quietly([CMAKE, "--preset", preset, *words], folder / "configure.log",
                f"configuring {preset}", env=environment(), cwd=ROOT)
    write_mark(folder / "configured", mark)


def build(preset="release", targets=(), werror=False):
    """Builds targets (all without any) of a preset, fetching and configuring first if need be."""
    set_up()
    with one_at_a_time(f"build-{preset}"):
        configure(preset, werror)
        begin = time.time_ns()
        run_quietly([NINJA, "-C", BUILD / preset, f"-j{jobs()}", *targets],
                    BUILD / preset / "build.log", f"building {preset}", env=environment(), cwd=ROOT)
    if in_ci():
        say(kernels_line(BUILD / preset, begin))
    return BUILD / preset


def kernels_line(folder, since):
    """What the kernels took since a time in nanoseconds; two cores shall build them in 8 minutes."""
    count, seconds = compiled(folder / ".ninja_log", "kernels/", since)
    return f"kernels/: {count} files in {seconds:.0f} s of one core (at most 960)"


def compiled(log, prefix, since):
    """How many object files ninja made below a folder since a time, and their seconds together."""
    times = {}
    try:
        for line in log.read_text(encoding="utf-8").splitlines():
            words = line.split("\t")
            if len(words) == 5 and int(words[2]) >= since and words[3].endswith(".o"):
                times[words[3]] = (int(words[1]) - int(words[0])) / 1000
    except OSError:
        pass
    mine = [seconds for name, seconds in times.items() if name.startswith(prefix)]
    return len(mine), sum(mine)
