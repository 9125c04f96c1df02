"""The tests of docs/reliability.md can fail: `./dev guards` takes what holds each row out of a copy of the sources,
builds it there, and sees the row's tests fail. tests/guards.json lists the guards, and keeps which tests failed
without each and when; those that have been seen are left out, so that it goes on where it was ended."""

import contextlib
import datetime
import filecmp
import functools
import json
import re
import shutil
import subprocess
import sys

from . import build, machine
from .console import DevError, run_quietly, say
from .paths import BUILD, CMAKE, NINJA, ROOT, one_at_a_time

LIST = ROOT / "tests" / "guards.json"
PAGE_TEST = str(ROOT / "tests" / "build")
FAILED = re.compile(r"^\[  FAILED  \] (\w+\.\w+)", re.MULTILINE)
BEGUN = re.compile(r"^\[ RUN      \] (\w+\.\w+)", re.MULTILINE)
LONG = re.compile(r"[Rr]ow\d+Long")  # repeats of a quicker case, for hours
ENDED = re.compile(r"^\[(?:       OK|  FAILED|  SKIPPED) \] (\w+\.\w+)", re.MULTILINE)
LIMIT_S = 600
# The copy, with a build folder of its own; and what it has of the tree without a copy.
COPY = BUILD / "guards" / "tree"
LENT = (".venv", ".deps", ".git")
PRESET = "release"


def all_guards():
    return json.loads(LIST.read_text(encoding="utf-8"))


def note(guard, failed):
    """Writes what failed without a guard into the list, which may have changed otherwise since it was read."""
    listed = all_guards()
    for one in listed:
        if name_of(one) == name_of(guard):
            one.update(failed=failed, seen=datetime.date.today().isoformat())
    LIST.write_text(json.dumps(listed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def name_of(guard):
    return f"row {guard['row']}, {guard['guard']}"


def faults(guards, text_of):
    """A sentence for each guard that cannot be taken out, and for two of one row and name."""
    found, seen = [], set()
    for guard in guards:
        name = name_of(guard)
        times = text_of(guard["file"]).count(guard["before"])
        if times != 1:
            found.append(f"{name}: {guard['file']} has its line {times} times, not once")
        if name in seen:
            found.append(f"{name} is there twice")
        seen.add(name)
    return found


def asked_for(guards, rows, again):
    """Those of these rows (of all without any) that have not been seen, or all of them once more."""
    return [guard for guard in guards if (not rows or guard["row"] in rows) and (again or "seen" not in guard)]


# ---- the copy ----------------------------------------------------------------------------------------------------

def source(name):
    return (ROOT / name).read_text(encoding="utf-8")


def names_of_sources():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout
    return {name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()}


def copy_sources(tree=ROOT, copy=COPY, names=None, times=False):
    """Makes the copy what the tree is. A file that changed is newer than what was built of it, so it gets the time
    of now; with `times` it keeps its own, as beside a build folder that was copied too."""
    names = names_of_sources() if names is None else names
    for name in names:
        there = copy / name
        if there.is_file() and filecmp.cmp(tree / name, there, shallow=False):
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copy2 if times else shutil.copy)(tree / name, there)
    for path in [path for path in copy.rglob("*") if path.is_file()]:
        name = path.relative_to(copy)
        if name.parts[0] not in ("build", *LENT) and str(name) not in names:
            path.unlink()


def lend(in_place):
    """What is large and not changed: mounted where the copy stands in the tree's place, linked where it does not."""
    for name in LENT:
        path = COPY / name
        if in_place:
            if path.is_symlink():
                path.unlink()
            path.mkdir(exist_ok=True)
        elif not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
            path.symlink_to(ROOT / name)


def in_its_place(command):
    """The command as one for which, and for nobody else, the copy stands where the tree does: objects that were built
    of the tree are of the copy too then. In a mount namespace of its own, in which one is root in name."""
    mounts = [f'mount --rbind "{ROOT / name}" "{COPY / name}"' for name in LENT if (ROOT / name).exists()]
    mounts.append(f'mount --rbind "{COPY}" "{ROOT}"')
    words = " && ".join([*mounts, f'cd "{ROOT}"', 'exec "$@"'])
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", words, "sh", *map(str, command)]


@functools.lru_cache(maxsize=None)
def can_stand_in_place():
    try:
        return subprocess.run(in_its_place(["true"]), stdin=subprocess.DEVNULL, capture_output=True,
                              check=False).returncode == 0
    except OSError:
        return False


def command_of(command):
    """A command of the copy, and the folder that it runs in."""
    return (in_its_place(command), ROOT) if can_stand_in_place() else (list(map(str, command)), COPY)


def built():
    """The build folder as a command of the copy names it."""
    return (ROOT if can_stand_in_place() else COPY) / "build" / PRESET


def make_copy(programs):
    """The copy of now, with a build folder: that of the tree, or where that cannot be one from nothing."""
    folder = COPY / "build" / PRESET
    COPY.mkdir(parents=True, exist_ok=True)
    lend(True)
    lend(can_stand_in_place())
    if folder.exists() or not can_stand_in_place():
        copy_sources()
    else:
        build.build(PRESET, programs)
        with one_at_a_time(f"build-{PRESET}"):
            copy_sources(times=True)
            say("copying the build folder, once")
            partial = folder.with_name(PRESET + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(BUILD / PRESET, partial, symlinks=True)
            partial.rename(folder)
    if not (folder / "build.ninja").exists():
        configure = [CMAKE, "--preset", PRESET, *build.options(PRESET, werror=False)]
        run_quietly(configure, folder / "configure.log", "configuring the copy", env=build.environment(), cwd=COPY)


def build_copy(programs):
    command, where = command_of([NINJA, "-C", built(), f"-j{machine.jobs()}", *programs])
    run_quietly(command, BUILD / "guards" / "build.log", "building the copy", env=build.environment(), cwd=where)


@contextlib.contextmanager
def without(guard, folder=COPY):
    """The copy without this guard; afterwards it is as it was."""
    path = folder / guard["file"]
    kept = path.read_text(encoding="utf-8")
    try:
        path.write_text(kept.replace(guard["before"], guard["after"]), encoding="utf-8")
        yield
    finally:
        path.write_text(kept, encoding="utf-8")


# ---- what fails --------------------------------------------------------------------------------------------------

def cases_of(row):
    """Every case of GoogleTest with a row's number, as suite.case, but for those of the long tests."""
    if PAGE_TEST not in sys.path:
        sys.path.insert(0, PAGE_TEST)
    import reliability_test  # not at the top: without tests/ every other verb goes on
    names = [one.split(": ")[1] for one in reliability_test.tests_by_row()[str(row)]]
    return [name for name in names if "." in name and not LONG.search(name)]


def failures(program, row):
    """The cases of a row that fail in a test program, or in which it dies or hangs."""
    command, where = command_of([built() / "bin" / program, "--gtest_filter=" + ":".join(cases_of(row))])
    try:
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              env=build.environment(), cwd=where, timeout=LIMIT_S, check=False).stdout
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
    return failed_in(said)


def failed_in(said):
    """What of a GoogleTest program's words tells of cases that failed or did not end, in their order."""
    ended = set(ENDED.findall(said))
    return list(dict.fromkeys([*FAILED.findall(said), *(case for case in BEGUN.findall(said) if case not in ended)]))


def guards(rows, again=False):
    """Takes the guards of these rows out (of all without any), one after the other, and notes what failed; 1 where
    nothing did. What was seen before is left out, but for `again`."""
    everything = all_guards()
    wrong = faults(everything, source)
    if wrong:
        raise DevError("; ".join(wrong))
    asked = asked_for(everything, rows, again)
    if not asked:
        say("each of these has been seen; --again takes them out once more")
        return 0
    with one_at_a_time("guards"):
        programs = sorted({guard["program"] for guard in asked})
        make_copy(programs)
        build_copy(programs)
        broken = broken_tests(asked)
        blind = [words for guard in asked for words in told(guard, broken)]
    for words in blind:
        say(words)
    return 1 if blind else 0


def broken_tests(asked):
    """{(program, row): cases that fail with every guard in its place}: those tell of no guard."""
    pairs = sorted({(guard["program"], guard["row"]) for guard in asked})
    say(f"{len(asked)} guards; first their tests as they are")
    return {(program, row): failures(program, row) for program, row in pairs}


def told(guard, broken):
    """Takes one guard out and notes what failed; yields a sentence where nothing can be said of it, or nothing failed.
    One at a time: what fails without two of them may be of either."""
    name, program = name_of(guard), guard["program"]
    if broken[program, guard["row"]]:
        yield f"{name}: {', '.join(broken[program, guard['row']])} of {program} fails with it, too"
        return
    with without(guard):
        try:
            build_copy([program])
        except DevError as error:
            if error.status == 130:
                raise
            yield f"{name}: what is left without it cannot be built: {error}"
            return
        failed = failures(program, guard["row"])
    say(f"{name}: " + (", ".join(failed) or "nothing fails"))
    if failed:
        note(guard, failed)
    else:
        yield f"{name}: without it no test of {program} fails"
