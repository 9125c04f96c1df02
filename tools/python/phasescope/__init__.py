"""Phasescope from a notebook: models through the worker, results as arrays, figures inline.

    import phasescope
    rope = phasescope.open("rope")
    rope.map("L2H1", text="To be or not to be").tensors["map"]

`open` starts one worker and keeps it for all models. `dump` writes what a live PyTorch model attends
to into a file that `phasescope import` opens. Needs numpy, and the programs of Phasescope: on the
PATH, in the build folder of the checkout that this file lies in, or named by PHASESCOPE (the command)
and PHASESCOPE_WORKER.
"""

from .dump import dump, write_maps, write_qk
from .drawn import Figure
from .failure import Failure
from .figures import figures
from .model import Model, open
from .worker import Result, Worker

__all__ = ["Failure", "Figure", "Model", "Result", "Worker", "dump", "figures", "open", "write_maps",
           "write_qk"]
