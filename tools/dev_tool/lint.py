"""Formatting by the pinned clang-format, the layers, spelling by the pinned codespell, commits' subjects, and
clang-tidy where it is there."""

import os
import subprocess
import sys

from . import tidy, wheels
from .console import DevError, output_of, say
from .paths import CLANG_FORMAT, PINS, ROOT, SITE

SUFFIXES = (".h", ".cpp", ".cu", ".cuh")
WORDS_IN = (*SUFFIXES, ".py", ".md", ".cmake", ".txt", ".desktop", ".xml")
# Of others, or read by programs: misspelt words there are none of ours.
NOT_OURS = ("tests/data/", "assets/texts/", "assets/models/", "sample_configs/")
TEMPLATES = "tools/dev_tool/templates/"
SPELLING = PINS / "spelling.txt"
LONGEST_SUBJECT = 72


def tracked():
    """Tracked and new files of ours, as paths from the root."""
    listing = output_of(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"])
    if listing is None:
        raise DevError("./dev lint asks git for the files, and this is no git checkout")
    return [name for name in listing.splitlines() if (ROOT / name).exists()]


def sources():
    """Without the templates of ./dev new, which formats what it makes of them."""
    return [name for name in tracked() if name.endswith(SUFFIXES) and not name.startswith(TEMPLATES)]


def lint(fix=False, everything=False):
    wheels.install()
    faults = {"formatting": formatting(fix), "layers": layers(), "spelling": spelling(), "commits": commits(),
              "clang-tidy": tidy.findings(everything)}
    for what, found in faults.items():
        if found:
            print(found, file=sys.stderr)
    say(f"{len(sources())} files: " + ", ".join(
        f"{what} {'differs (./dev lint --fix)' if found and what == 'formatting' else 'broken' if found else 'good'}"
        for what, found in faults.items()) + (f" (not looked at: {tidy.missing()})" if tidy.missing() else ""))
    return 1 if any(faults.values()) else 0


def formatting(fix=False):
    """What clang-format would do otherwise; empty for nothing."""
    files = sources()
    mode = ["-i"] if fix else ["--dry-run", "--Werror"]
    return said_by([CLANG_FORMAT, *mode, *files]) if files else ""


def layers():
    return said_by([sys.executable, "-B", "tests/build/layers_test.py", "--sources"])


def spelling(files=None):
    """Words that codespell knows as misspelt, apart from those of tools/dev_tool/pins/spelling.txt."""
    files = files or [name for name in tracked() if name.endswith(WORDS_IN) and not name.startswith(NOT_OURS)]
    known = [line for line in SPELLING.read_text(encoding="utf-8").split() if line]
    # Where spelling.txt itself stands there are those words.
    files = [name for name in files if ROOT / name != SPELLING]
    return said_by([sys.executable, "-m", "codespell_lib", "--ignore-words-list", ",".join(known), *files],
                   {**os.environ, "PYTHONPATH": os.pathsep.join([str(SITE), os.environ.get("PYTHONPATH", "")])})


def commits():
    """What is wrong with subjects of commits that the main branch does not have yet."""
    known = output_of(["git", "-C", ROOT, "for-each-ref", "--format=%(refname)", "refs/heads/main",
                       "refs/remotes/origin/main"]) or ""
    if not known:
        return ""
    subjects = output_of(["git", "-C", ROOT, "log", "--no-merges", "--format=%s", "HEAD", "--not",
                          *known.split()]) or ""
    return "\n".join(filter(None, map(wrong_subject, subjects.splitlines())))


def wrong_subject(subject):
    """Empty for a subject as they are here: a sentence in the imperative that fits a line."""
    faults = [words for words, wrong in (
        (f"is longer than {LONGEST_SUBJECT} characters", len(subject) > LONGEST_SUBJECT),
        ("begins with no capital letter", not subject[:1].isupper()),
        ("ends with a full stop", subject.endswith(".")),
        ("is no sentence", len(subject.split()) < 2 or ":" in subject.split()[0])) if wrong]
    return f'the commit "{subject}" ' + " and ".join(faults) if faults else ""


def said_by(command, environment=None):
    """What a program said that was not content; empty where it was."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, env=environment, check=False)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip() or "failed without a word"
