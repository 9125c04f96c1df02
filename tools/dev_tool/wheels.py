"""The pinned wheels: pip fetches and checks them, they are unpacked into .venv/site-packages.

They are containers of libraries, headers and programs; no Python imports them, so one fixed tag serves
every Python on the machine and one hash pins the file.
"""

import concurrent.futures
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

from .console import DevError, end_running, output_of, progress, run_quietly, say
from .paths import CUDA, DEPS, PINS, SITE, VENV, digest, one_at_a_time, read_mark, write_mark

LOCK = PINS / "wheels.txt"
COMPLETE = VENV / "complete"
# pip takes a wheel only if its exact tag was named, and these wheels carry everything from 2_5 up.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)] + [
    "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
DOWNLOADS_AT_ONCE = 3
ASKED_FOR_CUDA = "PHASESCOPE_DEV_CUDA"
# On Linux, and in Windows' Linux.
GPU_DRIVER = ("/proc/driver/nvidia/version", "/dev/dxg")


def pins(gpu=True, nvcc=True):
    """The requirement lines of the lock file, by package name; `gpu`: with what only a machine with a
    GPU runs; `nvcc`: with the CUDA compiler."""
    wanted = {"?": gpu, "+": nvcc}
    lines = (line.strip() for line in LOCK.read_text(encoding="utf-8").splitlines())
    lines = (line.lstrip("?+") for line in lines if wanted.get(line[:1], True))
    return {line.split("==")[0]: line for line in lines if line and not line.startswith("#")}


def pins_here():
    """Those that this machine needs."""
    return pins(has_gpu_driver(), wants_nvcc())


def has_gpu_driver():
    """The worker loads LibTorch's CUDA half, and what that asks for, only where there is a driver."""
    return any(Path(path).exists() for path in GPU_DRIVER)


def wants_nvcc():
    """The CUDA kernels are compiled where a GPU could run them, in CI, and where --cuda asked for it
    (which puts 1 into the environment) or once did: nvcc is there then."""
    return (has_gpu_driver() or bool(os.environ.get("CI")) or os.environ.get(ASKED_FOR_CUDA) == "1"
            or (CUDA / "bin" / "nvcc").exists())


def ready():
    return read_mark(COMPLETE) == complete_mark()


def complete_mark():
    return digest(*pins_here().values())


def install():
    """Fetches and unpacks what is not there yet; each finished wheel leaves a mark, so that an
    interrupted set-up goes on where it stopped."""
    if ready():
        return
    need_pip()
    with one_at_a_time("wheels"):
        if ready():
            return
        drop_other_versions()
        todo = [line for line in pins_here().values() if not mark_of(line).exists()]
        if todo:
            size = "4.1 GB" if has_gpu_driver() else "1.7 GB, there being no GPU driver"
            say(f"wheels: {len(todo)} to fetch and unpack ({size} when all are there)")
        with concurrent.futures.ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
            jobs = [pool.submit(fetch_and_unpack, line) for line in todo]
            wait_for(jobs)
        make_links()
        write_mark(COMPLETE, complete_mark())
        shutil.rmtree(DEPS / "download", ignore_errors=True)


def need_pip():
    if output_of([sys.executable, "-m", "pip", "--version"]) is None:
        raise DevError(f"{sys.executable} has no pip; type\n  sudo apt-get install -y python3-pip")


def wait_for(jobs):
    try:
        for count, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            progress(f"wheels: {count} of {len(jobs)}, {job.result()}")
    except BaseException:
        for job in jobs:
            job.cancel()
        end_running()
        raise


def mark_of(line):
    return VENV / "marks" / (line.split()[0] + "-" + digest(line))


def drop_other_versions():
    """A wheel that the lock file no longer names cannot be taken out file by file: start over."""
    marks = VENV / "marks"
    dropped = VENV.with_name(VENV.name + ".dropped")
    shutil.rmtree(dropped, ignore_errors=True)
    expected = {mark_of(line).name for line in pins().values()}
    if marks.is_dir() and {path.name for path in marks.iterdir()} - expected:
        say("wheels: the pinned versions have changed, starting over")
        # Renamed first: half of it, with its marks, must not look like a whole one.
        VENV.rename(dropped)
        shutil.rmtree(dropped)


def fetch_and_unpack(line):
    name = line.split()[0]
    folder = DEPS / "download" / name
    shutil.rmtree(folder, ignore_errors=True)
    pip_download(line, folder)
    (wheel,) = folder.glob("*.whl")
    unpack(wheel)
    shutil.rmtree(folder)
    write_mark(mark_of(line), wheel.name + "\n")
    return name


def pip_download(line, folder):
    folder.mkdir(parents=True)
    requirement = folder / "requirement.txt"
    requirement.write_text(line + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-cache-dir",
               "--no-deps", "--require-hashes", "--only-binary=:all:", "--progress-bar=off",
               "--implementation=cp", "--python-version=3.12", "--abi=cp312", "--abi=none",
               *[f"--platform={tag}" for tag in PLATFORMS], "--dest", folder, "-r", requirement]
    name = line.split()[0]
    run_quietly(command, DEPS / "logs" / f"pip-{name}.log", f"fetching {name}")


def unpack(wheel):
    """Unpacks a wheel into SITE, the programs of its .data/scripts into .venv/bin."""
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            target = target_of(info.filename)
            if target is None or info.is_dir():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as source, open(target, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
            mode = info.external_attr >> 16
            os.chmod(target, 0o755 if mode & 0o111 or target.parent == VENV / "bin" else 0o644)


def target_of(name):
    """Where a member of a wheel goes; None for what is of no use without Python."""
    data = re.match(r"[^/]+\.data/(purelib|platlib|scripts)/(.+)", name)
    if data:
        return (VENV / "bin" if data.group(1) == "scripts" else SITE) / data.group(2)
    return None if re.match(r"[^/]+\.data/", name) else SITE / name


def make_links():
    """The CUDA wheels lack the names that linkers ask for: lib64, and lib*.so without a number."""
    for library in (CUDA / "lib").glob("lib*.so.*"):
        plain = library.with_name(library.name.split(".so.")[0] + ".so")
        if not plain.exists():
            plain.symlink_to(library.name)
    if not (CUDA / "lib64").exists():
        (CUDA / "lib64").symlink_to("lib")
