"""The tests of docs/reliability.md can fail: `./dev guards` takes what holds each row out of the sources, builds, and
sees the row's tests fail. tests/guards.json lists the guards, and keeps which tests failed without each and when."""

import contextlib
import datetime
import json
import re
import subprocess
import sys

from . import build
from .console import DevError, say
from .paths import ROOT

LIST = ROOT / "tests" / "guards.json"
PAGE_TEST = str(ROOT / "tests" / "build")
FAILED = re.compile(r"^\[  FAILED  \] (\w+\.\w+)", re.MULTILINE)
BEGUN = re.compile(r"^\[ RUN      \] (\w+\.\w+)", re.MULTILINE)
ENDED = re.compile(r"^\[(?:       OK|  FAILED|  SKIPPED) \] (\w+\.\w+)", re.MULTILINE)
LIMIT_S = 600


def all_guards():
    return json.loads(LIST.read_text(encoding="utf-8"))


def write(guards):
    LIST.write_text(json.dumps(guards, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def faults(guards, text_of):
    """A sentence for each guard that cannot be taken out, and for two of one row and name."""
    found, seen = [], set()
    for guard in guards:
        name = f"row {guard['row']}, {guard['guard']}"
        times = text_of(guard["file"]).count(guard["before"])
        if times != 1:
            found.append(f"{name}: {guard['file']} has its line {times} times, not once")
        if name in seen:
            found.append(f"{name} is there twice")
        seen.add(name)
    return found


def source(name):
    return (ROOT / name).read_text(encoding="utf-8")


def rounds(guards):
    """The guards in groups that are taken out together: of a row no two, so that none hides behind another."""
    groups = []
    for guard in guards:
        for group in groups:
            if all(guard["row"] != other["row"] for other in group):
                group.append(guard)
                break
        else:
            groups.append([guard])
    return groups


@contextlib.contextmanager
def without(guards):
    """The sources without these guards; afterwards they are as they were."""
    kept = {guard["file"]: source(guard["file"]) for guard in guards}
    try:
        for guard in guards:
            (ROOT / guard["file"]).write_text(source(guard["file"]).replace(guard["before"], guard["after"]),
                                              encoding="utf-8")
        yield
    finally:
        for name, text in kept.items():
            (ROOT / name).write_text(text, encoding="utf-8")


def cases_of(row):
    """Every case of GoogleTest with a row's number, as suite.case."""
    if PAGE_TEST not in sys.path:
        sys.path.insert(0, PAGE_TEST)
    import reliability_test  # not at the top: without tests/ every other verb goes on
    names = [one.split(": ")[1] for one in reliability_test.tests_by_row()[str(row)]]
    return [name for name in names if "." in name]


def failures(program, row):
    """The cases of a row that fail in a test program, or in which it dies or hangs."""
    words = [build.BUILD / "release" / "bin" / program, "--gtest_filter=" + ":".join(cases_of(row))]
    try:
        said = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", env=build.environment(), timeout=LIMIT_S).stdout
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
    return failed_in(said)


def failed_in(said):
    """What of a GoogleTest program's words tells of cases that failed or did not end, in their order."""
    ended = set(ENDED.findall(said))
    return list(dict.fromkeys([*FAILED.findall(said), *(case for case in BEGUN.findall(said) if case not in ended)]))


def guards(rows):
    """Takes the guards of these rows out (of all without any), and notes what failed; 1 where nothing did."""
    everything = all_guards()
    wrong = faults(everything, source)
    if wrong:
        raise DevError("; ".join(wrong))
    asked = [guard for guard in everything if not rows or guard["row"] in rows]
    blind = []
    try:
        for number, group in enumerate(rounds(asked)):
            say(f"round {number + 1} of {len(rounds(asked))}: {len(group)} guards")
            blind += one_round(group, everything)
    finally:
        build.build("release", sorted({guard["program"] for guard in asked}))
    for guard in blind:
        say(f"row {guard['row']}: without {guard['guard']} no test of {guard['program']} fails")
    return 1 if blind else 0


def one_round(group, everything):
    """Those of the group without which no test fails."""
    blind = []
    with without(group):
        build.build("release", sorted({guard["program"] for guard in group}))
        for guard in group:
            failed = failures(guard["program"], guard["row"])
            say(f"row {guard['row']}, {guard['guard']}: " + (", ".join(failed) or "nothing fails"))
            if not failed:
                blind.append(guard)
                continue
            guard.update(failed=failed, seen=datetime.date.today().isoformat())
            write(everything)
    return blind
