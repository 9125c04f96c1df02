"""tools/write_reference.py: what it reads and refuses; and, where transformers is installed, that it writes
the numbers of a reference that was made without it."""

import argparse
import contextlib
import importlib.util
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
CASE = SOURCE / "tests/data/hf/models/llama_rope_linear"


def tool():
    spec = importlib.util.spec_from_file_location("write_reference", SOURCE / "tools/write_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def has(*modules):
    return all(importlib.util.find_spec(module) for module in modules)


class Inputs(unittest.TestCase):
    def ids(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ids.json"
            path.write_text(text, encoding="utf-8")
            return tool().ids_in(path)

    def test_a_list_is_one_row(self):
        self.assertEqual(self.ids("[3, 1, 4]"), [[3, 1, 4]])
        self.assertEqual(self.ids("[[3, 1], [4, 1]]"), [[3, 1], [4, 1]])

    def test_what_is_no_ids_is_refused(self):
        for text in ("", "[]", "[[]]", "[[1, 2], [3]]", "[1, -2]", '["a"]', "[1.5]", "{}"):
            with self.assertRaises(SystemExit, msg=text) as refused:
                self.ids(text)
            self.assertIn("ids.json", str(refused.exception))

    def test_sizes_of_random_ids(self):
        self.assertEqual(tool().rows_and_tokens("2x37"), (2, 37))
        for text in ("2", "x", "0x4", "2x-1", "2x3x4"):
            with self.assertRaises(argparse.ArgumentTypeError, msg=text):
                tool().rows_and_tokens(text)

    def test_one_kind_of_input_is_needed(self):
        for words in (["M", "--out", "o"], ["M", "--out", "o", "--random", "1x2", "--text", "a"]):
            with self.assertRaises(SystemExit) as refused, contextlib.redirect_stderr(io.StringIO()):
                tool().main(words)
            self.assertEqual(refused.exception.code, 2)

    def test_without_transformers_it_says_what_to_install(self):
        with mock.patch.dict(sys.modules, {"safetensors": None}):
            with self.assertRaises(SystemExit) as refused:
                tool().main([str(CASE), "--random", "1x2", "--out", "o"])
        self.assertIn("pip install", str(refused.exception))

    def test_a_folder_without_a_model_is_refused(self):
        with self.assertRaises(SystemExit) as refused:
            tool().main(["/nowhere", "--random", "1x2", "--out", "o"])
        self.assertIn("/nowhere/config.json", str(refused.exception))


@unittest.skipUnless(has("torch", "transformers", "safetensors"), "transformers is not installed")
class Outputs(unittest.TestCase):
    def written(self, expected, *more):
        from safetensors.torch import load_file
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            ids, out = Path(folder) / "ids.json", Path(folder) / "reference.safetensors"
            ids.write_text(json.dumps(expected["input_ids"].tolist()), encoding="utf-8")
            tool().main([str(CASE), "--ids", str(ids), "--out", str(out), *more])
            return load_file(out)

    def test_every_output_has_one_of_a_float64_run(self):
        from safetensors.torch import load_file
        ours = self.written(load_file(CASE / "expected.safetensors"))
        outputs = [name for name in ours if name != "input_ids" and not name.endswith("_f64")]
        self.assertIn("attn.0", outputs)
        self.assertIn("hidden.0", outputs)
        for name in outputs:
            exact = ours[f"{name}_f64"]
            self.assertEqual(str(exact.dtype), "torch.float64", name)
            error = (ours[name].double() - exact).abs().max() / exact.abs().max()
            self.assertLessEqual(float(error), 1e-5, name)  # some roundings of float32

    def test_they_are_those_of_the_reference(self):
        from safetensors.torch import load_file
        expected = load_file(CASE / "expected.safetensors")
        ours = self.written(expected, "--small")
        first = {name: tensor for name, tensor in expected.items() if not name.startswith("long.")}
        self.assertEqual(set(ours), set(first))
        for name, tensor in first.items():
            # A sum's order may differ between machines: some roundings of each dtype.
            allowed = 1e-13 if name.endswith("_f64") else 1e-5
            error = (ours[name].double() - tensor.double()).abs().max() / tensor.double().abs().max()
            self.assertLessEqual(float(error), allowed, name)


if __name__ == "__main__":
    python_cases.run()
