"""What is installed and packed: started from folders that know nothing of the sources or of each other."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE, BUILD = Path(os.environ["PHASESCOPE_SOURCE"]), Path(os.environ["PHASESCOPE_BUILD"])
CMAKE, TORCH = os.environ["PHASESCOPE_CMAKE"], os.environ["PHASESCOPE_TORCH_DIR"]
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import package  # noqa: E402


def run(prefix, *words, torch=TORCH, path="/usr/bin:/bin"):
    """A program that sees nothing of this environment."""
    environment = {"PATH": path, "HOME": str(prefix)}
    if torch:
        environment["PHASESCOPE_TORCH"] = str(torch)
    return subprocess.run([prefix / "bin" / "phasescope", *words], env=environment, cwd=prefix, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, check=False)


def desktop_entry(path):
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)


def mime_type(path):
    """The type of sessions, their files' ending, and the icon."""
    names = {"": "http://www.freedesktop.org/standards/shared-mime-info"}
    one = ElementTree.parse(path).getroot().find("mime-type", names)
    return one.get("type"), one.find("glob", names).get("pattern")[1:], one.find("icon", names).get("name")


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.once = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.once)
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", cls.once / "installed", "--strip"], check=True,
                       capture_output=True)

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def looks_alive(self, prefix):
        """The version, a model of the package's own, and numbers from the worker."""
        self.assertRegex(run(prefix, "--version").stdout, r"^phasescope \d+\.\d+\.\d+")
        models = run(prefix, "models", "--json")
        self.assertEqual(models.returncode, 0, models.stderr)
        rope = next(model for model in json.loads(models.stdout)["models"] if model["name"] == "rope")
        self.assertTrue(rope["path"].startswith(str(prefix)), rope["path"])
        heads = run(prefix, "heads", "rope", "--metrics", "entropy", "--json")
        self.assertEqual(heads.returncode, 0, heads.stderr)
        self.assertGreater(len(json.loads(heads.stdout)["rows"]), 0)

    def installed(self):
        prefix = self.folder / "installed"
        shutil.copytree(self.once / "installed", prefix, symlinks=True)
        return prefix

    def test_what_is_installed_may_be_moved(self):
        moved = self.folder / "another place"
        self.installed().rename(moved)
        self.looks_alive(moved)
        worker = moved / "lib" / "phasescope" / "phasescope-worker"
        paths = subprocess.run(["readelf", "-d", worker], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("RUNPATH", paths)
        # Where LibTorch is one for CPUs alone it brings no CUDA runtime.
        for runtime in re.findall(r"\[(libcudart\.so\.\d+)\]", paths):
            self.assertTrue((worker.parent / runtime).is_file(), runtime)

    def test_its_pages_are_installed(self):
        share = self.installed() / "share"
        self.assertIn(".SS heads", (share / "man/man1/phasescope.1").read_text())
        if (SOURCE / ".git").exists() and shutil.which("git"):
            self.assertRegex((share / "phasescope/revision").read_text(), r"^[0-9a-f]{12}(-dirty)?\n$")
        for script in ("bash-completion/completions/phasescope", "zsh/vendor-completions/_phasescope",
                       "fish/vendor_completions.d/phasescope.fish"):
            self.assertIn("phasescope", (share / script).read_text())
        entry = desktop_entry(share / "applications/phasescope.desktop")
        self.assertTrue((share / f"icons/hicolor/scalable/apps/{entry['Icon']}.svg").is_file())
        kind, ending, icon = mime_type(share / "mime/packages/phasescope.xml")
        self.assertEqual((entry["MimeType"], icon), (kind + ";", entry["Icon"]))
        header = (SOURCE / "app/window/session_file.h").read_text()
        self.assertIn(f'kSessionEnding = "{ending}"', header)

    def test_what_desktops_read_is_well_formed(self):
        share = self.installed() / "share"
        checks = {"desktop-file-validate": [share / "applications/phasescope.desktop"],
                  "update-mime-database": [share / "mime"]}
        there = {program: words for program, words in checks.items() if shutil.which(program)}
        if not there:
            self.skipTest("neither " + " nor ".join(checks) + " is there")
        for program, words in there.items():
            done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_a_double_click_opens_the_session(self):
        prefix = self.installed()
        session, picture = prefix / "a paper.phasescope", prefix / "window.png"
        # Its model is not there: that it is named shows that the session was read.
        session.write_text(json.dumps({"version": 2, "models": ["no-such-model"], "selection": {}}))
        words = shlex.split(desktop_entry(prefix / "share/applications/phasescope.desktop")["Exec"])
        words = [str(session) if word == "%f" else word for word in words[1:]]
        done = run(prefix, *words, "--screenshot", picture)
        self.assertIn("no-such-model", done.stderr)
        self.assertTrue(picture.is_file(), done.stderr)

    def test_without_libtorch_it_is_said(self):
        prefix = self.installed()
        none = run(prefix, "heads", "rope", torch=None, path="/nowhere")
        self.assertNotEqual(none.returncode, 0)
        self.assertIn("the worker needs LibTorch", none.stderr)
        self.assertIn("pip install torch==", none.stderr)
        empty = run(prefix, "heads", "rope", torch=self.folder)
        self.assertIn("holds no lib/libtorch_cpu.so", empty.stderr)
        old = self.folder / "torch"
        (old / "lib").mkdir(parents=True)
        (old / "lib" / "libtorch_cpu.so").touch()
        (old / "version.py").write_text("__version__ = '1.13.1+cpu'\n")
        other = run(prefix, "heads", "rope", torch=old)
        self.assertRegex(other.stderr, r"needs LibTorch 2\.\d+\.\d+, and .* is 1\.13\.1")

    def test_the_python_beside_it_knows_libtorch_wherever_that_is(self):
        moved = self.folder / "o'brien's $HOME"
        self.installed().rename(moved)
        python = moved / "bin" / "python3"
        python.write_text(f"#!/bin/sh\necho '{TORCH}'\n")
        python.chmod(0o755)
        heads = run(moved, "heads", "rope", "--metrics", "entropy", "--json", torch=None, path="/nowhere")
        self.assertEqual(heads.returncode, 0, heads.stderr)

    def test_a_folder_called_torch_where_one_stands_is_not_run(self):
        prefix = self.installed()
        (prefix / "torch" / "lib").mkdir(parents=True)
        (prefix / "torch" / "__init__.py").touch()
        (prefix / "torch" / "lib" / "libtorch_cpu.so").write_text("of anybody's")
        python = self.folder / "python"
        python.mkdir()
        (python / "python3").write_text(f"#!/bin/sh\nexec '{sys.executable}' -S \"$@\"\n")
        (python / "python3").chmod(0o755)
        done = run(prefix, "models", torch=None, path=f"{python}:/usr/bin:/bin")
        self.assertIn("the worker needs LibTorch", done.stderr)

    def test_the_debian_package_and_the_archive(self):
        if not shutil.which("dpkg-shlibdeps") or not shutil.which("dpkg-deb"):
            self.skipTest("this system makes no Debian packages")
        package.FOLDER = self.folder
        # As `./dev package` makes them, but packed in seconds.
        for path in package.cpack(BUILD, "DEB;TGZ", ["-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip"]):
            root = self.folder / path.suffix
            root.mkdir()
            if path.suffix == ".deb":
                fields = subprocess.run(["dpkg-deb", "--field", path], capture_output=True, text=True, check=True).stdout
                self.assertRegex(fields, r"Depends: .*libc6")
                self.assertNotIn("torch", fields.lower().split("description")[0])
                subprocess.run(["dpkg-deb", "--extract", path, root], check=True)
                self.looks_alive(root / "usr")
            else:
                subprocess.run(["tar", "xf", path, "-C", root], check=True)
                self.looks_alive(next(root.iterdir()))

    def test_the_wheel(self):
        prefix = self.folder / "environment"
        wheel = package.wheel(BUILD, self.folder)
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-compile",
                               "--prefix", prefix, wheel], capture_output=True, text=True, check=False)
        if "No module named pip" in done.stderr:
            self.skipTest("this Python has no pip")
        self.assertEqual(done.returncode, 0, done.stderr)
        here = prefix if (prefix / "bin").is_dir() else prefix / "local"  # Debian's own Python
        self.looks_alive(here)
        self.assertEqual(len(list(here.rglob("phasescope/worker.py"))), 1)


if __name__ == "__main__":
    python_cases.run()
