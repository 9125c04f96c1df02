"""The GPU tests with what the machine has: no package is fetched."""

import os
import shutil
import sys
from pathlib import Path

from . import machine
from . import test as tests
from .console import DevError, output_of, run_quietly, say
from .paths import BUILD, CARRY, CMAKE, CTEST, CUDA, NINJA, ROOT, SITE, one_at_a_time

FOLDER = BUILD / "gpu"


def first(candidates):
    return next((Path(path) for path in candidates if path and Path(path).exists()), None)


def python_torch():
    """The torch package of the machine's own Python."""
    return output_of(["python3", "-c", "import os, torch; print(os.path.dirname(torch.__file__))"])


def tools():
    """The programs and libraries to build with; a DevError names what is not there."""
    torch = first([SITE / "torch", python_torch()])
    wheel_cuda = torch.parent / "nvidia" / "cu13" / "bin" / "nvcc" if torch else None
    found = {
        "cmake": first([CMAKE, shutil.which("cmake")]),
        "ctest": first([CTEST, shutil.which("ctest")]),
        "ninja": first([NINJA, shutil.which("ninja")]),
        "nvcc": first([os.environ.get("CUDACXX"), CUDA / "bin" / "nvcc", shutil.which("nvcc"),
                       "/usr/local/cuda/bin/nvcc", wheel_cuda]),
        "torch": torch,
    }
    absent = [name for name, path in found.items() if path is None]
    if absent:
        raise DevError("./dev test --gpu builds with what is there, and these are not: " + ", ".join(absent))
    return found


def has_gpu():
    return bool(output_of(["nvidia-smi", "-L"]))


def configure(found):
    options = {
        "CMAKE_BUILD_TYPE": "Release", "CMAKE_MAKE_PROGRAM": found["ninja"],
        "CMAKE_CUDA_COMPILER": found["nvcc"], "CUDAToolkit_ROOT": found["nvcc"].parent.parent,
        "PHASESCOPE_CUDA": "ON", "PHASESCOPE_TORCH_DIR": found["torch"],
        "PHASESCOPE_WINDOW": "OFF", "PHASESCOPE_WORKER": "OFF", "PHASESCOPE_BENCH": "OFF",
        "PHASESCOPE_CARRY_DIR": CARRY if CARRY.is_dir() else "",
    }
    words = [f"-D{name}={value}" for name, value in options.items()]
    run_quietly([found["cmake"], "-G", "Ninja", "-S", ROOT, "-B", FOLDER, *words],
                FOLDER / "configure.log", "configuring for the GPU tests")


def test(extra):
    """Builds the tests with the label gpu and what they need, and runs them; nothing without a GPU."""
    counts = tests.Counts()
    if not has_gpu():
        say("there is no GPU here (nvidia-smi lists none): nothing to run; ./dev build compiles its tests")
        print(counts.line(), file=sys.stderr)
        return 0
    found = tools()
    with one_at_a_time("build-gpu"):
        configure(found)
        run_quietly([found["ninja"], "-C", FOLDER, f"-j{machine.jobs()}", "phasescope_gpu_tests"],
                    FOLDER / "build.log", "building the GPU tests")
    good = tests.run_ctest(FOLDER, ["-L", "^gpu$", *extra], counts, found["ctest"])
    return 0 if tests.told(counts) and good else 1
