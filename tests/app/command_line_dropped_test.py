"""17.A7, behind the wire: no option is accepted and dropped by the worker either. tests/app/options_test.cpp sees that
each changes the request; here each field of a request, beside each word that another may be, changes the answer of a
real worker or is refused."""

import json
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
PROGRAMS = Path(os.environ.get("PHASESCOPE_BUILD", SOURCE / "build/release")) / "bin"

python_cases.need_numpy()
sys.path.insert(0, str(SOURCE / "tools" / "python"))
os.environ.setdefault("PHASESCOPE", str(PROGRAMS / "phasescope"))
os.environ.setdefault("PHASESCOPE_WORKER", str(PROGRAMS / "phasescope-worker"))

import numpy  # noqa: E402
import phasescope  # noqa: E402
from phasescope.worker import Worker  # noqa: E402

TEXT = {"input": {"prompt": "to be or not to be, that is the question: to be or not to be"}}
ONE, MANY = {"model": "rope", **TEXT}, {"models": ["rope"], **TEXT}
# Requests in which every field means something.
ASKED = {
    "import": {"files": ["attn.safetensors"], "out": "maps"},
    "text.read": ONE,
    "capture": {**ONE, "what": ["attn"], "layers": [0, 1], "heads": [0, 1]},
    "heads": {**ONE, "metrics": ["induction", "window_mass"]},
    "map": ONE,
    "query": {**ONE, "query": 5},
    "distance": MANY,
    "addressing": {"model": "rope", "texts": "0:4:2", "length": 48},
    "pair": ONE,
    "profile": {"model": "rope", "texts": "0:4:2", "length": 48},
}
# Where it runs, what is read in place of it, and what is drawn where anything is drawn.
LEFT_OUT = {"device", "threads", "backend", "dtype", "model", "models", "input", "corpus", "out", "files", "seed",
            "method", "stack", "texts"}
# One of these, or of its own words, is a value for each field.
CANDIDATES = (3, 1, 5, 2, 0.5, True, "3", "L1H0", [1], [0, 1], [2, 7], [9, 5], [7], ["encoding.base=5e4"], ["sink"])
# What changes nothing here, and why it is taken all the same.
HARMLESS = {
    ("distance", "leave_out_first"): "a prompt has no token in front that could be left out",
    ("import", "as"): "the file holds maps alone, which is what it is taken for without a word",
    ("import", "renumber"): "every layer is there",
}


def fields():
    """{method: [(field, [words that it may be])]} of docs/protocol.md, which is made from the requests."""
    page = (SOURCE / "docs/protocol.md").read_text(encoding="utf-8")
    found = {}
    for part in re.split(r"(?m)^### `", page)[1:]:
        cells = [line.split("|", 4) for line in part.splitlines() if line.startswith("| `")]
        found[part[:part.index("`")]] = [(cell[1].split("`")[1], choices(cell[2], cell[4])) for cell in cells]
    return found


def choices(kind, words):
    """Of "how a cell's pairs are pooled: mean or max |"."""
    listed = re.search(r": (\w+(?:, \w+)* or \w+)(?:,| *\|?$)", words)
    return re.split(r", | or ", listed.group(1)) if listed and kind.strip() == "a word" else []


def told(value):
    """An answer without the words that asked for it, and without times."""
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items() if key not in ("provenance", "command", "seconds")}
    return [told(one) for one in value] if isinstance(value, list) else value


class Fields(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = Path(cls.temporary.name)
        cls.worker = Worker(threads=1)
        cls.addClassCleanup(cls.worker.close)
        maps = numpy.tril(numpy.ones((2, 2, 6, 6), numpy.float32))
        phasescope.write_maps(cls.folder / "attn.safetensors", list(maps / maps.sum(-1, keepdims=True)))

    def answer(self, method, parameters):
        """What the worker says, as bytes; None where it refuses."""
        if "out" in parameters:
            parameters = {**parameters, "out": str(self.folder / parameters["out"]),
                          "files": [str(self.folder / name) for name in parameters["files"]]}
        try:
            said = self.worker.call(method, **parameters)
        except phasescope.Failure as failure:
            self.assertIn(failure.code, ("bad_usage", "bad_input", "not_applicable"), failure)
            return None
        arrays = {name: (array.shape, array.tobytes()) for name, array in said.tensors.items()}
        return json.dumps(told(dict(said)), sort_keys=True), arrays, self.written(parameters)

    def written(self, parameters):
        """The folder that an import has made."""
        if "out" not in parameters:
            return {}
        return {path.name: path.read_bytes() for path in Path(parameters["out"]).glob("*") if path.is_file()}

    def dropped(self, method, base, field, words):
        """Whether a field is taken and changes nothing, whatever it is."""
        plain, taken = self.answer(method, base), False
        for value in (*CANDIDATES, *words):
            answer = self.answer(method, {**base, field: value})
            if answer is not None and answer != plain:
                return False
            taken = taken or (answer is not None and value != base.get(field))
        return taken

    def test_each_changes_the_answer_or_is_refused(self):
        known = fields()
        for method, base in ASKED.items():
            listed = [(field, words) for field, words in known[method] if field not in LEFT_OUT]
            besides = [{}] + [{field: word} for field, words in listed for word in words]
            for more in besides:
                asked = {**base, **more}
                if self.answer(method, asked) is None:
                    continue
                for field, words in listed:
                    if field in more or (method, field) in HARMLESS or field in base and not words:
                        continue
                    with self.subTest(method=method, beside=more, field=field):
                        self.assertFalse(self.dropped(method, asked, field, words))


if __name__ == "__main__":
    python_cases.run()
