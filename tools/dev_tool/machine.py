"""What the machine gives: cores and memory as far as a container's limits reach, and one sentence where
it cannot build at all."""

import os
import platform
import re
import shutil
import sys
from pathlib import Path

from .console import DevError, output_of
from .paths import ROOT

GIB = 1 << 30
# A translation unit that includes LibTorch's headers takes up to this much memory to compile.
MEMORY_PER_JOB = 2 * GIB
# The oldest that knows the C++20 used here (coroutines of the library, std::source_location, ranges).
OLDEST_GCC = 11
OLDEST_JSON = (3, 11)
# What the tag of the pinned wheels says (manylinux_2_28).
OLDEST_GLIBC = (2, 28)
CGROUPS = Path("/sys/fs/cgroup")
CPUINFO = Path("/proc/cpuinfo")
# Each with all before it, in the kernel's words.
SIMD = {"sse4": {"ssse3", "sse4_1", "sse4_2", "pclmulqdq", "aes"}, "avx2": {"avx2", "fma", "f16c", "bmi1", "bmi2"},
        "avx3": {"avx512f", "avx512vl", "avx512dq", "avx512bw", "avx512cd"}}
JSON_HEADERS = ("/usr/include/nlohmann/detail/abi_macros.hpp", "/usr/include/nlohmann/json.hpp")


def check():
    """A DevError where the pinned wheels do not run."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise DevError(f"this is {platform.system()} on {platform.machine()}: the pinned LibTorch, cmake and "
                       "ninja are programs for Linux on x86-64; a window there can use this worker over ssh")
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        name, version = "", ""
    if name != "glibc" or numbers(version) < OLDEST_GLIBC:
        raise DevError(f"the C library is {f'{name} {version}'.strip() or 'not glibc'}: the pinned LibTorch needs "
                       f"glibc {dotted(OLDEST_GLIBC)} or newer, which Debian 12 and Ubuntu 24.04 have")


def check_compiler():
    """A DevError where the compiler or nlohmann-json is too old; what is not there CMake names itself."""
    compiler = os.environ.get("CXX") or "g++"
    version = numbers(output_of([*compiler.split(), "-dumpfullversion"]) or "")
    if "g++" in compiler and version and version[0] < OLDEST_GCC:
        raise DevError(f"{compiler} is version {dotted(version)}: C++20 as it is written here needs g++ "
                       f"{OLDEST_GCC} or newer (Debian 12 and Ubuntu 24.04 have it); a newer one beside it is "
                       "used with CXX=g++-12 ./dev run")
    json = json_version()
    if json and json < OLDEST_JSON:
        raise DevError(f"nlohmann-json is version {dotted(json)}, and {dotted(OLDEST_JSON)} is needed, which Debian "
                       "12 and Ubuntu 24.04 have")


def check_pip():
    """A DevError where this Python has no pip, which fetches everything but Debian packages."""
    if output_of([sys.executable, "-m", "pip", "--version"]) is None:
        raise DevError(f"{sys.executable} has no pip; type\n  sudo apt-get install -y python3-pip")


def check_disk(needed, folder=ROOT):
    """A DevError where the disk has less than `needed` bytes left."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DevError(f"the disk of {folder} has {free / 1e9:.1f} GB left; what is fetched and built needs "
                       f"about {needed / 1e9:.1f} GB")


def json_version():
    """(major, minor) of the system's nlohmann-json; () where it is not there."""
    for header in JSON_HEADERS:
        try:
            text = Path(header).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found = [re.search(rf"define NLOHMANN_JSON_VERSION_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR")]
        if all(found):
            return tuple(int(match[1]) for match in found)
    return ()


def numbers(version):
    return tuple(int(word) for word in re.findall(r"\d+", version))


def dotted(version):
    return ".".join(map(str, version))


def cores():
    """The cores that this process may use: those that it is bound to, and a container's share of time."""
    return max(1, min([len(os.sched_getaffinity(0)), *(int(share) for share in cpu_shares())]))


def simd():
    """The best instruction set of this processor that the kernels have, by its name there (kernels/cpu/targets.cpp
    asks for the same); "all" where it has none of them, and builds every one."""
    try:
        flags = set(re.search(r"^flags\s*:(.*)$", CPUINFO.read_text(encoding="utf-8"), re.MULTILINE)[1].split())
    except (OSError, TypeError):
        return "all"
    best = "all"
    for name, needed in SIMD.items():
        if not needed <= flags:
            break
        best = name
    return best


def memory():
    """Bytes of memory that this process may use."""
    limits = [int(text) for text in cgroup_files("memory", ("memory.max", "memory.limit_in_bytes"))
              if text.isdigit()]
    try:
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError):
        pass
    return min(limits, default=MEMORY_PER_JOB)


def cpu_shares():
    """The cores that containers' limits give, as fractions; at least one each."""
    for text in cgroup_files("cpu", ("cpu.max",)):
        quota, _, period = text.partition(" ")
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            yield max(1, int(quota) / int(period))
    quotas = list(cgroup_files("cpu", ("cpu.cfs_quota_us",)))
    periods = list(cgroup_files("cpu", ("cpu.cfs_period_us",)))
    for quota, period in zip(quotas, periods):
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            yield max(1, int(quota) / int(period))


def cgroup_files(controller, names):
    """The contents of the files so named in this process's groups and those above them (versions 1, 2)."""
    for folder in cgroup_folders(controller):
        for name in names:
            try:
                yield (folder / name).read_text(encoding="utf-8").strip()
            except OSError:
                pass


def cgroup_folders(controller):
    """Every folder of limits that may hold for this process, the outermost last. In a container the
    path that the kernel names is often not mounted: the root that is mounted then is its own."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    folders = []
    for line in lines:
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controllers and controller not in controllers.split(","):
            continue
        root = CGROUPS / controllers if controllers else CGROUPS
        here = root / path.lstrip("/")
        folders += [here, *(above for above in here.parents if above == root or root in above.parents)]
    return list(dict.fromkeys([*folders, CGROUPS / controller, CGROUPS]))


def jobs():
    """Compile jobs at once: the cores this process may use, as far as memory reaches."""
    return max(1, min(cores(), memory() // MEMORY_PER_JOB))


def limits_line():
    """Says how many jobs run at once where something limits them; empty where nothing does."""
    there = os.cpu_count() or 1
    if jobs() >= there:
        return ""
    plural = "s" if jobs() > 1 else ""
    why = f"{cores()} of {there} cores" if jobs() == cores() else f"{memory() / GIB:.1f} GiB of memory"
    return f"{jobs()} compile job{plural} at once, there being {why} for it"
