"""How every view looks: drawn in software, compared with the looks that were taken for right."""

import html
import os
import shutil
import subprocess
import sys

from . import build
from .console import DevError, say
from .paths import OUT, ROOT

HASHES = ROOT / "tests" / "data" / "app" / "reference_pictures.txt"
KEPT = ROOT / "build" / "looks"  # the pictures of the last --update on this machine, by their hash
STYLE = """body { font: 14px Inter, sans-serif; margin: 24px; }
.row { display: flex; gap: 12px; margin-bottom: 24px; } .row > div { width: 32%; } img { width: 100%; }
.both { position: relative; background: black; } .both img + img { position: absolute; left: 0; top: 0;
mix-blend-mode: difference; } .none { color: #777; }"""


def looks(update, scale):
    """Draws all pictures; writes a page of those that differ, or takes all of them for right. At another scale they
    are drawn to be looked at."""
    if not 0.75 <= scale <= 3:
        raise DevError("--scale takes 0.75 to 3", 2)
    if update and scale != 1:
        raise DevError("pictures of another scale are not compared: leave out --update or --scale", 2)
    program = build.build("release", ["window_test"]) / "bin" / "window_test"
    folder = OUT / "looks"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    done = subprocess.run([program, "--gtest_filter=*ReferencePictures*", "--gtest_brief=1"], stdin=subprocess.DEVNULL,
                          env={**os.environ, "PHASESCOPE_LOOKS": str(folder), "PHASESCOPE_LOOKS_SCALE": str(scale)},
                          stdout=sys.stderr.fileno())
    if done.returncode:
        raise DevError("the views could not be drawn")
    if scale != 1:
        say(f"drew every view at scale {scale:g}: {folder}")
        return 0
    now = hashes_of(folder / "hashes.txt")
    letters = (folder / "letters.txt").read_text().strip()
    return take(now, letters, folder) if update else compare(now, letters, folder)


def hashes_of(path):
    """By "view state theme"."""
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.rsplit(" ", 1) for line in lines if line.count(" ") == 3)


def file_of(name):
    return name.replace(" ", "_") + ".png"


def take(now, letters, folder):
    HASHES.parent.mkdir(parents=True, exist_ok=True)
    HASHES.write_text(letters + "\n" + "".join(f"{name} {now[name]}\n" for name in sorted(now)))
    KEPT.mkdir(parents=True, exist_ok=True)
    for name, number in now.items():
        shutil.copyfile(folder / file_of(name), KEPT / f"{number}.png")
    say(f"took {len(now)} pictures for right: {HASHES.relative_to(ROOT)}; look at them in {folder}")
    return 0


def compare(now, letters, folder):
    before = hashes_of(HASHES)
    there = HASHES.read_text().splitlines()[0] if HASHES.exists() else ""
    if letters != there:
        say(f"letters look otherwise here ({letters}) than where the looks were taken ({there}): all may differ")
    differing = sorted(name for name in now if now[name] != before.get(name))
    page = folder / "index.html"
    page.write_text(f"<!doctype html><meta charset='utf-8'><title>Looks</title><style>{STYLE}</style>"
                    f"<h1>{len(differing)} of {len(now)} pictures look otherwise</h1>"
                    "<p>Before, after, and the difference: black where both are the same.</p>" +
                    "".join(row(name, before.get(name), folder) for name in differing))
    say(f"{len(differing)} of {len(now)} pictures look otherwise: {page}")
    return 1 if differing else 0


def row(name, number, folder):
    """One picture of the page. What it was like before is there where --update was run for it on this machine."""
    after = file_of(name)
    before = KEPT / f"{number}.png"
    if number and before.exists():
        shutil.copyfile(before, folder / f"before_{after}")
        left = f"<img src='before_{after}'>"
        both = f"<div class='both'><img src='before_{after}'><img src='{after}'></div>"
    else:
        left = ("<p class='none'>The picture of before is not on this machine: check the commit out that has it, "
                "and run ./dev looks --update there.</p>" if number else "<p class='none'>new</p>")
        both = ""
    return (f"<h2>{html.escape(name)}</h2><div class='row'><div>{left}</div><div><img src='{after}'></div>"
            f"<div>{both}</div></div>")
