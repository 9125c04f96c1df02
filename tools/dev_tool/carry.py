"""Collects into .carry/ what `./dev test --gpu` needs and a GPU machine without network may lack:
header-only libraries and GoogleTest's sources. No compiled code, so the machines need not match."""

import shutil
from pathlib import Path

from . import debian
from .console import say
from .paths import CARRY

# Folder on a Debian system: folder under .carry.
HEADERS = {
    "/usr/include/nlohmann": "prefix/include/nlohmann",
    "/usr/share/cmake/nlohmann_json": "prefix/share/cmake/nlohmann_json",
    "/usr/include/hwy": "prefix/include/hwy",
    "/usr/src/googletest": "googletest",
}


def carry():
    debian.install()
    partial = CARRY.with_name(".carry.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for source, target in HEADERS.items():
        if not Path(source).is_dir():
            say(f"{source} is not there; going on without")
            continue
        shutil.copytree(source, partial / target,
                        ignore=shutil.ignore_patterns("test", "samples", "docs"))
    shutil.rmtree(CARRY, ignore_errors=True)
    partial.rename(CARRY)
    size = sum(path.stat().st_size for path in CARRY.rglob("*") if path.is_file())
    say(f"{CARRY}: {size / 1e6:.1f} MB")
    return 0
