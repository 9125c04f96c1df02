#!/usr/bin/env python3
"""The first ten minutes of the CUDA kernels on a device: their tests, compute-sanitizer on small cases,
their machine code, their times beside named rivals and those of whole models, all in one JSON file. It lies beside
programs.tar.xz (`./dev carry --out DIR`) and needs Python 3.9 and a driver, nothing else; what else there is
(compute-sanitizer, cuobjdump, LibTorch of the right version) is used, and what is not there is said.

    python3 first_minutes.py [--out result.json] [--minutes 10]

`./dev bench --import result.json` makes docs/benchmarks.md and the list of verified kernels of it."""

import argparse
import functools
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import spills

HERE = Path(__file__).resolve().parent
FORMAT = 1
PROGRAMS = "programs.tar.xz"
TESTS, BENCH = "kernels_cuda_test", "kernels_cuda_bench"
LINE = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:, where .*)?(?: \((\d+) ms\))?$")
BEGUN = re.compile(r"^\[ RUN +\] (\S+)$")
SANITIZERS = ("memcheck", "racecheck", "synccheck", "initcheck")
FOUND_ERROR = 9  # the status that they are told to end with
# Processes that share the device, where so many processors make their cases and their float64 truth.
AT_ONCE = min(4, os.cpu_count() or 1)
# Compute modes in which a device takes one process: a second one that comes meanwhile ends with an error.
EXCLUSIVE = ("Exclusive_Process", "Exclusive_Thread")
# Few rows and keys, every variant, forward and backward.
SMALL = "Kernels/Cuda.IsRightWhereRowsSeeNoKey/*:Kernels/Cuda.IsRightWithSinks/*"
# The Hopper form's, of compute capability 9.0 alone: what fails there says nothing of the Ampere form.
HOPPER, HOPPER_CAPABILITY = "hopper_", 90
SMALL_IN_HOPPER_FORM = SMALL.replace("Kernels/", "Hopper/")
# Run configurations beside the programs, and words of `bench step` with them: one of the size of a bundled model, and one
# of a billion parameters, whose steps not every device has room for.
MODELS = {"desk_rope.json": (), "one_billion.json": ("--passes", "forward")}
OPCODES = ("HMMA", "HGMMA", "LDSM", "LDS", "STS", "LDGSTS", "LDG", "STG", "LDL", "STL", "LD", "ST", "MUFU", "FFMA",
           "FMUL", "FADD", "DFMA", "DADD", "DMUL", "BAR", "SHFL")


class Clock:
    """What is left of the minutes, every step having to leave some for those after it; and how many processes may run
    beside each other meanwhile."""

    def __init__(self, minutes, begin=None, at_once=None):
        self.end = (time.monotonic() if begin is None else begin) + 60 * minutes
        self.at_once = AT_ONCE if at_once is None else at_once

    def left(self, reserved=0.0):
        return max(0.0, self.end - time.monotonic() - reserved)

    def share(self, number, of, reserved=0.0):
        """What is left for the run of that number, so that those after it have as much; at_once run beside each other."""
        return self.left(reserved) * min(1.0, self.at_once / (of - number))

    def side_by_side(self, calls):
        """The results of some calls, at_once at a time."""
        with ThreadPoolExecutor(self.at_once) as pool:
            return [future.result() for future in [pool.submit(call) for call in calls]]


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
        return {"name": "emulation", "capability": 80, "driver": "", "memory_mb": 0, "compute_mode": "Default"}
    said = run(["nvidia-smi", "--query-gpu=name,compute_cap,driver_version,memory.total,compute_mode",
                "--format=csv,noheader,nounits"], 20)
    lines = said["output"].strip().splitlines()
    if said["status"] != 0 or not lines:
        raise SystemExit(f"nvidia-smi names no device here: {said['output'].strip() or 'it is not there'}")
    name, capability, driver, memory, mode = [part.strip() for part in lines[0].split(",")]
    if mode == "Prohibited":
        raise SystemExit(f"{name} takes no program: its compute mode is Prohibited (nvidia-smi -c DEFAULT changes it)")
    return {"name": name, "capability": int(capability.replace(".", "")), "driver": driver,
            "memory_mb": int(memory), "compute_mode": mode}


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
    done_of = clock.side_by_side([lambda chosen=chosen: run([programs / TESTS, f"--gtest_filter={chosen}"],
                                                            clock.left(reserved)) for chosen in filters.values()])
    for kind, done in zip(filters, done_of):
        results = results_of(done["output"])
        counts = {word: list(results.values()).count(word) for word in ("passed", "failed", "skipped", "unfinished")}
        if done["status"] != 0 and not counts["failed"]:  # it ended between two tests
            counts["unfinished"] = max(counts["unfinished"], 1)
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
    runs = [(name, name, SMALL) for name in SANITIZERS]
    if capability == HOPPER_CAPABILITY:
        runs += [(HOPPER + name, name, SMALL_IN_HOPPER_FORM) for name in SANITIZERS]

    def look(number, name, chosen):
        done = run([tool, "--tool", name, "--error-exitcode", FOUND_ERROR, programs / TESTS, f"--gtest_filter={chosen}"],
                   clock.share(number, len(runs), reserved))
        said = {"passed": done["status"] == 0, "said": verdict_of(done), "seconds": done["seconds"]}
        return said if said["passed"] else {**said, "output": done["output"][-4000:]}

    looked = clock.side_by_side([lambda number=number, name=name, chosen=chosen: look(number, name, chosen)
                                 for number, (_, name, chosen) in enumerate(runs)])
    step = {"tools": {key: one for (key, _, _), one in zip(runs, looked)}}
    step["passed"] = all(one["passed"] for key, one in step["tools"].items() if not key.startswith(HOPPER))
    return step


def verdict_of(done):
    """Of a sanitizer: one that was cut short has found nothing, and has not passed either."""
    words = {None: "did not finish", 0: "passed", FOUND_ERROR: "found an error"}
    return words.get(done["status"], f"ended with status {done['status']}")


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
    """Of the forward kernels of plain scores that are to spill nothing: no local memory. `passed` is None where that could
    not be looked at."""
    tool = program("cuobjdump")
    if tool is None:
        return {"passed": None, "absent": "cuobjdump is not there"}
    architecture = "sm_90a" if capability == 90 else f"sm_{capability // 10}0"
    kernels = {}
    for words, read in (("--dump-resource-usage", resources_of), ("-sass", counts_of_sass)):
        done = run([tool, words, "-arch", architecture, programs / TESTS], clock.left(reserved))
        if done["status"] != 0:
            why = "ran out of time" if done["status"] is None else f"ended with status {done['status']}"
            return {"passed": None, "absent": f"cuobjdump {words} {why}", "output": done["output"][-4000:]}
        for name, counts in read(done["output"]).items():
            kernels.setdefault(name, {}).update(counts)
    looked_at = {name: one for name, one in kernels.items() if spills_nothing(name, architecture)}
    spilling = sorted(name for name, one in looked_at.items() if one.get("LDL", 0) + one.get("STL", 0) > 0)
    found = {"passed": not spilling if looked_at else None, "architecture": architecture, "spilling": spilling,
             "kernels": kernels}
    return found if looked_at else {**found, "absent": f"cuobjdump names no forward kernel of plain for {architecture}"}


def spills_nothing(name, architecture):
    """Whether a kernel is one of plain's forward pass by which this is judged."""
    kernel = spills.kernel_of(name)
    return bool(kernel) and (kernel.name, kernel.score) == ("forward", "PlainScore") and \
        spills.most(name, architecture) == 0


# ---- times -------------------------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
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
    folder, why = libraries_of_worker(programs, bundle)
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


def libraries_of_worker(programs, bundle):
    """The folder of LibTorch's libraries; None or why the worker does not run."""
    if not (programs / "phasescope-worker").exists():
        return None, "the programs hold no worker"
    return torch_libraries(bundle["torch"])


def library_path(folder):
    """Where LibTorch's libraries are, and beside them NVIDIA's, of which the worker itself asks for the CUDA runtime."""
    beside = sorted(str(path) for path in Path(folder).parents[1].glob("nvidia/*/lib"))
    return ":".join([str(folder), *beside, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])


def rows_beside_rivals(programs, folder, length, dims, seconds):
    done = run_verb(programs, folder, ["kernels", "--heads", "8", "--lengths", length, "--dims", dims], seconds)
    return table_of(done["output"]) if done["status"] == 0 else None


def run_verb(programs, folder, words, seconds):
    environment = {**os.environ, "LD_LIBRARY_PATH": library_path(folder)}
    return run([programs / "phasescope", "bench", *words, "--backend", "cuda-unverified", "--runs", "3", "--json"], seconds,
               environment)


def run_models(programs, bundle, clock, reserved):
    """Tokens a second of whole models with random weights, and what crosses to the device and back. No kernel is verified
    by it."""
    folder, why = libraries_of_worker(programs, bundle)
    if not folder:
        return {"passed": None, "absent": why}
    step = {"tables": {}, "failures": {}}
    for number, (name, words) in enumerate(MODELS.items()):
        done = run_verb(programs, folder, ["step", programs / name, "--device", "cuda", *words],
                        clock.left(reserved) / (len(MODELS) - number))
        table = table_of(done["output"]) if done["status"] == 0 else None
        if table is None:
            ended = "did not finish" if done["status"] is None else f"ended with status {done['status']}"
            step["failures"][name] = f"{ended}: {done['output'][-4000:]}"
        else:
            step["tables"][name] = table
    step["passed"] = not step["failures"]
    return step


# ---- all of it ---------------------------------------------------------------------------------

def measure(programs, bundle, clock, emulated):
    result = {"format": FORMAT, "bundle": bundle, "date": time.strftime("%Y-%m-%d", time.gmtime()),
              "host": {"system": platform.platform(), "processors": os.cpu_count()},
              "device": device_facts(emulated), "emulated": emulated}
    mode = result["device"]["compute_mode"]
    if mode in EXCLUSIVE:
        print(f"the device's compute mode is {mode}: one program at a time", file=sys.stderr, flush=True)
        clock.at_once = 1

    def step(name, call):
        begin = time.monotonic()
        print(f"{name} ...", file=sys.stderr, flush=True)
        result[name] = call()
        result[name]["seconds"] = round(time.monotonic() - begin, 1)

    step("tests", lambda: run_tests(programs, clock, 0 if emulated else 300, emulated))
    if not emulated:
        step("sanitizers", lambda: run_sanitizers(programs, clock, 210, result["device"]["capability"]))
        step("machine_code", lambda: check_machine_code(programs, result["device"]["capability"], clock, 180))
        step("models", lambda: run_models(programs, bundle, clock, 130))
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
    for name in ("tests", "sanitizers", "machine_code", "models", "times"):
        if name in result:
            word = {True: "passed", False: "did not pass", None: "not looked at"}[result[name]["passed"]]
            print(f"{name}: {word}, {result[name]['seconds']} s {result[name].get('absent', '')}".rstrip())
    print(f"wrote {asked.out}")
    return 0 if result["tests"]["passed"] and result["times"]["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
