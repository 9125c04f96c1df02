#!/usr/bin/env python3
"""Cuts small cases out of the references of quantised checkpoints (golden/hf/formats; README there).

    python make_quantised_cases.py GOLDEN/hf/formats

quantised/CASE/      of each format, one matrix as it lies on disk (of the experts the first one's first eight
                     outputs), its quantization_config, and what it means (w.NAME in float32)
ggml_blocks.json     of each type of GGUF that has blocks, two blocks (base64) and their float32 values (base64)

Nothing here computes: bytes are copied. Needs Python alone.
"""

import base64
import json
import struct
import sys
from pathlib import Path

HERE = Path(__file__).parent
MATRIX = "model.layers.0.self_attn.k_proj"
CASES = {
    "fp8_block_partial": MATRIX, "fp8_block_e8m0": MATRIX, "compressed_fp8_channel": MATRIX,
    "mxfp4_gpt_oss": "model.layers.0.mlp.experts.down_proj", "gptq_int4_act_order": MATRIX,
    "awq_int4": MATRIX, "compressed_w4a16_asym": MATRIX, "bnb_nf4_double": MATRIX,
}
# Type: case, tensor of the file, its name in expected.safetensors; rows as in the plain checkpoint.
BLOCKS = {
    "Q4_0": ("gguf_k_mixed", "ffn_down", "mlp.down_proj"), "Q4_1": ("gguf_k_mixed", "attn_output", "self_attn.o_proj"),
    "Q5_0": ("gguf_q4_k", "attn_output", "self_attn.o_proj"), "Q8_0": ("gguf_q4_k", "ffn_down", "mlp.down_proj"),
    "Q5_1": ("gguf_q5_1", "ffn_down", "mlp.down_proj"), "Q2_K": ("gguf_k_mixed", "ffn_up", "mlp.up_proj"),
    "Q3_K": ("gguf_k_mixed", "attn_k", "self_attn.k_proj"), "Q4_K": ("gguf_q4_k", "ffn_gate", "mlp.gate_proj"),
    "Q5_K": ("gguf_k_mixed", "attn_q", "self_attn.q_proj"), "Q6_K": ("gguf_k_mixed", "attn_v", "self_attn.v_proj"),
}
SIZES = {"Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34), "Q2_K": (256, 84),
         "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210)}


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], data[8 + length:][slice(*v["data_offsets"])]) for k, v in header.items()}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in sorted(tensors.items(), key=lambda item: (-width(item[1][0]), item[0])):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def width(dtype):
    return {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2}.get(dtype, 1)


def gguf_data(path, wanted):
    """The bytes of one tensor: a reader of just what these files hold."""
    data, at = path.read_bytes(), 8

    def take(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)[0]
        at += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal at
        length = take("Q")
        at += length
        return data[at - length:at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner = take("I")
            return [value(inner) for _ in range(take("Q"))]
        return take("BbHhIif?__QqD"[kind].replace("D", "d"))

    tensors, keys = take("Q"), take("Q")
    for _ in range(keys):
        text()
        value(take("I"))
    offsets = {}
    for _ in range(tensors):
        name = text()
        dims = [take("Q") for _ in range(take("I"))]
        take("I")
        offsets[name] = take("Q"), dims
    start = (at + 31) // 32 * 32
    return data[start + offsets[wanted][0]:]


def first_outputs(tensors, module, count=8):
    """The first outputs of the first expert: (E, out, in / 32, ...) in the file, (E, in, out) plainly."""
    for ending in ("_blocks", "_scales"):
        dtype, shape, data = tensors[module + ending]
        size = len(data) // (shape[0] * shape[1])
        tensors[module + ending] = (dtype, [1, count] + shape[2:], data[:count * size])
    dtype, (_, inputs, outputs), data = tensors["w." + module]
    rows = [data[4 * outputs * i:4 * (outputs * i + count)] for i in range(inputs)]
    tensors["w." + module] = (dtype, [1, inputs, count], b"".join(rows))


def main():
    golden = Path(sys.argv[1])
    for case, module in CASES.items():
        folder = HERE / "quantised" / case
        folder.mkdir(parents=True, exist_ok=True)
        config = json.loads((golden / case / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({"quantization_config": config["quantization_config"]}) + "\n")
        tensors = {k: v for k, v in read_safetensors(golden / case / "model.safetensors").items() if k.startswith(module)}
        expected = read_safetensors(golden / case / "expected.safetensors")
        tensors |= {k: v for k, v in expected.items() if k.startswith("w." + module)}
        if module + "_blocks" in tensors:
            tensors.pop(module + "_bias", None)
            first_outputs(tensors, module)
        own = {k: v for k, v in tensors.items() if not k.startswith("w.")}
        write_safetensors(folder / "model.safetensors", own)
        write_safetensors(folder / "expected.safetensors", {k: v for k, v in tensors.items() if k.startswith("w.")})
    blocks = {}
    for kind, (case, name, plain) in BLOCKS.items():
        values, size = SIZES[kind]
        content = gguf_data(golden / case / "model.gguf", f"blk.0.{name}.weight")[:2 * size]
        expected = read_safetensors(golden / case / "expected.safetensors")[f"w.model.layers.0.{plain}.weight"][2]
        blocks[kind] = {"bytes": base64.b64encode(content).decode(), "values": base64.b64encode(expected[:8 * values]).decode()}
    (HERE / "ggml_blocks.json").write_text(json.dumps(blocks, indent=1) + "\n")


main()
