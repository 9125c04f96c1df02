"""A model that a worker has open, with the methods that a notebook needs most."""

import atexit
import os
import threading

from .worker import Worker

_shared, _shared_lock = {}, threading.Lock()


def _shared_worker(**place):
    key = tuple(sorted(place.items()))
    with _shared_lock:
        if key not in _shared or _shared[key].ended:
            _shared[key] = Worker(**place)
            atexit.register(_shared[key].close)
        return _shared[key]


def open(name, worker=None, device="", threads=0, host=None, **opening):
    """A Model: a bundled name, a folder or a file. Without a worker, one is started and shared by all
    models of the same device, threads and host; another one where it has died. `opening`:
    set={"encoding.base": 1e6}, dtype="f64", backend="plain", given with each request. Throws Failure where
    it cannot be opened."""
    model = Model(worker or _shared_worker(device=device, threads=threads, host=host), name, **opening)
    model.info()
    return model


def reading_of(text=None, ids=None, inputs=None):
    """The `input` of a request, None where nothing is given: the text of a first session is read."""
    given = {"prompt": text, "ids": ids, "inputs": inputs}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) > 1:
        raise ValueError("one of text, ids and inputs can be read, not " + " and ".join(given))
    return given or None


class Model:
    """`ask` reaches every method of docs/protocol.md that takes a model; the others are shorthands. All
    take the method's parameters by name, and text=, ids= (a list, or an array (B, N)) or inputs= (a
    file) for what is read. Each returns a Result."""

    def __init__(self, worker, name, **opening):
        self.worker, self.opening = worker, opening
        self.name = os.fspath(name) if isinstance(name, os.PathLike) else name
        # What opens a model but does not run it.
        self._opening_only = {key: value for key, value in opening.items() if key != "backend"}

    def __repr__(self):
        return f"<phasescope model {self.name}>"

    def ask(self, method, /, text=None, ids=None, inputs=None, progress=None, **parameters):
        """A method with `model`."""
        return self.worker.call(method, progress, model=self.name, input=reading_of(text, ids, inputs),
                                **{**self.opening, **parameters})

    def ask_with(self, method, /, others=(), text=None, ids=None, inputs=None, progress=None, **parameters):
        """A method with `models`: this one and others, names or Models of the same worker."""
        names = [self.name, *(getattr(other, "name", other) for other in others)]
        return self.worker.call(method, progress, models=names, input=reading_of(text, ids, inputs),
                                **{**self.opening, **parameters})

    def info(self):
        """The load report."""
        return self.worker.call("model.info", model=self.name, **self._opening_only)

    def heads(self, **parameters):
        """Every statistic of every head."""
        return self.ask("heads", **parameters)

    def map(self, head="L0H0", **parameters):
        """The attention map of a head; of="score", rows=(a, b), cols=(a, b), size=(H, W)."""
        return self.ask("map", head=head, **parameters)

    def capture(self, *what, **parameters):
        """Tensors of a forward pass, in `tensors`: "q", "k", "v", "attn", "scores", "logits", ..."""
        return self.ask("capture", what=list(what) or None, **parameters)

    def distance(self, *others, **parameters):
        """Score and weight by distance, near minus far; of this model and others."""
        return self.ask_with("distance", others, **parameters)

    def shift(self, *others, **parameters):
        """What a shift of the text changes; of this model and others."""
        return self.ask_with("shift", others, **parameters)

    def generate(self, **parameters):
        """Continues a text."""
        return self.ask("generate", **parameters)
