"""Debian packages: which are missing, and installing them where that is allowed."""

import os
import shutil
from pathlib import Path

from .console import DevError, output_of, run_quietly, say
from .paths import DEPS, PINS, read_mark, write_mark

ABSENT = DEPS / "debian_absent"
# Not empty where dpkg was interrupted; apt-get then refuses to go on.
UNFINISHED = Path("/var/lib/dpkg/updates")


def wanted():
    """(name, optional) for each line of pins/debian.txt."""
    packages = []
    for line in (PINS / "debian.txt").read_text(encoding="utf-8").splitlines():
        name = line.split("#")[0].strip()
        if name:
            packages.append((name.lstrip("?"), name.startswith("?")))
    return packages


def installed(names):
    """The names among `names` that dpkg has installed; an empty set where there is no dpkg."""
    listing = output_of(["sh", "-c", "dpkg-query -W -f '${Package} ${db:Status-Status}\\n' \"$@\" || true",
                         "sh", *names]) or ""
    rows = (line.split() for line in listing.splitlines())
    return {row[0] for row in rows if row[1:] == ["installed"]}


def missing():
    """Packages that are wanted, not there, and not known to be absent from this release."""
    packages = wanted()
    there = installed([name for name, _ in packages])
    absent = set(read_mark(ABSENT).split())
    return [(name, optional) for name, optional in packages
            if name not in there and not (optional and name in absent)]


def apt_prefix():
    """The words that run apt-get with the right to install, or None."""
    if os.geteuid() == 0:
        return ["env", "DEBIAN_FRONTEND=noninteractive"]
    if shutil.which("sudo") and output_of(["sudo", "-n", "true"]) is not None:
        return ["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive"]
    return None


def install():
    """Installs what is missing, or says the line to type."""
    if not shutil.which("dpkg-query"):
        say("no Debian packages on this system; looking for the libraries as they are")
        return
    lacking = missing()
    if not lacking:
        return
    prefix = apt_prefix()
    if prefix is None:
        line = "sudo apt-get install -y --no-install-recommends " + " ".join(n for n, _ in lacking)
        raise DevError("Debian packages are missing and this user may not install them; type\n  " + line)
    log = DEPS / "logs" / "apt.log"
    apt = prefix + ["apt-get", "-o", "DPkg::Lock::Timeout=300"]
    say(f"Debian packages: {len(lacking)} to install")
    run_quietly(apt + ["update"], log, "apt-get update")
    if UNFINISHED.is_dir() and any(UNFINISHED.iterdir()):
        run_quietly(prefix + ["dpkg", "--configure", "-a"], log, "dpkg, which was interrupted")
    names = leave_out_absent(lacking)
    run_quietly(apt + ["install", "-y", "--no-install-recommends", *names], log, "apt-get install")


def leave_out_absent(lacking):
    """Notes the optional packages that this release does not have, and returns the others."""
    absent = [name for name, optional in lacking
              if optional and not output_of(["apt-cache", "show", "--no-all-versions", name])]
    if absent:
        say("not in this release, going on without: " + " ".join(absent))
        write_mark(ABSENT, " ".join(sorted(set(read_mark(ABSENT).split()) | set(absent))))
    return [name for name, _ in lacking if name not in absent]


