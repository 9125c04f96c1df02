#!/usr/bin/env python3
"""The first ten minutes of the CUDA kernels on a device: their tests, compute-sanitizer on small cases,
their machine code, and their times beside named rivals, all in one JSON file. It lies beside programs.tar.xz
(`./dev carry --out DIR`) and needs Python 3.9 and a driver, nothing else; what else there is (compute-sanitizer,
cuobjdump, LibTorch of the right version) is used, and what is not there is said.

    python3 first_minutes.py [--out result.json] [--minutes 10]

`./dev bench --import result.json` makes docs/benchmarks.md and the list of verified kernels of it."""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FORMAT = 1
PROGRAMS = "programs.tar.xz"
TESTS, BENCH = "kernels_cuda_test", "kernels_cuda_bench"
LINE = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:, where .*)?(?: \((\d+) ms\))?$")
BEGUN = re.compile(r"^\[ RUN +\] (\S+)$")
SANITIZERS = ("memcheck", "racecheck", "synccheck", "initcheck")
# Few rows and keys, every variant, forward and backward.
SMALL = "Kernels/Cuda.IsRightWhereRowsSeeNoKey/*:Kernels/Cuda.IsRightWithSinks/*"
# The Hopper form's, of compute capability 9.0 alone: what fails there says nothing of the Ampere form.
HOPPER, HOPPER_CAPABILITY = "hopper_", 90
SMALL_IN_HOPPER_FORM = SMALL.replace("Kernels/", "Hopper/")
OPCODES = ("HMMA", "HGMMA", "LDSM", "LDS", "STS", "LDGSTS", "LDG", "STG", "LDL", "STL", "LD", "ST", "MUFU", "FFMA",
           "FMUL", "FADD", "DFMA", "DADD", "DMUL", "BAR", "SHFL")


class Clock:
    """What is left of the minutes; every step has to leave some for those after it."""

    def __init__(self, minutes, begin=None):
        self.end = (time.monotonic() if begin is None else begin) + 60 * minutes

    def left(self, reserved=0.0):
        return max(0.0, self.end - time.monotonic() - reserved)


def run(words, seconds, environment=None):
    """{"status", "seconds", "output"}; status None where it ran out of time or could not be started."""
    begin = time.monotonic()
    try:
        done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=max(seconds, 1), env=environment, check=False)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        status, output = None, error.stdout or b""
    except OSError as error:
        status, output = None, str(error).encode()
    return {"status": status, "seconds": round(time.monotonic() - begin, 2),
            "output": output.decode("utf-8", "replace")}


# ---- what is here ------------------------------------------------------------------------------

def program(name):
    """A program of a CUDA installation, or None."""
    folders = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    return shutil.which(name) or next(
        (path for path in (os.path.join(folder, "bin", name) for folder in folders if folder) if os.path.exists(path)),
        None)


def device_facts(emulated):
    if emulated:
        return {"name": "emulation", "capability": 80, "driver": "", "memory_mb": 0}
    said = run(["nvidia-smi", "--query-gpu=name,compute_cap,driver_version,memory.total",
                "--format=csv,noheader,nounits"], 20)
    lines = said["output"].strip().splitlines()
    if said["status"] != 0 or not lines:
        raise SystemExit(f"nvidia-smi names no device here: {said['output'].strip() or 'it is not there'}")
    name, capability, driver, memory = [part.strip() for part in lines[0].split(",")]
    return {"name": name, "capability": int(capability.replace(".", "")), "driver": driver,
            "memory_mb": int(memory)}


# ---- tests -------------------------------------------------------------------------------------

def kinds_of(listed):
    """The variants that the test program has, from its list of tests: "plain", "table", ..."""
    return sorted(set(re.findall(r"^  IsRightAtEverySize/(\w+)", listed, re.MULTILINE)))


def results_of(output):
    """{test: "passed", "failed", "skipped", or "unfinished"} of a GoogleTest program's output."""
    found = {}
    for line in output.splitlines():
        if begun := BEGUN.match(line):
            found[begun[1]] = "unfinished"
        elif (ended := LINE.match(line)) and ended[2] in found:
            found[ended[2]] = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[ended[1]]
    return found


def run_tests(programs, clock, reserved, small):
    """Each variant in a process of its own: an error of the device ends the process it happens in."""
    listed = run([programs / TESTS, "--gtest_list_tests"], 60)["output"]
    filters = {"checks": "CudaChecks.*"}
    for kind in kinds_of(listed):
        filters[kind] = f"*/Cuda.IsRightWhereRowsSeeNoKey/{kind}" if small else f"*/{kind}:-*Long*"
    step = {"kinds": {}, "failures": {}}
    for kind, chosen in filters.items():
        done = run([programs / TESTS, f"--gtest_filter={chosen}"], clock.left(reserved))
        results = results_of(done["output"])
        counts = {word: list(results.values()).count(word) for word in ("passed", "failed", "skipped", "unfinished")}
        step["kinds"][kind] = {**counts, "seconds": done["seconds"]}
        if done["status"] != 0:
            step["failures"][kind] = done["output"][-4000:]
    step["passed"] = all(whole(one) for kind, one in step["kinds"].items() if not kind.startswith(HOPPER))
    return step


def whole(counts):
    """Whether tests ran, and nothing but passed."""
    return counts["passed"] > 0 and counts["failed"] == counts["skipped"] == counts["unfinished"] == 0


def run_sanitizers(programs, clock, reserved, capability):
    tool = program("compute-sanitizer")
    if tool is None:
        return {"passed": False, "absent": "compute-sanitizer is not there"}
    step = {"tools": {}}
    runs = [(name, name, SMALL) for name in SANITIZERS]
    if capability == HOPPER_CAPABILITY:
        runs += [(HOPPER + name, name, SMALL_IN_HOPPER_FORM) for name in SANITIZERS]
    for number, (key, name, chosen) in enumerate(runs):
        seconds = clock.left(reserved) / (len(runs) - number)
        done = run([tool, "--tool", name, "--error-exitcode", "9", programs / TESTS, f"--gtest_filter={chosen}"], seconds)
        step["tools"][key] = {"passed": done["status"] == 0, "seconds": done["seconds"]}
        if done["status"] != 0:
            step["tools"][key]["output"] = done["output"][-4000:]
    step["passed"] = all(one["passed"] for key, one in step["tools"].items() if not key.startswith(HOPPER))
    return step


# ---- machine code ------------------------------------------------------------------------------

def counts_of_sass(text):
    """{function: {opcode: how often}} of what `cuobjdump -sass` or `nvdisasm` prints, of OPCODES and "all"."""
    functions, now = {}, None
    for line in text.splitlines():
        if begun := re.search(r"Function : (\S+)|^\s*\.text\.(\S+?):", line):
            now = functions.setdefault(begun[1] or begun[2], {})
            continue
        found = re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P[\dT]+\s+)?([A-Z][A-Z0-9]*)", line)
        if now is None or not found or found[1] == "NOP":
            continue
        now["all"] = now.get("all", 0) + 1
        if found[1] in OPCODES:
            now[found[1]] = now.get(found[1], 0) + 1
    return functions


def resources_of(text):
    """{function: {"registers", "stack", "shared"}} of `cuobjdump --dump-resource-usage`."""
    pairs = re.findall(r"Function (\S+?):\s*\n?\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)", text)
    return {name: {"registers": int(registers), "stack": int(stack), "shared": int(shared)}
            for name, registers, stack, shared in pairs}


def check_machine_code(programs, capability, clock, reserved):
    """Of the forward kernel: no local memory in plain, loads of shared memory that are known as such."""
    tool = program("cuobjdump")
    if tool is None:
        return {"passed": None, "absent": "cuobjdump is not there"}
    architecture = "sm_90a" if capability == 90 else f"sm_{capability // 10}0"
    usage = run([tool, "--dump-resource-usage", "-arch", architecture, programs / TESTS], clock.left(reserved))
    code = run([tool, "-sass", "-arch", architecture, programs / TESTS], clock.left(reserved))
    kernels = resources_of(usage["output"])
    for name, counts in counts_of_sass(code["output"]).items():
        kernels.setdefault(name, {}).update(counts)
    plain = {name: one for name, one in kernels.items() if "attention_forward_kernel" in name and "PlainScore" in name}
    spilling = sorted(name for name, one in plain.items() if one.get("LDL", 0) + one.get("STL", 0) > 0)
    return {"passed": bool(plain) and not spilling and code["status"] == 0, "architecture": architecture,
            "spilling": spilling, "kernels": kernels}


# ---- times -------------------------------------------------------------------------------------

def torch_libraries(version):
    """The folder of LibTorch's libraries, of this version's minor number and with a CUDA half; None or why not."""
    said = run(["python3", "-c", "import os, torch; print(torch.__version__, torch.cuda.is_available(), "
                "os.path.join(os.path.dirname(torch.__file__), 'lib'))"], 60)
    words = said["output"].split()
    if said["status"] != 0 or len(words) < 3:
        return None, "this machine's Python has no torch"
    if words[0].split(".")[:2] != version.split(".")[:2]:
        return None, f"this machine's torch is {words[0]}, and the programs want {version}"
    if words[1] != "True":
        return None, "this machine's torch sees no device"
    return words[2], ""


def table_of(output):
    """The last JSON object that a program printed, whatever stands before it."""
    begin = output.find("{")
    try:
        return json.loads(output[begin:]) if begin >= 0 else None
    except ValueError:
        return None


def run_table(programs, bundle, clock, small):
    """The times beside rivals where LibTorch is there, else those of the kernels alone: a length at a time, so that one
    that takes too long loses no other."""
    lengths, dims = (("17",), "16") if small else (("2048", "8192", "32768"), "64,128")
    folder, why = None, "the programs hold no worker"
    if (programs / "phasescope-worker").exists():
        folder, why = torch_libraries(bundle["torch"])
    step = {"without_rivals": why, "absent_lengths": [], "table": None}
    for number, length in enumerate(lengths):
        seconds = clock.left() / (len(lengths) - number)
        table = folder and rows_beside_rivals(programs, folder, length, dims, 0.7 * seconds)
        if not table:
            step["without_rivals"] = step["without_rivals"] or "the worker gave no times beside rivals"
            words = ["--lengths", length, "--dims", dims,
                     *(["--heads", "2", "--runs", "1", "--calls", "1"] if small else [])]
            done = run([programs / BENCH, *words], 0.3 * seconds if folder else seconds)
            table = table_of(done["output"])
        if table is None:
            step["absent_lengths"].append(length)
            step["output"] = done["output"][-4000:]
        elif step["table"] is None:
            step["table"] = table
        else:
            step["table"]["rows"] += table["rows"]
    step["passed"] = step["table"] is not None and not step["absent_lengths"]
    return step


def library_path(folder):
    """Where LibTorch's libraries are, and beside them NVIDIA's, of which the worker itself asks for the CUDA runtime."""
    beside = sorted(str(path) for path in Path(folder).parents[1].glob("nvidia/*/lib"))
    return ":".join([str(folder), *beside, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])


def rows_beside_rivals(programs, folder, length, dims, seconds):
    environment = {**os.environ, "LD_LIBRARY_PATH": library_path(folder)}
    done = run([programs / "phasescope", "bench", "kernels", "--backend", "cuda-unverified", "--heads", "8", "--lengths",
                length, "--dims", dims, "--runs", "3", "--json"], seconds, environment)
    return table_of(done["output"]) if done["status"] == 0 else None


# ---- all of it ---------------------------------------------------------------------------------

def measure(programs, bundle, clock, emulated):
    result = {"format": FORMAT, "bundle": bundle, "date": time.strftime("%Y-%m-%d", time.gmtime()),
              "host": {"system": platform.platform(), "processors": os.cpu_count()},
              "device": device_facts(emulated), "emulated": emulated}

    def step(name, call):
        begin = time.monotonic()
        print(f"{name} ...", file=sys.stderr, flush=True)
        result[name] = call()
        result[name]["seconds"] = round(time.monotonic() - begin, 1)

    step("tests", lambda: run_tests(programs, clock, 0 if emulated else 300, emulated))
    if not emulated:
        step("sanitizers", lambda: run_sanitizers(programs, clock, 180, result["device"]["capability"]))
        step("machine_code", lambda: check_machine_code(programs, result["device"]["capability"], clock, 150))
    step("times", lambda: run_table(programs, bundle, clock, emulated))
    return result


def unpacked(folder):
    with tarfile.open(HERE / PROGRAMS) as archive:
        for member in archive.getmembers():
            if not member.isfile() or "/" in member.name:
                raise SystemExit(f"{PROGRAMS} holds {member.name}, which is no program")
        archive.extractall(folder)
    return Path(folder)


def main(words=None):
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--out", default="result.json", help="the JSON file (result.json)")
    options.add_argument("--minutes", type=float, default=10, help="all of it takes no longer (10)")
    asked = options.parse_args(words)
    clock = Clock(asked.minutes)
    bundle = json.loads((HERE / "bundle.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        result = measure(unpacked(folder), bundle, clock, bundle["emulated"])
    partial = Path(asked.out + ".partial")
    partial.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    partial.rename(asked.out)
    for name in ("tests", "sanitizers", "machine_code", "times"):
        if name in result:
            word = {True: "passed", False: "did not pass", None: "not looked at"}[result[name]["passed"]]
            print(f"{name}: {word}, {result[name]['seconds']} s {result[name].get('absent', '')}".rstrip())
    print(f"wrote {asked.out}")
    return 0 if result["tests"]["passed"] and result["times"]["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
