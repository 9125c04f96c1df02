"""Configure and build one preset."""

import os
import shutil
import time

from . import machine, wheels
from .console import run_quietly, say, short_step
from .fetching import Fetching
from .paths import (BUILD, CMAKE, CUDA, NINJA, ROOT, SITE, VENV, digest, one_at_a_time, read_mark,
                    write_mark)

PRESETS = ("release", "debug", "asan", "asan-all", "tsan", "fuzz")
# What `./dev run` needs; the first of it, which needs neither LibTorch nor the verbs; and what that waits for.
PROGRAMS = "phasescope_programs"
WINDOW = "phasescope-window"
WORKER = "phasescope-worker"
# What other targets have in common, and needs no LibTorch.
COMMON = ["phasescope_kernels", "phasescope_model_files", "phasescope_protocol"]
SLOWEST = 10


def set_up(tests=True):
    """Everything that has to be fetched; nothing when it is all there."""
    Fetching(tests).wait()


def in_ci():
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def has_tests(preset):
    """Whether a preset's folder was configured with the tests: who wants the programs alone changes nothing then."""
    try:
        return "PHASESCOPE_TESTS:BOOL=ON" in (BUILD / preset / "CMakeCache.txt").read_text(encoding="utf-8")
    except OSError:
        return False


def options(preset, werror, torch=True, tests=True, anywhere=False):
    """The -D words that depend on the machine; the fixed ones are in CMakePresets.json. `anywhere`: what is built
    leaves this machine, and so its kernels are compiled for every processor: for this one takes half the time, and
    without the lesser ones' forms, which tests run too, a fifth."""
    tested = tests or has_tests(preset)
    words = {"PHASESCOPE_WERROR": "ON" if werror or in_ci() else "OFF",
             "PHASESCOPE_TESTS": "ON" if tested else "OFF",
             # From nothing this halves the build; what it hides tests/build/includes_test.py looks for.
             "PHASESCOPE_PCH": "ON",
             "PHASESCOPE_SIMD": "all" if anywhere else machine.simd(),
             "PHASESCOPE_SIMD_ALONE": "OFF" if tested else "ON"}
    if preset == "release":
        cuda = torch and wheels.wants_nvcc() and (CUDA / "bin" / "nvcc").exists()
        words["PHASESCOPE_CUDA"] = "ON" if cuda else "OFF"
        # No device will run them: one architecture of three, and of it PTX alone that nobody optimised, which takes
        # a third of the time. What ptxas makes of the forms that matter tests/build/cuda_registers_test.py sees.
        unoptimised = cuda and in_ci() and not anywhere
        words["PHASESCOPE_CUDA_ARCHITECTURES"] = "80-virtual" if unoptimised else ""
        words["CMAKE_CUDA_FLAGS"] = "-Xcicc -O0" if unoptimised else ""
        words["PHASESCOPE_TORCH_DIR"] = str(SITE / "torch") if torch else ""
    ccache = shutil.which("ccache")
    for language in ("C", "CXX", "CUDA") if ccache else ():
        name = f"CMAKE_{language}_COMPILER_LAUNCHER"
        words[name] = os.environ.get(name, ccache)
    return [f"-D{name}={value}" for name, value in sorted(words.items())]


def environment():
    """PATH with the pinned programs first; OpenMP threads that wait leave the core to other tests, and ccache takes
    files behind a precompiled header, and preprocesses none apart before it is compiled."""
    return {"OMP_WAIT_POLICY": "passive", "CCACHE_SLOPPINESS": "pch_defines,time_macros", "CCACHE_DEPEND": "1",
            **os.environ,
            "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}


def configure(preset, werror, torch=True, tests=True, anywhere=False):
    """Runs CMake when its options changed or it never finished; ninja does it for changed files. Without
    LibTorch the same folder has the same files to compile but for those that need it."""
    folder = BUILD / preset
    words = options(preset, werror, torch, tests, anywhere)
    presets = (ROOT / "CMakePresets.json").read_text(encoding="utf-8")
    mark = digest(presets, str(ROOT), *words)
    if read_mark(folder / "configured") == mark and (folder / "build.ninja").exists():
        return
    # The mark goes first: a configure that fails or is interrupted is done again.
    (folder / "configured").unlink(missing_ok=True)
    run_quietly([CMAKE, "--preset", preset, *words], folder / "configure.log",
                f"configuring {preset}" + ("" if torch else " without LibTorch"), env=environment(), cwd=ROOT)
    write_mark(folder / "configured", mark)
    if machine.limits_line():
        say(machine.limits_line())


def build(preset="release", targets=(), werror=False, tests=True, window_built=None, worker_built=None, on_step=None,
          anywhere=False):
    """Builds targets (all without any) of a preset, fetching and configuring first if need be. While
    LibTorch is on its way, what does without it is compiled. `tests`: fetch what only tests need, too;
    `window_built` is called as soon as the window's program is there, before the worker is begun, and
    `worker_built` when that is there, before the verbs; `on_step` with (done, total, words) of each step
    after that; `anywhere` as for options()."""
    fetching = Fetching(tests)
    fetching.wait_for_compiling()
    begin = time.time_ns()
    if preset == "release" and (window_built or not fetching.has_torch()):
        build_first(fetching, targets, lambda: configure("release", werror, fetching.has_torch(), tests, anywhere),
                    window_built, on_step)
    if on_step and not fetching.has_torch():
        on_step(0, 0, "fetching LibTorch")
    fetching.wait()
    with one_at_a_time(f"build-{preset}"):
        configure(preset, werror, tests=tests, anywhere=anywhere)
        if worker_built and ninja(preset, [WORKER], on_step):
            say("the worker is built")
        if worker_built:
            worker_built()
        if ninja(preset, targets, on_step) and preset == "release" and (not targets or PROGRAMS in targets):
            say("the programs are built" if targets else "everything is built")
    if in_ci():
        say(kernels_line(BUILD / preset, begin))
        say(slowest_line(BUILD / preset, begin))
    return BUILD / preset


def build_first(fetching, targets, configured, window_built, on_step):
    """The window, and what else needs no LibTorch as long as that is not there; `configured` is called
    to configure what is possible."""
    with one_at_a_time("build-release"):
        configured()
        for group in first_groups(targets):
            changed = ninja("release", group, on_step)
            if group == [WINDOW]:
                if changed:
                    say("the window is built")
                if window_built:
                    window_built()
            if fetching.has_torch():
                break


def first_groups(targets):
    """What is built before LibTorch is there, in this order; [] is everything that was configured."""
    if not targets:
        return [[WINDOW], []]
    return [[WINDOW], COMMON] if PROGRAMS in targets else [COMMON]


def ninja(preset, targets, on_step=None):
    """Runs ninja; returns whether there was anything to do."""
    steps = []

    def noted(done, total, words):
        steps.append(done)
        if on_step:
            on_step(done, total, words)

    run_quietly([NINJA, "-C", BUILD / preset, f"-j{machine.jobs()}", *targets],
                BUILD / preset / "build.log", f"building {preset}", env=environment(), cwd=ROOT,
                on_step=noted)
    return bool(steps)


def kernels_line(folder, since):
    """What the kernels took since a time in nanoseconds; two cores shall build them in 8 minutes."""
    count, seconds = compiled(folder / ".ninja_log", "kernels/", since)
    return f"kernels/: {count} files in {seconds:.0f} s of one core (at most 960)"


def slowest_line(folder, since=0):
    """The translation units that took longest since a time in nanoseconds."""
    times = sorted(object_times(folder / ".ninja_log", since).items(), key=lambda item: -item[1])
    return "slowest to compile: " + (", ".join(
        f"{short_step(name)} {seconds:.0f} s" for name, seconds in times[:SLOWEST]) or "nothing was compiled")


def compiled(log, prefix, since):
    """How many object files ninja made below a folder since a time, and their seconds together."""
    mine = [seconds for name, seconds in object_times(log, since).items() if name.startswith(prefix)]
    return len(mine), sum(mine)


def object_times(log, since):
    """{object file: seconds} of what ninja compiled since a time; of each file the last time."""
    times = {}
    try:
        for line in log.read_text(encoding="utf-8").splitlines():
            words = line.split("\t")
            if len(words) == 5 and int(words[2]) >= since and words[3].endswith((".o", ".gch")):
                times[words[3]] = (int(words[1]) - int(words[0])) / 1000
    except OSError:
        pass
    return times
