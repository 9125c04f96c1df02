"""What a command line draws, for a notebook."""

import subprocess
import tempfile
from pathlib import Path

from . import programs
from .failure import Failure


class Figure:
    """An SVG; a notebook shows it."""

    def __init__(self, name, svg):
        self.name, self.svg = name, svg

    def __repr__(self):
        return f"<figure {self.name}>"

    def _repr_svg_(self):
        return self.svg

    def save(self, path):
        Path(path).write_text(self.svg, encoding="utf-8")


class Figures(list):
    """Several; a notebook shows them below each other."""

    def _repr_html_(self):
        return "\n".join(f"<div>{figure.svg}</div>" for figure in self)

    def __getitem__(self, key):
        """By number, or by a part of the name that one of them alone has."""
        if not isinstance(key, str):
            return super().__getitem__(key)
        found = [figure for figure in self if key in figure.name]
        if len(found) != 1:
            raise KeyError(f"{key!r} is in {len(found)} of " + ", ".join(figure.name for figure in self))
        return found[0]


def figures_of_command(words, host=None):
    remote = ["--remote", host] if host else []
    with tempfile.TemporaryDirectory() as folder:
        argv = [programs.command(), *words, *remote, "--out", folder]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        drawn = Figures(Figure(path.stem, path.read_text(encoding="utf-8"))
                        for path in sorted(Path(folder).glob("*.svg")))
    if not drawn:
        said = done.stderr.strip().splitlines()
        raise Failure("bad_usage" if done.returncode == 2 else "internal",
                      said[-1] if said else f"{' '.join(words)} drew nothing (status {done.returncode})")
    return drawn
