#!/usr/bin/env python3
"""Writes a reference file from a Hugging Face model: inputs, and what transformers computes of them.

    pip install torch==2.11.0 transformers==5.23.0 safetensors==0.8.0
    python3 tools/write_reference.py MODEL --text "Never odd or even" --out reference.safetensors
    phasescope check MODEL --reference reference.safetensors

MODEL is a folder with config.json and weights. The file holds, under the names that `phasescope check`
compares: input_ids and, where they are used, attention_mask and decoder_input_ids; logits, attn.L,
hidden.L (0 is the embedding, the last one is after the final norm), hidden.last_layer_out (before it),
rope.inv_freq; with enc., dec. and cross. in an encoder-decoder. They come from a float32 run on the CPU
with plain attention; NAME_f64 of each from one in which every operation is float64, also those that a model
in double precision still does in float32 (norms, angles, softmax). The latter take twice the room of the
former: --small keeps those of logits and frequencies alone.
"""

import argparse
import contextlib
import copy
import json
import os
import sys
from pathlib import Path

LAYERS = ("layers", "h", "blocks", "block", "decoder.layers", "encoder.layer")


def arguments(words):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="a folder with config.json and weights")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--text", action="append", metavar="TEXT",
                      help="read with the folder's tokenizer; may be given again: shorter texts are padded")
    what.add_argument("--ids", metavar="FILE", help="JSON: a list of ids, or a list of lists of equal length")
    what.add_argument("--random", metavar="ROWSxTOKENS", type=rows_and_tokens, help="random ids, 2x37 for example")
    parser.add_argument("--decoder-ids", metavar="FILE",
                        help="of an encoder-decoder, as for --ids; otherwise half as many random ones")
    parser.add_argument("--long", metavar="TOKENS", type=int,
                        help="one more text of random ids, in the group `long.`")
    parser.add_argument("--seed", type=int, default=1, help="of random ids (default 1)")
    parser.add_argument("--no-float64", action="store_true", help="leave out the float64 run")
    parser.add_argument("--small", action="store_true",
                        help="NAME_f64 of logits and frequencies alone, not of attn and hidden")
    parser.add_argument("--out", required=True, metavar="FILE", help="the file to write, .safetensors")
    return parser.parse_args(words)


def rows_and_tokens(text):
    try:
        rows, tokens = (int(part) for part in text.split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected ROWSxTOKENS, as in 2x37, not {text!r}") from None
    if rows < 1 or tokens < 1:
        raise argparse.ArgumentTypeError("at least one row and one token")
    return rows, tokens


def ids_in(path):
    """The ids of a file as rows of equal length."""
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path}: {error}") from None
    if isinstance(rows, list) and rows and all(isinstance(i, int) for i in rows):
        rows = [rows]
    good = isinstance(rows, list) and rows and all(
        isinstance(row, list) and row and all(isinstance(i, int) and i >= 0 for i in row) for row in rows)
    if not good or len({len(row) for row in rows}) != 1:
        raise SystemExit(f"{path}: expected a list of ids, or a list of lists of equal length")
    return rows


def random_ids(torch, config, rows, tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    vocabulary = config.get_text_config().vocab_size
    return torch.randint(vocabulary, (rows, tokens), generator=generator)


def inputs_of(options, torch, transformers, config):
    """The tensors of the first group."""
    if options.text:
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
        except (OSError, ValueError) as error:
            why = str(error).splitlines()[0]
            raise SystemExit(f"{options.model}: transformers reads no tokenizer there ({why}); give --ids") from None
        rows = [tokenizer(text)["input_ids"] for text in options.text]
        if not all(rows):
            raise SystemExit("a text without a token cannot be read")
        longest, pad = max(map(len, rows)), tokenizer.pad_token_id or 0
        inputs = {"input_ids": torch.tensor([row + [pad] * (longest - len(row)) for row in rows])}
        if any(len(row) < longest for row in rows):
            inputs["attention_mask"] = torch.tensor(
                [[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    elif options.ids:
        inputs = {"input_ids": torch.tensor(ids_in(options.ids))}
    else:
        inputs = {"input_ids": random_ids(torch, config, *options.random, options.seed)}
    if config.is_encoder_decoder:
        rows, tokens = inputs["input_ids"].shape
        inputs["decoder_input_ids"] = (
            torch.tensor(ids_in(options.decoder_ids)) if options.decoder_ids
            else random_ids(torch, config, rows, tokens // 2 + 1, options.seed + 1))
    return inputs


@contextlib.contextmanager
def everything_in_float64(torch):
    """What asks for float32 gets float64 meanwhile, and an operation that still gives less is an error."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for tensor in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(tensor, torch.Tensor) and tensor.dtype in low:
                    raise SystemExit(f"{function} computes in {tensor.dtype}: this model has no true float64 "
                                     "run; use --no-float64")
            return result

    double, default = torch.float64, torch.get_default_dtype()
    low = {torch.float32, torch.float16}  # bfloat16 stays: Falcon's ALiBi is rounded to it in any dtype
    saved = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = double
    torch.Tensor.float = lambda tensor, *args, **kwargs: tensor.to(double)
    torch.set_default_dtype(double)
    try:
        yield Watch()
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved
        torch.set_default_dtype(default)


class Reference:
    """A folder's model, new for each run: some rotary embeddings remember the longest text."""

    def __init__(self, folder, torch, transformers):
        self.torch, self.folder = torch, folder
        self.config = transformers.AutoConfig.from_pretrained(folder)
        name = (self.config.architectures or ["AutoModelForCausalLM"])[0]
        self.kind = getattr(transformers, name, None)
        if self.kind is None:
            raise SystemExit(f"{folder}/config.json: transformers has no architecture {name!r}")
        self.single = self.in_float32()

    def in_float32(self):
        model = self.kind.from_pretrained(self.folder, dtype=self.torch.float32, attn_implementation="eager")
        return self.ready(model)

    def in_float64(self):
        model = type(self.single)(copy.deepcopy(self.single.config)).double()
        # Tensors that the configuration ties may be two in the file, so each one gets its own.
        state = {name: tensor.double() for name, tensor in self.single.state_dict().items()}
        model.load_state_dict(state, assign=True)
        return self.ready(model)

    def ready(self, model):
        model.eval()
        if model.config.model_type == "falcon" and model.config.alibi:
            for block in model.transformer.h:
                block.self_attention.register_forward_pre_hook(self.mask_alone, with_kwargs=True)
        return model

    def mask_alone(self, _, args, kwargs):
        """Eager Falcon adds its ALiBi to the scores, and once more with the mask."""
        mask = kwargs["attention_mask"]
        least = self.torch.finfo(mask.dtype).min
        kwargs["attention_mask"] = self.torch.where(mask <= least / 2, least, 0.0).to(mask.dtype)
        return args, kwargs


def last_layer(model):
    """The last layer of a stack, whose output is shown after the final norm alone."""
    core = getattr(model, model.base_model_prefix, None) or model
    for path in LAYERS:
        found = core
        for part in path.split("."):
            found = getattr(found, part, None)
        if found is not None:
            return found[-1]
    return None


def frequencies(model):
    """rope.inv_freq, or rope.KIND.inv_freq where layers of several kinds have their own."""
    found = {}
    for name, buffer in model.named_buffers():
        key = name.rsplit(".", 1)[-1]
        if key.endswith("inv_freq") and not key.endswith("original_inv_freq"):
            kind = key[:-len("inv_freq")].rstrip("_")
            found[f"rope.{kind}.inv_freq" if kind else "rope.inv_freq"] = buffer
    return found


def run(model, inputs):
    """All outputs of a forward pass by their names."""
    before_norm = []
    layer = None if model.config.is_encoder_decoder else last_layer(model)
    hook = layer and layer.register_forward_hook(
        lambda module, args, output: before_norm.append(output[0] if isinstance(output, tuple) else output))
    try:
        result = model(**inputs, output_attentions=True, output_hidden_states=True, return_dict=True)
    except (IndexError, RuntimeError) as error:  # as where a text is longer than a table of positions
        shape = "x".join(map(str, inputs["input_ids"].shape))
        raise SystemExit(f"the model cannot read ids of shape {shape}: {error}") from None
    if hook:
        hook.remove()
    outputs = {"logits": result.logits} if "logits" in result else {}
    names = ({"enc.attn": "encoder_attentions", "dec.attn": "decoder_attentions", "cross.attn": "cross_attentions",
              "enc.hidden": "encoder_hidden_states", "dec.hidden": "decoder_hidden_states"}
             if model.config.is_encoder_decoder else {"attn": "attentions", "hidden": "hidden_states"})
    for name, key in names.items():
        outputs.update({f"{name}.{n}": tensor for n, tensor in enumerate(result[key])})
    if before_norm and not before_norm[0].equal(result.hidden_states[-1]):
        outputs["hidden.last_layer_out"] = before_norm[0]
    return {**outputs, **frequencies(model)}


def expect_alike(name, single, double):
    """Rounding explains a thousandth of the largest value at most; more is another model."""
    if not (single - double).abs().max() <= 1e-3 * double.abs().max():
        raise SystemExit(f"{name}: the float64 run is of another model than the float32 one; use --no-float64")


def group_of(reference, inputs, options, torch):
    """Inputs and outputs of one text, as they stand in the file."""
    with torch.no_grad():
        group = {**inputs, **run(reference.in_float32(), inputs)}
        if not options.no_float64:
            with everything_in_float64(torch) as watch:
                model = reference.in_float64()
                with watch:
                    exact = run(model, inputs)
            for name in exact:
                expect_alike(name, group[name], exact[name])
                if not options.small or name == "logits" or name.startswith("rope."):
                    group[f"{name}_f64"] = exact[name]
    return {name: tensor.detach().contiguous().clone() for name, tensor in group.items()}


def main(words):
    options = arguments(words)
    if not (Path(options.model) / "config.json").is_file():
        raise SystemExit(f"{options.model}/config.json is not there: MODEL must be a folder with a model")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a folder is all that is read
    try:
        import safetensors.torch
        import torch
        import transformers
    except ImportError as error:
        raise SystemExit(f"{error}; pip install torch==2.11.0 transformers==5.23.0 safetensors==0.8.0") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    reference = Reference(options.model, torch, transformers)
    config = reference.config
    tensors = group_of(reference, inputs_of(options, torch, transformers, config), options, torch)
    if options.long:
        inputs = {"input_ids": random_ids(torch, config, 1, options.long, options.seed + 2)}
        if config.is_encoder_decoder:
            inputs["decoder_input_ids"] = random_ids(torch, config, 1, options.long // 2 + 1, options.seed + 3)
        group = group_of(reference, inputs, options, torch)
        tensors.update({f"long.{name}": tensor for name, tensor in group.items()})
    made_with = f"transformers {transformers.__version__}, torch {torch.__version__}"
    safetensors.torch.save_file(tensors, options.out, metadata={"made_with": made_with})
    print(f"{options.out}: {len(tensors)} tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
