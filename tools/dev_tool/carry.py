"""Collects into .carry/ what `./dev test --gpu` needs and a GPU machine without network may lack:
header-only libraries, GoogleTest's sources, and two static C libraries that need nothing but libc."""

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
FILES = {
    "/usr/include/pcre2.h": "prefix/include/pcre2.h",
    "/usr/include/utf8proc.h": "prefix/include/utf8proc.h",
    "/usr/lib/x86_64-linux-gnu/libpcre2-8.a": "prefix/lib/libpcre2-8.a",
    "/usr/lib/x86_64-linux-gnu/libutf8proc.a": "prefix/lib/libutf8proc.a",
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
