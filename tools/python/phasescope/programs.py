"""Where the programs of Phasescope are."""

import os
import shutil
import sys
from pathlib import Path


def _in_checkout(name):
    return Path(__file__).resolve().parents[3] / "build" / "release" / "bin" / name


def program(name, variable):
    """The path of a program: what the variable says, beside this Python (where a wheel puts it), on the
    PATH, or built in this checkout."""
    beside = Path(sys.executable).parent / name
    for path in (os.environ.get(variable), beside, shutil.which(name), _in_checkout(name)):
        if path and Path(path).is_file():
            return str(path)
    raise FileNotFoundError(f"{name} is not on the PATH and not built in this checkout; "
                            f"say where it is with {variable}")


def command():
    return program("phasescope", "PHASESCOPE")


def worker():
    """That of the variable, or the one beside the command."""
    beside = Path(os.path.realpath(command())).with_name("phasescope-worker")
    if "PHASESCOPE_WORKER" not in os.environ and beside.is_file():
        return str(beside)
    return program("phasescope-worker", "PHASESCOPE_WORKER")
