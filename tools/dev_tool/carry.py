"""What is carried to a GPU machine. `./dev carry` collects into .carry/ what `./dev test --gpu` needs and a
machine without network may lack: header-only libraries, GoogleTest's sources, and two static C libraries that
need nothing but libc. `./dev carry --out DIR` makes a bundle of programs, for a machine with a driver and nothing
else, with the script that runs them (tools/device/first_minutes.py)."""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from . import build, debian, wheels
from .console import DevError, output_of, say
from .paths import CARRY, ROOT

# Folder on a Debian system: folder under .carry.
HEADERS = {
    "/usr/include/nlohmann": "prefix/include/nlohmann",
    "/usr/share/cmake/nlohmann_json": "prefix/share/cmake/nlohmann_json",
    "/usr/include/hwy": "prefix/include/hwy",
    "/usr/src/googletest": "googletest",
}
FILES = {
    "/usr/include/pcre2.h": "prefix/include/pcre2.h",
    "/usr/include/utf8proc.h": "prefix/include/utf8proc.h",
    "/usr/lib/x86_64-linux-gnu/libpcre2-8.a": "prefix/lib/libpcre2-8.a",
    "/usr/lib/x86_64-linux-gnu/libutf8proc.a": "prefix/lib/libutf8proc.a",
}


# Name in the bundle: name among the build's programs. Without a device the emulation's stand in for both.
PROGRAMS = {"kernels_cuda_test": "kernels_cuda_test", "kernels_cuda_bench": "kernels_cuda_bench"}
EMULATED = {"kernels_cuda_test": "cuda_emulation_test", "kernels_cuda_bench": "cuda_bench_emulated"}
# For the table beside rivals, where the machine has LibTorch.
WITH_RIVALS = {"phasescope": "phasescope", "phasescope-worker": "phasescope-worker"}
DEVICE = ROOT / "tools" / "device"
SCRIPTS = (DEVICE / "first_minutes.py", DEVICE / "spills.py")
# What `bench step` runs there, by the names that first_minutes.py has for them.
CONFIGS = {"desk_rope.json": ROOT / "sample_configs" / "desk" / "rope.json", "one_billion.json": DEVICE / "one_billion.json"}
MOST_BYTES = 60_000_000


def carry(out=None, emulated=False):
    if out is None:
        if emulated:
            raise DevError("./dev carry --emulated makes a bundle: say where with --out DIR", 2)
        return collect()
    programs = EMULATED if emulated else {**PROGRAMS, **WITH_RIVALS}
    if not emulated:
        os.environ[wheels.ASKED_FOR_CUDA] = "1"
    folder = build.build("release", list(programs.values()), anywhere=True) / "bin"
    size = bundle(Path(out), folder, programs, emulated)
    say(f"{out}: {size / 1e6:.1f} MB; there: python3 first_minutes.py, here: ./dev bench --import result.json")
    return 0


def bundle(out, folder, programs, emulated):
    """Writes the bundle and gives its bytes; a DevError where a program is not there or it is too large."""
    absent = [name for name in programs.values() if not (folder / name).exists()]
    if absent:
        raise DevError(f"the build made no {', '.join(absent)}; ./dev doctor says whether the CUDA kernels are compiled")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(out / "programs.tar.xz", "w:xz", preset=1) as archive:
        for name, source in programs.items():
            stripped = Path(scratch) / name
            subprocess.run(["strip", "-o", stripped, folder / source], check=True)
            archive.add(stripped, arcname=name)
        for name, config in CONFIGS.items() if not emulated else ():
            archive.add(config, arcname=name)
    (out / "bundle.json").write_text(json.dumps(facts(emulated), indent=1) + "\n", encoding="utf-8")
    for script in SCRIPTS:
        shutil.copy(script, out / script.name)
    size = sum(path.stat().st_size for path in out.iterdir() if path.is_file())
    if size > MOST_BYTES:
        raise DevError(f"{out} has {size / 1e6:.0f} MB, more than the {MOST_BYTES / 1e6:.0f} that a bundle may have")
    return size


def facts(emulated):
    """What the results are of."""
    return {"commit": output_of(["git", "-C", ROOT, "rev-parse", "HEAD"]) or "",
            "changed": bool(output_of(["git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no"])),
            "torch": torch_version(), "emulated": emulated}


def torch_version():
    """Of the pinned LibTorch, "2.11.0"."""
    lines = (ROOT / "tools" / "dev_tool" / "pins" / "wheels.txt").read_text(encoding="utf-8").splitlines()
    return next(line.split("==")[1].split()[0] for line in lines if line.startswith("torch=="))


def collect():
    debian.install()
    partial = CARRY.with_name(".carry.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for source, target in HEADERS.items():
        if not Path(source).is_dir():
            say(f"{source} is not there; going on without")
            continue
        shutil.copytree(source, partial / target,
                        ignore=shutil.ignore_patterns("test", "samples", "docs"))
    for source, target in FILES.items():
        if Path(source).is_file():
            (partial / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, partial / target)
        else:
            say(f"{source} is not there; going on without")
    shutil.rmtree(CARRY, ignore_errors=True)
    partial.rename(CARRY)
    size = sum(path.stat().st_size for path in CARRY.rglob("*") if path.is_file())
    say(f"{CARRY}: {size / 1e6:.1f} MB")
    return 0
