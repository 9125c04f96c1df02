"""The pinned source archives (Dear ImGui, ImPlot, GLFW, ...): pip fetches and checks them, what is
needed is unpacked into .deps."""

import os
import shutil
import sys
import tarfile

from . import machine
from .console import run_quietly, say
from .paths import DEPS, PINS, ROOT, digest, one_at_a_time, read_mark, write_mark

# Before it hands out a source archive pip wants its metadata, for which it would fetch and run build
# tools. This folder holds a build back end that answers the question and does nothing else.
METADATA_ONLY = ROOT / "tools" / "dev_tool" / "metadata_only"


def pins():
    """[(folder, package, version, sha256, paths)] of pins/sources.txt."""
    entries = []
    for line in (PINS / "sources.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            entries[-1][4].append(line.strip())
        elif line and not line.startswith("#"):
            entries.append((*line.split(), []))
    return entries


def install():
    """Fetches and unpacks the archives that are not there yet; returns whether there were any."""
    return any([install_one(*entry) for entry in pins()])


def ready():
    return all(read_mark(DEPS / entry[0] / ".complete") == mark_text(entry) for entry in pins())


def mark_text(entry):
    return digest(*entry[1:4], *entry[4])


def install_one(folder, package, version, sha256, paths):
    """Fetches and unpacks one archive where it is not there; returns whether it was so."""
    target = DEPS / folder
    mark = mark_text((folder, package, version, sha256, paths))
    if read_mark(target / ".complete") == mark:
        return False
    with one_at_a_time("sources"):
        if read_mark(target / ".complete") == mark:
            return False
        machine.check_pip()
        say(f"source archive: {package} {version}")
        archive = fetch(package, version, sha256)
        partial = DEPS / (folder + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        unpack(archive, partial, paths)
        write_mark(partial / ".complete", mark)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        shutil.rmtree(archive.parent)
    return True


def fetch(package, version, sha256):
    """The archive's path, its hash checked by pip."""
    folder = DEPS / "sdist" / package
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{package}=={version} --hash=sha256:{sha256}\n", encoding="utf-8")
    env = dict(os.environ, PYTHONPATH=str(METADATA_ONLY), PYTHONDONTWRITEBYTECODE="1",
               SDIST_NAME=package, SDIST_VERSION=version)
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-cache-dir",
               "--no-deps", "--require-hashes", f"--no-binary={package}", "--no-build-isolation",
               "--ignore-requires-python", "--progress-bar=off", "--dest", folder, "-r", requirement]
    run_quietly(command, DEPS / "logs" / f"pip-{package}.log", f"fetching {package}", env=env)
    (archive,) = folder.glob("*.tar.gz")
    return archive


def unpack(archive, target, paths):
    keep = [path for path in paths if not path.startswith("-")]
    drop = tuple(path[1:] for path in paths if path.startswith("-"))
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.split("/", 1)[-1]
            if not member.isfile() or not name.startswith(tuple(keep)) or ".." in name.split("/"):
                continue
            if drop and name.startswith(drop):
                continue
            out = target / name
            out.parent.mkdir(parents=True, exist_ok=True)
            with tar.extractfile(member) as source, open(out, "wb") as file:
                shutil.copyfileobj(source, file)
