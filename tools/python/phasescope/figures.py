"""Figures as the command line draws them, shown inline."""

import subprocess
import tempfile
from pathlib import Path

from . import programs
from .model import Model
from .worker import Failure

_BETWEEN = {"size": "x"}  # what stands between the two of a pair, where it is no colon


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


def figures(verb, *arguments, host=None, **options):
    """What `phasescope VERB ARGUMENTS --options` draws. Arguments are models (opened here or by name),
    paths and words. Options by name, underscores for dashes: a list is joined by commas, a pair (a, b)
    is a:b (a size AxB), a mapping is given entry by entry, True is a flag. What a model was opened with
    holds here too; of several models it must be the same."""
    models = [one for one in arguments if isinstance(one, Model)]
    if any(one.opening != models[0].opening or one.worker.host != models[0].worker.host for one in models):
        raise ValueError("models that were opened in different ways cannot be in one command")
    words = [verb, *(str(one.name if isinstance(one, Model) else one) for one in arguments)]
    if models:
        host, options = host or models[0].worker.host, {**models[0].opening, **options}
    for name, value in options.items():
        words += _option("--" + name.replace("_", "-"), value)
    return figures_of_command(words, host)


def _option(name, value):
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    if isinstance(value, dict):
        return [word for key, item in value.items() for word in (name, f"{key}={item}")]
    if isinstance(value, tuple):
        return [name, _BETWEEN.get(name[2:], ":").join(map(str, value))]
    if isinstance(value, list):
        return [name, ",".join(map(str, value))]
    return [name, str(value)]


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
