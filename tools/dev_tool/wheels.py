"""The pinned wheels: pip fetches and checks them, they are unpacked into .venv/site-packages.

They are containers of libraries, headers and programs; no Python imports them, so one fixed tag serves
every Python on the machine and one hash pins the file.
"""

import concurrent.futures
import csv
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

from . import machine
from .console import STOPPING, Stopped, progress, run_quietly, say, showing
from .paths import CUDA, DEPS, PINS, SITE, VENV, digest, one_at_a_time, read_mark, write_mark

LOCK = PINS / "wheels.txt"
COMPLETE = VENV / "complete"
# pip takes a wheel only if its exact tag was named, and these wheels carry everything from 2_5 up.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)] + [
    "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
DOWNLOADS_AT_ONCE = 3
# Fetched first: with them compiling begins while the others are on their way.
TOOLS = ("cmake", "ninja")
# What of LibTorch's wheel only its CUDA half, Python or its own build use: not unpacked where there is
# no GPU driver. libtorch_cpu.so and libc10.so, which the worker links, ask for none of it.
TORCH_WITHOUT_GPU = re.compile(
    r"torch/lib/lib(torch|torch_cuda|torch_cuda_linalg|torch_nvshmem|torch_python|c10_cuda|caffe2_nvrtc)\.so$|"
    r"torch/bin/|(torch|functorch|torchgen)/.*\.pyi?$")
# What fetching and building take on disk, the archives themselves included.
DISK_BYTES = {False: 3_000_000_000, True: 10_000_000_000}
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
    return bool(why_cuda())


def why_cuda():
    """Why the CUDA kernels are compiled here: a GPU could run them, this is CI, or --cuda asked for it
    (which puts 1 into the environment) or once did: nvcc is there then. Empty where they are not."""
    if has_gpu_driver():
        return "there is a GPU driver"
    if os.environ.get("CI"):
        return "this is CI"
    if os.environ.get(ASKED_FOR_CUDA) == "1":
        return "--cuda asks for it"
    return "an earlier --cuda fetched nvcc" if (CUDA / "bin" / "nvcc").exists() else ""


def ready():
    return read_mark(COMPLETE) == complete_mark()


def complete_mark():
    """Differs with the lock file and with what of it this machine needs: a driver that comes later, for
    one, asks for more wheels and for the rest of LibTorch's."""
    return digest(*pins_here().values())


def there(names):
    """Whether the wheels so named are unpacked."""
    lines = pins_here()
    return all(is_there(lines[name]) for name in names)


def is_there(line):
    return mark_of(line).exists() or (not has_gpu_driver() and mark_of(line, part=True).exists())


def install(tools_there=None):
    """Fetches and unpacks what is not there yet; each finished wheel leaves a mark, so that an
    interrupted set-up goes on where it stopped. The event `tools_there` is set as soon as cmake and
    ninja are there. Returns whether anything was fetched."""
    if ready():
        tell(tools_there)
        return False
    machine.check_pip()
    with one_at_a_time("wheels"):
        drop_outdated()
        tell(tools_there)
        todo = [line for line in pins_here().values() if not is_there(line)]
        if todo:
            machine.check_disk(DISK_BYTES[has_gpu_driver()])
            say(f"wheels: {len(todo)} to fetch and unpack ({size_here()} when all are there)")
        fetch_all(in_order(todo), tools_there)
        make_links()
        write_mark(COMPLETE, complete_mark())
        shutil.rmtree(DEPS / "download", ignore_errors=True)
    return bool(todo)


def size_here():
    """What the unpacked wheels take here, for the person who waits."""
    if has_gpu_driver():
        return "4.1 GB"
    return f"{'0.9' if wants_nvcc() else '0.6'} GB, there being no GPU driver"


def tell(tools_there):
    """Sets the event where cmake and ninja are there."""
    if tools_there and there(TOOLS):
        tools_there.set()


def in_order(lines):
    """The small tools first, then LibTorch, which takes longest."""
    first = [*TOOLS, "torch"]
    return sorted(lines, key=lambda line: (first + [line.split("==")[0]]).index(line.split("==")[0]))


def fetch_all(lines, tools_there):
    pool = concurrent.futures.ThreadPoolExecutor(DOWNLOADS_AT_ONCE)
    jobs = [pool.submit(fetch_and_unpack, line) for line in lines]
    try:
        with showing(None):
            for count, job in enumerate(concurrent.futures.as_completed(jobs), 1):
                progress(f"wheels: {count} of {len(jobs)}, {job.result()}")
                tell(tools_there)
    finally:
        # After a failure those that are under way end by themselves, or with this ./dev.
        pool.shutdown(wait=False, cancel_futures=True)


def mark_of(line, part=False):
    """The mark of a wheel that is unpacked; `part`: without what only machines with a GPU need."""
    return VENV / "marks" / (line.split()[0] + "-" + digest(line) + ("-without-gpu" if part else ""))


def drop_outdated():
    """Removes the files of wheels that the lock file no longer names, then their marks."""
    expected = {mark_of(line, part).name for line in pins().values() for part in (False, True)}
    marks = VENV / "marks"
    outdated = [mark for mark in sorted(marks.iterdir()) if mark.name not in expected] if marks.is_dir() else []
    for mark in outdated:
        say(f"wheels: {mark.name.rsplit('-', 1)[0].split('-without')[0]} is no longer pinned, removing it")
        remove(record_of(mark))
        mark.unlink()


def record_of(mark):
    """The list of files of the wheel whose mark this is: the mark holds the wheel's name."""
    project, version = (read_mark(mark).strip().split("-") + ["", ""])[:2]
    return SITE / f"{project}-{version}.dist-info" / "RECORD"


def remove(record):
    """Removes the files that a wheel's RECORD lists, the list itself last: it is gone when all are."""
    names = [row[0] for row in csv.reader(read_mark(record).splitlines()) if row]
    for name in names:
        target = target_of(name)
        if target is not None and target != record and ".." not in Path(name).parts:
            target.unlink(missing_ok=True)
    record.unlink(missing_ok=True)


def fetch_and_unpack(line):
    name = line.split()[0]
    folder = DEPS / "download" / name
    # A download that was finished, and not unpacked, is there to stay.
    if read_mark(folder / "fetched") != digest(line):
        shutil.rmtree(folder, ignore_errors=True)
        pip_download(line, folder)
        write_mark(folder / "fetched", digest(line))
    (wheel,) = folder.glob("*.whl")
    part = name.startswith("torch==") and not has_gpu_driver()
    unpack(wheel, TORCH_WITHOUT_GPU if part else None)
    shutil.rmtree(folder)
    write_mark(mark_of(line, part), wheel.name + "\n")
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


def unpack(wheel, left_out=None):
    """Unpacks a wheel into SITE, the programs of its .data/scripts into .venv/bin, but no member whose
    name the pattern `left_out` matches."""
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            if STOPPING.is_set():
                raise Stopped()
            target = target_of(info.filename)
            if target is None or info.is_dir() or (left_out and left_out.match(info.filename)):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            # A library that a running worker has loaded stays as it is for that worker.
            target.unlink(missing_ok=True)
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
            plain.unlink(missing_ok=True)  # a link to an older version's file
            plain.symlink_to(library.name)
    if not (CUDA / "lib64").exists():
        (CUDA / "lib64").symlink_to("lib")
