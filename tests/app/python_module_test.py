"""The Python module: its frames, its answers beside those of the command line, what it dumps, and the
page that shows it. One class as an argument runs that alone."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ["PHASESCOPE_SOURCE"])
BIN = Path(os.environ["PHASESCOPE_BUILD"]) / "bin"
MODULE = SOURCE / "tools" / "python"

python_cases.need_numpy()
sys.path.insert(0, str(MODULE))
os.environ.update(PHASESCOPE=str(BIN / "phasescope"), PHASESCOPE_WORKER=str(BIN / "phasescope-worker"))

import numpy  # noqa: E402
import phasescope  # noqa: E402
import stand_in_torch  # noqa: E402
from phasescope import crc32c, frames  # noqa: E402

# Scores of a size of ten in float32 are off by 10 x 2^-23 at the most, and so are their exponentials.
WEIGHTS = 2e-6
TEXT = "It was the best of times, it was the worst of times."


def command_line(*words):
    return subprocess.run([BIN / "phasescope", *words], capture_output=True, check=True).stdout


class Wire(unittest.TestCase):
    def test_check_values_of_the_crc(self):
        # RFC 3720, appendix B.4.
        self.assertEqual(crc32c.crc32c(b"123456789"), 0xE3069283)
        self.assertEqual(crc32c.crc32c(bytes(32)), 0x8A9136AA)
        self.assertEqual(crc32c.crc32c(b"\xff" * 32), 0x62A8AB43)
        self.assertEqual(crc32c.crc32c(bytes(range(32))), 0x46DD794E)

    def test_lanes_side_by_side_are_the_bytes_one_by_one(self):
        data = numpy.random.default_rng(1).integers(0, 256, 50_001, numpy.uint8).tobytes()
        for count in (16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 50_001):
            one_by_one = crc32c._after(0xFFFFFFFF, data[:count]) ^ 0xFFFFFFFF
            self.assertEqual(crc32c.crc32c(data[:count]), one_by_one)

    def test_a_damaged_frame_is_refused(self):
        frame = frames.encode(frames.REQUEST, 7, {"method": "models.list"})
        preamble = frames.Preamble(frame[:frames.PREAMBLE_BYTES])
        rest = bytearray(frame[frames.PREAMBLE_BYTES:])
        self.assertEqual(frames.decode(preamble, bytes(rest))[0]["method"], "models.list")
        rest[5] ^= 1
        with self.assertRaises(frames.FrameError):
            frames.decode(preamble, bytes(rest))
        with self.assertRaises(frames.FrameError):
            frames.Preamble(b"x" + frame[1:frames.PREAMBLE_BYTES])

    def test_a_name_that_is_no_utf8_is_refused_before_it_is_sent(self):
        """As Python has a file's name of Latin-1: half of a surrogate pair for each byte."""
        with self.assertRaisesRegex(ValueError, "model is no UTF-8, in which the worker is asked"):
            frames.plain(os.fsdecode(b"m\xe9"), "model")

    def test_bfloat16_becomes_float32_exactly(self):
        bits = numpy.array([0x3F80, 0xC049, 0x7F80, 0x0001], "<u2")
        entry = {"name": "x", "dtype": "BF16", "shape": [2, 2]}
        got, size = frames._array(entry, bits.tobytes(), 0)
        self.assertEqual(size, 8)
        self.assertEqual(got.dtype, numpy.float32)
        numpy.testing.assert_array_equal(got, [[1, -3.140625], [numpy.inf, 2.0 ** -133]])


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rope = phasescope.open("rope")

    def test_heads_are_those_of_the_command_line(self):
        ours = self.rope.heads(text=TEXT, seed=3)
        theirs = json.loads(command_line("heads", "rope", "--prompt", TEXT, "--seed", "3", "--json"))
        self.assertGreater(len(ours["rows"]), 0)
        self.assertEqual(ours["rows"], theirs["rows"])
        self.assertEqual(ours["provenance"]["text_hash"], theirs["provenance"]["text_hash"])

    def test_distance_is_that_of_the_command_line(self):
        ours = self.rope.distance("tapa", text=TEXT, pairs=200)
        theirs = json.loads(command_line("distance", "rope", "tapa", "--prompt", TEXT, "--pairs", "200", "--json"))
        for key in set(ours) - {"provenance"}:
            self.assertEqual(ours[key], theirs[key], key)

    def test_captured_tensors_are_those_of_the_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.safetensors"
            command_line("capture", "rope", "--prompt", TEXT, "--what", "q,attn", "--layers", "1,2", "--out", path)
            theirs = read_safetensors(path)
        ours = self.rope.capture("q", "attn", layers=[1, 2], text=TEXT).tensors
        self.assertIn("attn.2", ours)
        for name, array in ours.items():
            numpy.testing.assert_array_equal(array, theirs[name], name)

    def test_large_tensors_come_in_memory_files(self):
        # 256 KiB and more: 4 heads x 256 x 256 float32 are 1 MiB.
        ids = [list(range(97, 97 + 16)) * 16]
        got = self.rope.capture("attn", layers=[0], ids=ids).tensors["attn.0"]
        self.assertEqual(got.shape, (1, 4, 256, 256))
        numpy.testing.assert_allclose(got.sum(-1), 1, atol=1e-5)  # 256 weights of float32

    def test_refusals_name_what_is_wrong(self):
        with self.assertRaises(phasescope.Failure) as caught:
            self.rope.map("L9H0", text=TEXT)
        self.assertEqual(caught.exception.code, "bad_usage")
        with self.assertRaises(phasescope.Failure):
            self.rope.map(pooool="max")
        with self.assertRaises(phasescope.Failure):
            phasescope.open("no_such_model")
        with self.assertRaises(ValueError):
            self.rope.map(text="a", ids=[1])
        self.assertEqual(self.rope.map(text=TEXT)["head"], 0)

    def test_a_dead_worker_is_said_and_another_one_works(self):
        with phasescope.Worker() as worker:
            worker._process.kill()
            with self.assertRaises(phasescope.Failure) as caught:
                worker.call("worker.sleep", seconds=30)
            self.assertEqual(caught.exception.code, "worker_died")
            self.assertIn("signal 9", str(caught.exception))
            with self.assertRaises(phasescope.Failure):
                worker.call("models.list")
        self.assertGreater(len(self.rope.heads(text=TEXT)["rows"]), 0)

    def test_what_no_request_can_hold_is_refused_and_the_worker_lives(self):
        half = "\udcff"
        for error, parameters in ((TypeError, {"text": b"abc"}), (TypeError, {"text": TEXT, "size": object()}),
                                  (ValueError, {"text": half}), (ValueError, {"text": TEXT, half: 1})):
            with self.assertRaises(error):
                self.rope.map(**parameters)
        # The protocol's word for a number that is none is refused by its field, not by the frame.
        with self.assertRaises(phasescope.Failure) as caught:
            self.rope.distance(text=TEXT, near=(float("nan"), 4))
        self.assertEqual(caught.exception.code, "bad_usage")
        self.assertGreater(len(self.rope.heads(text=TEXT)["rows"]), 0)

    def test_parameters_are_given_as_python_has_them(self):
        whole = self.rope.heads(text=TEXT, metrics=["entropy", "mean_distance"])["rows"]
        self.assertEqual(self.rope.heads(text=TEXT, metrics={"mean_distance", "entropy"})["rows"], whole)
        ids = numpy.array([list(TEXT.encode())])

        class Tensor:
            def tolist(self):
                return ids.tolist()
        rows = [self.rope.heads(ids=one, metrics=("entropy",))["rows"] for one in (ids.tolist(), ids, ids[0], Tensor())]
        for other in rows[1:]:
            self.assertEqual(other, rows[0])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rope"
            command_line("convert", "rope", "--to", "phasescope", "--out", path)
            rows = phasescope.open(path).heads(text=TEXT, metrics=["entropy", "mean_distance"])["rows"]
            self.assertEqual(rows, whole)

    def test_a_shared_worker_that_died_is_replaced(self):
        model = phasescope.open("rope", threads=1)
        model.worker._process.kill()
        for _ in range(3):
            with self.assertRaises(phasescope.Failure) as caught:
                model.map(text=TEXT)
            self.assertIn("starts another one", str(caught.exception))
            # Its own way to here alone: an error that is thrown again would gather those of all callers.
            depth, trace = 0, caught.exception.__traceback__
            while trace:
                depth, trace = depth + 1, trace.tb_next
            self.assertLess(depth, 6)
        again = phasescope.open("rope", threads=1)
        self.assertIsNot(again.worker, model.worker)
        self.assertEqual(again.map(text=TEXT)["head"], 0)

    def test_threads_and_sessions_beside_each_other(self):
        rows = {}
        with phasescope.Worker() as worker, phasescope.Worker() as other:
            def ask(n):
                model = phasescope.Model((worker, other)[n % 2], "rope")
                rows[n] = model.heads(text=TEXT[:20 + n // 2], metrics=["entropy"])["rows"]
            threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(sorted(rows), list(range(8)))
        for n in range(0, 8, 2):
            self.assertEqual(rows[n], rows[n + 1])
            self.assertEqual(rows[n], self.rope.heads(text=TEXT[:20 + n // 2], metrics=["entropy"])["rows"])
        with self.assertRaises(phasescope.Failure):
            worker.call("models.list")

    def test_an_interrupt_cancels_and_the_worker_lives(self):
        with phasescope.Worker() as worker:
            def interrupt(*_):
                raise KeyboardInterrupt
            with self.assertRaises(KeyboardInterrupt):
                worker.call("xray", interrupt, model="rope", length=512)
            self.assertGreater(len(worker.call("models.list")["models"]), 0)

    def test_a_figure_is_that_of_the_command_line(self):
        drawn = self.rope.map("L1H2", text=TEXT, size=(32, 32)).figures()
        self.assertTrue(drawn[0].svg.lstrip().startswith("<"))
        self.assertIn("<svg", drawn[0]._repr_svg_())
        with tempfile.TemporaryDirectory() as folder:
            command_line("map", "rope", "--prompt", TEXT, "--head", "L1H2", "--size", "32x32", "--out", folder)
            theirs = [path.read_text() for path in sorted(Path(folder).glob("*.svg"))]
        self.assertEqual([figure.svg for figure in drawn], theirs)

    def test_a_figure_is_of_the_model_as_it_was_opened(self):
        slow = phasescope.open("rope", set={"encoding.base": 50.0})
        drawn = phasescope.figures("map", slow, head="L1H2", prompt=TEXT, size=(32, 32))
        with tempfile.TemporaryDirectory() as folder:
            command_line("map", "rope", "--set", "encoding.base=50.0", "--prompt", TEXT, "--head", "L1H2", "--size",
                         "32x32", "--out", folder)
            theirs = [path.read_text() for path in sorted(Path(folder).glob("*.svg"))]
        self.assertEqual([figure.svg for figure in drawn], theirs)
        plain = phasescope.figures("map", self.rope, head="L1H2", prompt=TEXT, size=(32, 32))
        self.assertNotEqual([figure.svg for figure in drawn], [figure.svg for figure in plain])
        with self.assertRaisesRegex(ValueError, "different ways"):
            phasescope.figures("distance", slow, self.rope)


class Dump(unittest.TestCase):
    """With a stand-in for torch that has the one function and tensors that numpy holds."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        functional = types.ModuleType("torch.nn.functional")
        functional.scaled_dot_product_attention = lambda query, key, value, **_: value
        nn, torch = types.ModuleType("torch.nn"), types.ModuleType("torch")
        torch.nn, nn.functional = nn, functional
        sys.modules.update({"torch": torch, "torch.nn": nn, "torch.nn.functional": functional})
        for name in ("torch.nn.functional", "torch.nn", "torch"):
            self.addCleanup(sys.modules.pop, name)
        self.functional = functional
        random = numpy.random.default_rng(4)
        self.q = random.normal(size=(2, 1, 4, 12, 8)).astype(numpy.float32)
        self.k = random.normal(size=(2, 1, 2, 12, 8)).astype(numpy.float32)

    def run_model(self, **options):
        for q, k in zip(self.q, self.k):
            self.functional.scaled_dot_product_attention(q, k, k, **options)

    def map_of(self, file, head):
        imported = self.folder / "imported"
        command_line("import", file, "--out", imported)
        model = phasescope.open(str(imported))
        return model.capture("attn", heads=[head[1]], layers=[head[0]],
                             ids=[list(range(12))]).tensors[f"attn.{head[0]}"][0, 0]

    def weights(self, layer, head, scale):
        q, k = self.q[layer, 0, head].astype(float), self.k[layer, 0, head // 2].astype(float)
        scores = numpy.where(numpy.tril(numpy.ones((12, 12), bool)), q @ k.T * scale, -numpy.inf)
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        return scores / scores.sum(-1, keepdims=True)

    def test_queries_and_keys_give_the_models_maps(self):
        original = self.functional.scaled_dot_product_attention
        path = self.folder / "qk.safetensors"
        with phasescope.dump(path):
            self.run_model(is_causal=True, scale=0.5)
        self.assertIs(self.functional.scaled_dot_product_attention, original)
        numpy.testing.assert_allclose(self.map_of(path, (1, 3)), self.weights(1, 3, 0.5), atol=WEIGHTS)

    def test_a_model_that_took_the_function_by_its_name_is_recorded(self):
        own = types.ModuleType("a_model")
        own.attend = original = self.functional.scaled_dot_product_attention
        sys.modules["a_model"] = own
        self.addCleanup(sys.modules.pop, "a_model")
        path = self.folder / "qk.safetensors"
        late = types.ModuleType("a_model_loaded_late")
        self.addCleanup(sys.modules.pop, "a_model_loaded_late")
        with phasescope.dump(path) as layers:
            sys.modules["a_model_loaded_late"] = late
            late.attend = self.functional.scaled_dot_product_attention
            own.attend(self.q[0], self.k[0], self.k[0], is_causal=True)
            self.functional.scaled_dot_product_attention(self.q[1], self.k[1], self.k[1], is_causal=True)
        self.assertEqual(len(layers), 2)
        self.assertIs(own.attend, original)
        self.assertIs(late.attend, original)
        numpy.testing.assert_allclose(self.map_of(path, (0, 3)), self.weights(0, 3, 8 ** -0.5), atol=WEIGHTS)

    def test_maps_are_the_models_maps(self):
        path = self.folder / "maps.safetensors"
        mask = numpy.where(numpy.tril(numpy.ones((1, 1, 12, 12), bool)), 0, -numpy.inf).astype(numpy.float32)
        with phasescope.dump(path, "maps"):
            self.run_model(attn_mask=mask)
        numpy.testing.assert_allclose(self.map_of(path, (0, 2)), self.weights(0, 2, 8 ** -0.5), atol=WEIGHTS)

    def test_a_causal_mask_of_float16_is_one(self):
        path = self.folder / "qk.safetensors"
        mask = numpy.where(numpy.tril(numpy.ones((12, 12), bool)), 0, -65504).astype(numpy.float16)
        with phasescope.dump(path):
            self.run_model(attn_mask=mask)
        numpy.testing.assert_allclose(self.map_of(path, (1, 1)), self.weights(1, 1, 8 ** -0.5), atol=WEIGHTS)

    def test_layers_that_see_later_tokens_are_told_of(self):
        path = self.folder / "qk.safetensors"
        with self.assertWarnsRegex(UserWarning, "--causal no"):
            with phasescope.dump(path):
                self.run_model()
        self.assertTrue(path.is_file())
        mixed = self.folder / "mixed.safetensors"
        with self.assertRaisesRegex(ValueError, "some layers see later tokens"):
            with phasescope.dump(mixed):
                self.run_model()
                self.run_model(is_causal=True)
        self.assertFalse(mixed.exists())

    def test_a_row_that_sees_nothing_has_no_weights(self):
        path = self.folder / "maps.safetensors"
        mask = numpy.tril(numpy.ones((12, 12), bool))
        mask[:, 0] = False  # padding in front: its own row sees nothing
        with phasescope.dump(path, "maps"):
            self.run_model(attn_mask=mask)
        maps = read_safetensors(path)["attn.0"]
        numpy.testing.assert_array_equal(maps[:, 0], 0)
        numpy.testing.assert_allclose(maps[:, 1:].sum(-1), 1, atol=WEIGHTS)

    def test_what_cannot_be_said_is_refused_and_nothing_is_written(self):
        path = self.folder / "none.safetensors"
        window = numpy.tril(numpy.ones((12, 12), bool)) & ~numpy.tril(numpy.ones((12, 12), bool), -4)
        for options in ({"attn_mask": window}, {"attn_mask": numpy.ones((12, 12), numpy.float32)}):
            with self.assertRaisesRegex(ValueError, "more than causal"):
                with phasescope.dump(path):
                    self.run_model(**options)
        self.k = self.k[..., :5, :]
        with self.assertRaisesRegex(ValueError, "12 queries see 5 keys"):
            with phasescope.dump(path):
                self.run_model()
        with self.assertRaisesRegex(RuntimeError, "no layer called"):
            with phasescope.dump(path):
                pass
        self.assertFalse(path.exists())


def live_torch():
    """PyTorch itself, where this Python has it."""
    try:
        import torch
        return torch
    except ImportError:
        return None


class LiveModel(unittest.TestCase):
    """The hook beside the weights that an attention layer returns by itself: PyTorch's own where this Python has it,
    else that of stand_in_torch."""

    def setUp(self):
        torch = live_torch()
        if torch is None or not hasattr(torch, "nn"):
            standing_in = unittest.mock.patch.dict(sys.modules, stand_in_torch.modules())
            standing_in.start()
            self.addCleanup(standing_in.stop)
            torch = sys.modules["torch"]
        else:
            torch.manual_seed(4)
        self.torch = torch
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.mask = torch.nn.Transformer.generate_square_subsequent_mask(12)

    def map_of(self, file, head):
        command_line("import", file, "--out", self.folder / "imported")
        model = phasescope.open(str(self.folder / "imported"))
        found = model.capture("attn", heads=[head], layers=[0], ids=[list(range(12))]).tensors["attn.0"][0, 0]
        shutil.rmtree(self.folder / "imported")
        return found

    def test_an_attention_layer_of_torch(self):
        layer = self.torch.nn.MultiheadAttention(32, 4, batch_first=True)  # in training mode: no path of its own
        x = self.torch.randn(1, 12, 32)
        _, weights = layer(x, x, x, attn_mask=self.mask, average_attn_weights=False)
        for what in ("qk", "maps"):
            with self.subTest(what):
                path = self.folder / f"{what}.safetensors"
                with phasescope.dump(path, what):
                    layer(x, x, x, attn_mask=self.mask, need_weights=False)
                numpy.testing.assert_allclose(self.map_of(path, 2), weights[0, 2].detach().tolist(), atol=WEIGHTS)

    def test_tensors_of_bfloat16(self):
        """They become float32 as they are: the weights are those of the rounded queries and keys."""
        q, k = (self.torch.randn(1, 4, 12, 8).bfloat16() for _ in range(2))
        mask = self.mask.bfloat16()
        path = self.folder / "maps.safetensors"
        with phasescope.dump(path, "maps"):
            self.torch.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)
        scores = numpy.array(q.float().tolist())[0, 1] @ numpy.array(k.float().tolist())[0, 1].T * 8 ** -0.5
        scores = numpy.exp(numpy.where(numpy.tril(numpy.ones((12, 12), bool)), scores, -numpy.inf))
        numpy.testing.assert_allclose(self.map_of(path, 1), scores / scores.sum(-1, keepdims=True), atol=WEIGHTS)

    def test_no_other_tensor_gives_itself_away(self):
        """What the hook does for them is needed, of PyTorch's tensors as of the stand-in's."""
        with self.assertRaises(TypeError):
            self.torch.randn(2).bfloat16().numpy()


class Page(unittest.TestCase):
    def test_the_code_of_the_page_runs(self):
        page = (SOURCE / "docs" / "python.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```python\n(.*?)```", page, re.S)
        self.assertGreater(len(blocks), 3)
        with tempfile.TemporaryDirectory() as folder:
            here = os.getcwd()
            os.chdir(folder)
            try:
                names = {}
                for block in blocks:
                    exec(compile(block, "docs/python.md", "exec"), names)
                self.assertTrue(Path("map.svg").is_file())
            finally:
                os.chdir(here)


class Package(unittest.TestCase):
    def test_it_can_be_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            source, there = Path(folder) / "source", Path(folder) / "there"
            shutil.copytree(MODULE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
            done = subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--no-deps",
                                   "--no-build-isolation", "--target", there, source],
                                  capture_output=True, text=True, check=False)
            if "No module named" in done.stderr:
                self.skipTest("this Python has no pip, or no setuptools")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((there / "phasescope" / "worker.py").is_file())


def read_safetensors(path):
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:end]).items():
        if name != "__metadata__":
            begin, stop = entry["data_offsets"]
            dtype = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}[entry["dtype"]]
            tensors[name] = numpy.frombuffer(data[end + begin:end + stop], dtype).reshape(entry["shape"])
    return tensors


if __name__ == "__main__":
    python_cases.run()
