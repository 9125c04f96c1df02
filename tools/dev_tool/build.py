"""Configure and build one preset."""

import os
import shutil

from . import debian, sources, wheels
from .console import run_quietly
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
    if preset == "release":
        words["PHASESCOPE_CUDA"] = "ON" if (CUDA / "bin" / "nvcc").exists() else "OFF"
    ccache = shutil.which("ccache")
    for language in ("C", "CXX", "CUDA") if ccache else ():
        name = f"CMAKE_{language}_COMPILER_LAUNCHER"
        words[name] = os.environ.get(name, ccache)
    return [f"-D{name}={value}" for name, value in sorted(words.items())]


def environment():
    """PATH with the pinned programs first; OpenMP threads that wait leave the core to other tests."""
    return {"OMP_WAIT_POLICY": "passive", **os.environ,
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
        run_quietly([NINJA, "-C", BUILD / preset, f"-j{jobs()}", *targets],
                    BUILD / preset / "build.log", f"building {preset}", env=environment(), cwd=ROOT)
    return BUILD / preset
