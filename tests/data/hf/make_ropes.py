#!/usr/bin/env python3
"""Renews the cases of ropes.json: what ropes transformers' classes make of configurations whose rope
fields are changed in the ways that files are found with.

    pip install transformers==5.23.0 numpy
    make_ropes.py ropes.json

"families" (a small configuration each) and "changes" (what is removed and set) are kept. Which values
win is the class's doing; the frequencies follow from them by the formulas of the library's
modeling_rope_utils.py, here in float64. A case is refused where the class refuses it, and
where its model would not run (ropes by layer type in a class with one for all layers, and the other
way round).
"""

import copy
import json
import math
import os
import sys

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import numpy as np
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

# Classes that read partial_rotary_factor with the plain rope.
PARTIAL = {"phi3", "qwen3_next", "glm4", "stablelm", "phi", "nemotron", "mimo_v2_flash", "laguna", "gpt_neox"}
BY_TYPE = {"gemma4_text", "laguna", "mimo_v2_flash"}  # read rope_parameters by layer type alone
OLDER_TOO = {"gemma3_text", "gemma3n_text", "olmo3"}  # and older files too


def yarn(config, rope, flat, base, dim):
    trained, factor = rope["original_max_position_embeddings"], rope["factor"]
    if factor is None:
        factor = config.max_position_embeddings / trained

    def magnitude(scale=1.0):
        return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0

    def plane(turns):
        return dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))

    both = rope.get("mscale") and rope.get("mscale_all_dim")
    by_factor = magnitude(rope["mscale"]) / magnitude(rope["mscale_all_dim"]) if both else magnitude()
    low, high = plane(rope.get("beta_fast") or 32), plane(rope.get("beta_slow") or 1)
    if flat.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / ((high - low) or 0.001), 0, 1)
    own = rope.get("attention_factor")
    return base / factor * ramp + base * (1 - ramp), by_factor if own is None else own


def llama3(rope, base):
    trained, low, high = rope["original_max_position_embeddings"], rope["low_freq_factor"], rope["high_freq_factor"]
    ramp = np.clip((trained * base / (2 * math.pi) - low) / (high - low), 0, 1)
    return base / rope["factor"] * (1 - ramp) + base * ramp


def frequencies(config, rope, flat, head_dim, family):
    """(planes,) of one rope, and what q and k are multiplied by."""
    kind, theta = rope.get("rope_type", "default"), rope["rope_theta"]
    of_class = 0.334 if family == "mimo_v2_flash" and kind == "default" else 1.0
    share = rope.get("partial_rotary_factor", of_class)
    if kind == "default" and family not in PARTIAL:
        share = 1.0
    whole = theta ** (-np.arange(0, head_dim, 2) / head_dim)
    if kind == "proportional":
        turning = int(share * head_dim // 2)
        return np.where(np.arange(head_dim // 2) < turning, whole, 0) / rope.get("factor", 1.0), 1.0
    dim = int(head_dim * share)
    base = theta ** (-np.arange(0, dim, 2) / dim)
    if kind == "yarn":
        return yarn(config, rope, flat, base, dim)
    if kind == "longrope":
        trained = rope["original_max_position_embeddings"]
        factor = rope.get("factor") or config.max_position_embeddings / trained
        grown = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))
        return base / np.array(rope["short_factor"]), rope.get("attention_factor") or grown
    if kind == "llama3":
        return llama3(rope, base), 1.0
    return base / (rope["factor"] if kind == "linear" else 1.0), 1.0


def head_dim_of(given, layer, kind):
    """From the file: the class's own attribute is not one number where layers differ."""
    if given["model_type"] == "gemma4_text" and kind == "full_attention":
        return given["per_layer_config"][str(layer)]["head_dim"]
    if "qk_rope_head_dim" in given:
        return given["qk_rope_head_dim"]
    return given.get("head_dim") or given["hidden_size"] // given["num_attention_heads"]


def ropes_of(given):
    """A list of {layers, frequencies, magnitude}."""
    family = given["model_type"]
    config = CONFIG_MAPPING[family].from_dict(copy.deepcopy(given))
    if family not in BY_TYPE | OLDER_TOO:
        config.standardize_rope_params()  # as every kind but the default does when its model is made
    rope, kinds, found = config.rope_parameters, getattr(config, "layer_types", None), []
    for layer in range(config.num_hidden_layers):
        kind = kinds[layer] if kinds else None
        own = rope[kind] if kind in rope else rope
        numbers, magnitude = frequencies(config, own, rope, head_dim_of(given, layer, kind), family)
        row = {"layers": [layer], "frequencies": list(map(float, numbers)), "magnitude": float(magnitude)}
        same = [r for r in found if (r["frequencies"], r["magnitude"]) == (row["frequencies"], row["magnitude"])]
        (same[0]["layers"].append(layer) if same else found.append(row))
    return found


def refused(given):
    family, scaling = given["model_type"], given.get("rope_scaling") or {}
    rope = scaling or given.get("rope_parameters") or {}
    nested = bool(rope) and all(isinstance(value, dict) or value is None for value in rope.values())
    if family in OLDER_TOO:
        return False
    if family not in BY_TYPE:
        return nested
    if scaling or (rope and not nested):
        return True
    return bool(rope) and any(
        not rope.get(kind) or "rope_theta" not in rope[kind] for kind in set(given["layer_types"]))


def case_of(family, change, given):
    case = {"family": family, "change": change}
    if refused(given):
        return {**case, "refused": True}
    try:
        return {**case, "ropes": ropes_of(given)}
    except Exception as error:  # of the class's validation
        print(family, change, "is refused by the class:", str(error)[:100].replace("\n", " "))
        return {**case, "refused": True}


def main(path):
    with open(path) as file:
        data = json.load(file)
    data["cases"] = []
    for family, config in data["families"].items():
        for change, what in data["changes"].items():
            if family in what.get("not_of", []):
                continue
            given = {key: value for key, value in config.items() if key not in what["remove"]}
            data["cases"].append(case_of(family, change, {**given, **what["set"]}))
    with open(path, "w") as file:
        lines = ",\n".join("  " + json.dumps(case) for case in data["cases"])
        head = json.dumps({key: data[key] for key in ("families", "changes")}, indent=1)
        file.write(head[:-2] + ',\n "cases": [\n' + lines + "\n ]\n}\n")


main(sys.argv[1])
