"""Formatting by the pinned clang-format, and the layers."""

import subprocess
import sys

from . import wheels
from .console import DevError, output_of, say
from .paths import CLANG_FORMAT, ROOT

SUFFIXES = (".h", ".cpp", ".cu", ".cuh")


def sources():
    """Tracked and new files of ours, as paths from the root."""
    listing = output_of(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"])
    if listing is None:
        raise DevError("./dev lint asks git for the files, and this is no git checkout")
    return [name for name in listing.splitlines()
            if name.endswith(SUFFIXES) and (ROOT / name).exists()]


def lint(fix=False):
    wheels.install()
    mode = ["-i"] if fix else ["--dry-run", "--Werror"]
    files = sources()
    formatted = not files or run([CLANG_FORMAT, *mode, *files])
    layers = run([sys.executable, "-B", "tests/build/layers_test.py", "--sources"])
    say(f"{len(files)} files: formatting {'good' if formatted else 'differs (./dev lint --fix)'}, "
        f"layers {'good' if layers else 'broken'}")
    return 0 if formatted and layers else 1


def run(command):
    return subprocess.run([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL,
                          stdout=sys.stderr.fileno()).returncode == 0
