"""clang-tidy with the checks of .clang-tidy, where it is there and something was built. On files that differ
from the main branch: a file takes it some seconds, all of them half an hour."""

import concurrent.futures
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from . import machine
from .console import output_of
from .paths import BUILD, ROOT

DATABASE = BUILD / "release" / "compile_commands.json"
OF_EACH = BUILD / "tidy"
INCLUDED = re.compile(r'^#include "(/[^"]+)"', re.MULTILINE)
# The compiler's own words are gcc's matter: clang before 16 lacks parts of C++20.
FINDING = re.compile(r": (?:warning|error): .*\[(?!clang-diagnostic)[\w,.-]+\]$")
FILE_S = 300


def findings(everything=False):
    """A line for each finding; empty for none, and where there is no clang-tidy or no build."""
    if missing():
        return ""
    files = to_look_at(everything)
    with concurrent.futures.ThreadPoolExecutor(machine.cores()) as several:
        return "\n".join(dict.fromkeys(line for lines in several.map(found_in, files) for line in lines))


def missing():
    """Why nothing can be said; empty where it can."""
    if not shutil.which("clang-tidy"):
        return "there is no clang-tidy here"
    return "" if DATABASE.exists() else "nothing was built"


def to_look_at(everything):
    known = write_database()
    return sorted(name for name in known if everything or name in changed())


def changed():
    """Source files that differ from the main branch, or on it from the commit before."""
    git = ["git", "-C", ROOT]
    head = output_of([*git, "rev-parse", "HEAD"])
    bases = [output_of([*git, "merge-base", "HEAD", branch]) for branch in ("origin/main", "main")]
    base = next((found.strip() for found in bases if found and found != head), "HEAD~1")
    return {str(ROOT / name) for name in (output_of([*git, "diff", "--name-only", base]) or "").splitlines()}


def write_database():
    """A list of commands with a file each, where the build compiles several together and behind a
    precompiled header that clang cannot read. The files of ours in it."""
    entries = {}
    for entry in json.loads(DATABASE.read_text(encoding="utf-8")):
        words = plain_words(shlex.split(entry["command"]))
        for name in sources_of(Path(entry["file"])):
            if Path(name).suffix == ".cpp" and Path(name).is_relative_to(ROOT) and not Path(name).is_relative_to(BUILD):
                entries[name] = {"directory": entry["directory"], "file": name, "arguments": [*words, "-c", name]}
    OF_EACH.mkdir(parents=True, exist_ok=True)
    (OF_EACH / "compile_commands.json").write_text(json.dumps(list(entries.values())), encoding="utf-8")
    return set(entries)


def sources_of(path):
    """The file, or those that are compiled together as it."""
    return INCLUDED.findall(path.read_text(encoding="utf-8")) if path.parent.name == "Unity" else [str(path)]


def plain_words(words):
    """A compiler's words without its name, warnings, outputs and the precompiled header."""
    kept, words = ["clang++"], iter(words[2:] if words[0].endswith("ccache") else words[1:])
    for word in words:
        if word in ("-o", "-c", "-include", "-MF", "-MT"):
            next(words)
        elif not re.match(r"-W|-fpch|-MD", word):
            kept.append(word)
    return kept


def found_in(name):
    done = subprocess.run(["clang-tidy", "--quiet", "-p", OF_EACH, name], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False, timeout=FILE_S, cwd=ROOT)
    return [line for line in done.stdout.splitlines() if FINDING.search(line)]
