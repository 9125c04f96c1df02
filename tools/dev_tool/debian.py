"""Debian packages: which are missing, and installing them where that is allowed."""

import os
import shutil
from collections import namedtuple
from pathlib import Path

from . import other_systems
from .console import DevError, Stopped, output_of, run_quietly, say
from .paths import DEPS, PINS, one_at_a_time, read_mark, write_mark

# Optional ones that this release does not have.
ABSENT = DEPS / "debian_absent"
# Optional ones that could not be installed; ./dev setup tries again.
WITHOUT = DEPS / "debian_without"
# Not empty where dpkg was interrupted; apt-get then refuses to go on.
UNFINISHED = Path("/var/lib/dpkg/updates")
SERVERS = "PHASESCOPE_TEST_SERVERS"
INSTALL = "apt-get install -y --no-install-recommends "
NO_RECOMMENDED = ["install", "-y", "--no-install-recommends"]

Package = namedtuple("Package", "name optional tests use")


def wanted(tests=True):
    """A Package for each line of pins/debian.txt; without `tests` those that the programs need. Servers,
    whose packages start services, are among them in CI and where SERVERS is set."""
    servers = os.environ.get("CI") or os.environ.get(SERVERS)
    packages = []
    for line in (PINS / "debian.txt").read_text(encoding="utf-8").splitlines():
        marked, _, use = (word.strip() for word in line.partition("#"))
        name = marked.lstrip("?%+")
        marks = marked[:len(marked) - len(name)]
        if name and (tests or "%" not in marks) and (servers or "+" not in marks):
            packages.append(Package(name, "?" in marks, "%" in marks, use))
    return packages


def installed(names):
    """The names among `names` that dpkg has installed; an empty set where there is no dpkg."""
    listing = output_of(["sh", "-c", "dpkg-query -W -f '${Package} ${db:Status-Status}\\n' \"$@\" || true",
                         "sh", *names]) or ""
    rows = (line.split() for line in listing.splitlines())
    return {row[0] for row in rows if row[1:] == ["installed"]}


def missing(tests=True):
    """Packages that are wanted, not there, and not known to be out of reach."""
    packages = wanted(tests)
    there = installed([package.name for package in packages])
    unreachable = set((read_mark(ABSENT) + " " + read_mark(WITHOUT)).split())
    return [package for package in packages if package.name not in there
            and not (package.optional and package.name in unreachable)]


def apt_prefix():
    """The words that run apt-get with the right to install, or None."""
    if os.geteuid() == 0:
        return ["env", "DEBIAN_FRONTEND=noninteractive"]
    if shutil.which("sudo") and output_of(["sudo", "-n", "true"]) is not None:
        return ["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive"]
    return None


def install(tests=True):
    """Installs what is missing, or says the line to type; goes on without what is optional. Returns
    whether anything was installed."""
    if not shutil.which("dpkg-query"):
        other_systems.say_what_is_needed()
        return False
    if not missing(tests):
        return False
    with one_at_a_time("debian"):
        lacking = missing(tests)
        prefix = apt_prefix()
        if lacking and prefix is None:
            give_up(lacking, "this user may not install them")
        elif lacking:
            run_apt(prefix, lacking)
    return True


def run_apt(prefix, lacking):
    """Installs all of them; where that fails, at least what is needed."""
    apt = prefix + ["apt-get", "-o", "DPkg::Lock::Timeout=300"]
    say(f"Debian packages: {len(lacking)} to install")
    try:
        prepare(prefix, apt)
        names = leave_out_absent(lacking)
        if names:
            run(apt + [*NO_RECOMMENDED, *names], "apt-get install")
        return
    except Stopped:
        raise
    except DevError as error:
        fault = str(error)
    needed = [package.name for package in lacking if not package.optional]
    if needed:
        # What is optional may be what failed; and lists fetched earlier may do.
        run_quietly(apt + [*NO_RECOMMENDED, *needed], DEPS / "logs" / "apt.log", "apt-get install")
    there = installed([package.name for package in lacking])
    give_up([package for package in lacking if package.name not in there], fault)


def prepare(prefix, apt):
    run(apt + ["update"], "apt-get update")
    if UNFINISHED.is_dir() and any(UNFINISHED.iterdir()):
        run(prefix + ["dpkg", "--configure", "-a"], "dpkg, which was interrupted")


def run(command, title):
    run_quietly(command, DEPS / "logs" / "apt.log", title, show_failure=False)


def leave_out_absent(lacking):
    """Notes the optional packages that this release does not have, and returns the others' names."""
    absent = [package.name for package in lacking
              if package.optional and not output_of(["apt-cache", "show", "--no-all-versions", package.name])]
    if absent:
        say("not in this release, going on without: " + " ".join(absent))
        note(ABSENT, absent)
    return [package.name for package in lacking if package.name not in absent]


def give_up(lacking, fault):
    """A DevError if something needed is among what is lacking; else says what going on without it costs."""
    needed = [package.name for package in lacking if not package.optional]
    if needed:
        raise DevError(f"Debian packages are missing ({fault}); type\n  sudo {INSTALL}" + " ".join(needed))
    if lacking:
        uses = {}
        for package in lacking:
            uses.setdefault(package.use, []).append(package.name)
        what = "; ".join(f"{', '.join(names)} ({use})" for use, names in uses.items())
        say(f"going on without optional Debian packages ({fault}): {what}; to have them: sudo {INSTALL}"
            + " ".join(package.name for package in lacking))
        note(WITHOUT, [package.name for package in lacking])


def note(mark, names):
    write_mark(mark, " ".join(sorted(set(read_mark(mark).split()) | set(names))))


def try_again():
    """Forgets which optional packages could not be installed."""
    WITHOUT.unlink(missing_ok=True)
