"""./dev package: a .deb, an archive and a wheel in out/packages, of what `cmake --install` puts together."""

import base64
import hashlib
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from . import build
from .console import DevError, say
from .paths import CMAKE, OUT, ROOT

CPACK = CMAKE.with_name("cpack")
FOLDER = OUT / "packages"
# Where a wheel's files go in an environment: scripts to bin/, data to its root, all else to site-packages.
SCRIPTS, DATA = "scripts", "data"


def package():
    folder = build.build("release", [build.PROGRAMS, "phasescope_launcher"], tests=False, anywhere=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = cpack(folder) + [wheel(folder, FOLDER)]
    for path in made:
        say(f"wrote {path.relative_to(ROOT)} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


def cpack(folder, generators="DEB;TXZ", settings=()):
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run([CPACK, "--config", folder / "CPackConfig.cmake", "-B", scratch, "-G", generators,
                               *settings],
                              capture_output=True, text=True, cwd=folder)
        if done.returncode:
            raise DevError("cpack failed: " + (done.stderr or done.stdout).strip().splitlines()[-1])
        made = sorted(path for path in Path(scratch).iterdir() if path.suffix in (".deb", ".xz", ".gz"))
        return [Path(shutil.copy(path, FOLDER)) for path in made]


def wheel(folder, out):
    """Of one Python of any version on x86-64 Linux: programs, what they read, and the notebook's module."""
    project = dict(line.split(" = ", 1) for line in
                   (ROOT / "tools/python/pyproject.toml").read_text(encoding="utf-8").splitlines() if " = " in line)
    name, version = project["name"].strip('"'), project["version"].strip('"')
    stem = f"{name}-{version}"
    with tempfile.TemporaryDirectory() as scratch:
        installed = Path(scratch) / "installed"
        subprocess.run([CMAKE, "--install", folder, "--prefix", installed, "--strip"], check=True,
                       capture_output=True)
        shutil.rmtree(installed / "share/phasescope/python")  # a wheel has it as a module
        files = {place_in_wheel(path.relative_to(installed), stem): path
                 for path in sorted(installed.rglob("*")) if path.is_file()}
        for path in sorted((ROOT / "tools/python/phasescope").glob("*.py")):
            files[f"phasescope/{path.name}"] = path
        described = {
            f"{stem}.dist-info/METADATA": metadata(name, version, project["description"].strip('"')),
            f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: phasescope\nRoot-Is-Purelib: false\n"
                                       "Tag: py3-none-linux_x86_64\n",
        }
        target = out / f"{stem}-py3-none-linux_x86_64.whl"
        write(target, files, described, f"{stem}.dist-info/RECORD")
    return target


def place_in_wheel(path, stem):
    top, rest = path.parts[0], Path(*path.parts[1:])
    if top == "bin":
        return f"{stem}.data/{SCRIPTS}/{rest}"
    return f"{stem}.data/{DATA}/{path}"


def metadata(name, version, summary):
    torch = next(line.split()[0] for line in (ROOT / "tools/dev_tool/pins/wheels.txt").read_text().splitlines()
                 if line.startswith("torch=="))
    return (f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {summary}\n"
            f"License: Apache-2.0\nDescription-Content-Type: text/markdown\nRequires-Python: >=3.9\nRequires-Dist: numpy>=1.21\nRequires-Dist: {torch}\n\n"
            + (ROOT / "README.md").read_text(encoding="utf-8"))


def write(target, files, described, record):
    rows = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        contents = [(place, path.read_bytes(), path.stat().st_mode) for place, path in files.items()]
        contents += [(place, text.encode(), 0o100644) for place, text in described.items()]
        for place, data, mode in contents:
            entry = zipfile.ZipInfo(place, (2026, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{place},sha256={digest},{len(data)}")
        archive.writestr(record, "\n".join([*rows, f"{record},,"]) + "\n")
