"""The pictures of the documents: each is drawn by the command, or the commands joined by &&, that stand above it."""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import build, png
from .console import DevError, say
from .first_window import PROGRAM
from .paths import OUT, ROOT

DOCS = ROOT / "docs"
# A figure is one of the files that --out writes; the window is drawn into the one file of --screenshot.
COMMAND = re.compile(r"`(phasescope [^`]*--(?:out|screenshot) \S+)`")
PICTURE = re.compile(r"!\[[^]]*\]\((images/(?:[^)\s]+/)?([^)/\s]+\.(?:svg|png)))\)")


def listed(text):
    """(command, its picture's place below docs/, name of the file in the command's folder) of a page."""
    found = []
    command = None
    for line in text.splitlines():
        if named := COMMAND.search(line):
            command = named[1]
        for place, name in PICTURE.findall(line):
            if command is None:
                raise DevError(f"no command stands above the picture {place}")
            found.append((command, place, name))
    return found


def draw():
    """Runs each command once, into a folder of its own, and copies the figures that the pages show."""
    build.build("release", [build.PROGRAMS], tests=False)
    wanted = {}
    for page in sorted(DOCS.glob("*.md")):
        for command, place, name in listed(page.read_text()):
            wanted.setdefault(command, []).append((place, name))
    for command, pictures in wanted.items():
        draw_one(command, pictures)
    say(f"wrote {sum(map(len, wanted.values()))} pictures below {DOCS.relative_to(ROOT)}/images")
    return 0


def draw_one(command, pictures):
    """Where the command writes is a folder that has what the project's has, so that it is told in the picture as it
    stands on the page."""
    with tempfile.TemporaryDirectory() as root:
        for path in ROOT.iterdir():
            if path != OUT:
                (Path(root) / path.name).symlink_to(path)
        for words, folder in steps(command):
            done = subprocess.run([str(PROGRAM), *words], cwd=root, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True)
        for place, name in pictures:
            made = Path(root) / folder / name
            if not made.exists():
                sys.stderr.write(done.stderr)
                raise DevError(f"{command} draws no {name}, but " +
                               ", ".join(sorted(path.name for path in made.parent.glob("*.*g"))))
            (DOCS / place).parent.mkdir(parents=True, exist_ok=True)
            if made.suffix == ".png":
                (DOCS / place).write_bytes(png.smaller(made.read_bytes()))
            else:
                shutil.copy(made, DOCS / place)


def steps(command):
    """(words, folder of what is written) of each command between " && "."""
    found = []
    for part in command.split(" && "):
        words = shlex.split(part)[1:]
        if "--out" in words:
            found.append((words, words[words.index("--out") + 1]))
        else:
            found.append((words, str(Path(words[words.index("--screenshot") + 1]).parent)))
    return found
