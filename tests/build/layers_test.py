#!/usr/bin/env python3
"""The layers of CONTRIBUTING.md hold: includes, link libraries, what the program loads, sizes of tree and files.

`layers_test.py --sources` looks at the sources alone (./dev lint).
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = os.environ.get("PHASESCOPE_BUILD")

# Folder: the folders it may use directly; what those use comes with them.
DIRECT = {
    "app": {"widgets", "formats", "protocol", "tasks"},
    "worker": {"training", "analysis", "protocol"},
    "widgets": {"formats"},
    "training": {"analysis", "model", "protocol", "tasks"},
    "tasks": {"formats"},
    "analysis": {"model", "protocol"},
    "model": {"formats", "kernels", "protocol"},
    "formats": set(),
    "kernels": set(),
    "protocol": {"formats"},
}
SECOND_LIBRARIES = {"app": ["verbs"], "formats": ["model_files"], "kernels": ["kernel_problems"]}
WITHOUT_TORCH = ("app", "widgets", "formats", "kernels", "protocol", "tasks")
WITHOUT_WINDOW = ("analysis", "training", "model", "formats", "kernels", "protocol", "tasks",
                  "worker")
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
WINDOW = re.compile(r"^(imgui|implot|imgui_internal|GLFW/|glfw|GL/|GLES|glad|imgui_)", re.IGNORECASE)
LOADED = re.compile(r"lib(torch|c10|cuda|cudart|cublas|cudnn|nccl|nvrtc|cufft)")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
BARE_INTEGER = re.compile(r"(?<![:\w])u?int\d+_t\b")
# What CMake makes sources of is held too (kernels/scores.cmake).
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".c", ".hpp", ".in"}
OTHER_FOLDERS = ("bench", "tests", "tools")
# A file that is longer has more than one topic.
MOST_LINES = 600
TREE_BYTES = 60_000_000
TEST_DATA_BYTES = 16_500_000


def reachable(folder):
    """The folders that `folder` may use, itself included."""
    found, todo = set(), [folder]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(DIRECT[name])
    return found


def include_faults(root):
    """A sentence for every include that crosses the layers."""
    faults = []
    for folder in DIRECT:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
                    faults += [f"{path.relative_to(root)} includes {name}: {reason}"
                               for reason in faults_of(folder, name)]
    return faults


def faults_of(folder, name):
    """Why `folder` must not include `name`."""
    if folder in WITHOUT_TORCH and TORCH.match(name):
        yield f"{folder}/ is built without LibTorch"
    if folder in WITHOUT_WINDOW and WINDOW.match(name):
        yield f"{folder}/ knows no window"
    other = name.split("/")[0]
    if "/" in name and other in DIRECT and other not in reachable(folder):
        yield f"{folder}/ may use {', '.join(sorted(reachable(folder) - {folder})) or 'no other folder'}"


def spelling_faults(root):
    """A sentence for every line of ours that has an integer type of <cstdint> without its namespace."""
    faults = []
    for folder in (*DIRECT, *OTHER_FOLDERS):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                    faults += [f"{path.relative_to(root).as_posix()}:{number} has {name}, elsewhere std::{name}"
                               for name in BARE_INTEGER.findall(line.split("//")[0])]
    return faults


def length_faults(root):
    """A sentence for every file of ours that is too long."""
    faults = []
    for folder in (*DIRECT, *OTHER_FOLDERS):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES or path.suffix == ".py":
                lines = path.read_text(encoding="utf-8").count("\n")
                if lines > MOST_LINES:
                    faults.append(f"{path.relative_to(root).as_posix()} has {lines} lines, "
                                  f"more than {MOST_LINES}: cut it by topic")
    return faults


def libraries_of(folder):
    """The targets of a folder's sources."""
    return ["phasescope_" + name for name in (folder, *SECOND_LIBRARIES.get(folder, ()))]


def link_faults(text):
    """A sentence for every target of `text` (layers.txt) that links what its layer may not."""
    links = {}
    for line in text.splitlines():
        target, _, libraries = line.partition(": ")
        links[target] = set(libraries.replace("phasescope::", "phasescope_").split())
    faults = []
    for folder in DIRECT:
        found = set().union(*(everything_linked(name, links) for name in libraries_of(folder)))
        if folder in WITHOUT_TORCH:
            faults += [f"phasescope_{folder} links {name}" for name in sorted(found)
                       if re.search(r"torch|libc10", name)]
        faults += [f"phasescope_{folder} links phasescope_{other}" for other in sorted(DIRECT)
                   if "phasescope_" + other in found and other not in reachable(folder)]
    return faults


def everything_linked(target, links):
    found, todo = set(), [target]
    while todo:
        for name in links.get(todo.pop(), ()):
            if name not in found:
                found.add(name)
                todo.append(name)
    return found


def tracked_sizes():
    """[(path, bytes)] of the files git tracks, or None outside a checkout."""
    listing = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z"], capture_output=True, check=False)
    if listing.returncode != 0:
        return None
    names = [name for name in listing.stdout.decode().split("\0") if name]
    return [(name, (SOURCE / name).stat().st_size) for name in names if (SOURCE / name).is_file()]


class Sources(unittest.TestCase):
    def test_includes_stay_in_their_layer(self):
        self.assertEqual(include_faults(SOURCE), [])

    def test_crossing_includes_are_found(self):
        crossings = {
            "app/view.cpp": "#include <torch/torch.h>", "widgets/map.h": "#include <ATen/ATen.h>",
            "analysis/a.cpp": "#include <imgui.h>", "kernels/k.cu": '#include "formats/error.h"',
            "model/m.cpp": "#include <GLFW/glfw3.h>", "app/x.cpp": '#include "model/decoder.h"'}
        with tempfile.TemporaryDirectory() as folder:
            for name, line in crossings.items():
                (Path(folder) / name).parent.mkdir(exist_ok=True)
                (Path(folder) / name).write_text(line + "\n", encoding="utf-8")
            found = {fault.split()[0] for fault in include_faults(Path(folder))}
        self.assertEqual(found, set(crossings))

    def test_files_are_short(self):
        self.assertEqual(length_faults(SOURCE), [])

    def test_integers_have_one_spelling(self):
        self.assertEqual(spelling_faults(SOURCE), [])

    def test_bare_integers_are_found(self):
        lines = {"model/bare.h": "int64_t n;", "tests/app/cast.cpp": "f(static_cast<uint8_t>(n));",
                 "app/right.cpp": "std::int64_t n;  // no int64_t\nuse(my_int64_t, std::vector<std::uint8_t>());"}
        with tempfile.TemporaryDirectory() as folder:
            for name, line in lines.items():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).write_text(line + "\n", encoding="utf-8")
            found = {fault.split(":")[0] for fault in spelling_faults(Path(folder))}
        self.assertEqual(found, {"model/bare.h", "tests/app/cast.cpp"})

    def test_long_files_are_found(self):
        lengths = {"model/long.cpp": 601, "tests/app/long_test.py": 700, "kernels/cuda/long.cuh": 601,
                   "app/short.h": 600}
        with tempfile.TemporaryDirectory() as folder:
            for name, lines in lengths.items():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).write_text("\n" * lines, encoding="utf-8")
            found = {fault.split()[0] for fault in length_faults(Path(folder))}
        self.assertEqual(found, {"model/long.cpp", "tests/app/long_test.py", "kernels/cuda/long.cuh"})

    def test_the_tree_is_small(self):
        sizes = tracked_sizes()
        if sizes is None:
            self.skipTest("not a git checkout")
        self.assertLess(sum(size for _, size in sizes), TREE_BYTES)
        data = sum(size for name, size in sizes if name.startswith("tests/data/"))
        self.assertLess(data, TEST_DATA_BYTES)


@unittest.skipUnless(BUILD, "PHASESCOPE_BUILD names no build folder")
class Built(unittest.TestCase):
    def test_targets_link_their_layer(self):
        text = (Path(BUILD) / "layers.txt").read_text(encoding="utf-8")
        self.assertIn("phasescope_formats: ", text)
        self.assertEqual(link_faults(text), [])

    def test_crossing_links_are_found(self):
        text = ("phasescope_formats: nlohmann_json::nlohmann_json phasescope_torch\n"
                "phasescope_app: phasescope::widgets\n"
                "phasescope_verbs: phasescope::app phasescope::model\n"
                "phasescope_model: phasescope::torch phasescope::formats\n")
        self.assertEqual(set(link_faults(text)), {
            "phasescope_formats links phasescope_torch", "phasescope_app links phasescope_torch",
            "phasescope_app links phasescope_model"})

    def test_the_window_program_loads_neither_torch_nor_cuda(self):
        program = Path(BUILD) / "bin" / "phasescope"
        if not program.exists():
            self.skipTest(f"{program} is not built")
        loaded = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        self.assertEqual([line.strip() for line in loaded.splitlines() if LOADED.search(line)], [])


if __name__ == "__main__":
    if "--sources" in sys.argv:
        sys.argv = [sys.argv[0], "-q", "Sources"]
    python_cases.run()
