"""docs/parity.md: how far our numbers are from other people's, out of the tests' own reports."""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from . import build
from .console import DevError, say
from .paths import ROOT

PAGE = ROOT / "docs" / "parity.md"
# The tests that note errors; those made from the registry alone compare us with ourselves.
TESTS = "-*EveryEncoding*"
# TAPE, arXiv 2501.00712, Table 3: GFLOPs, GMACs, parameters in 2^20.
PUBLISHED = {"tape": (365.65, 180.69, 155.33), "rope": (321.10, 160.46, 154.89),
             "fire": (331.97, 165.69, 154.90), "t5": (321.10, 160.46, 154.90)}

# Why a tensor, or a whole file, is not compared, where the check's own words say too little.
ALL = "all"
BF16 = "of a run in bfloat16 throughout; here its weights are computed in float32 or float64"
NO_ROPE = "the file holds frequencies of a rope that this model, with ALiBi, does not use"
REASONS = {
    ("hf/models/falcon_rw_alibi", "rope.inv_freq"): NO_ROPE,
    ("hf/models/falcon_rw_alibi", "rope.inv_freq_f64"): NO_ROPE,
    ("papers/tape/adape_bf16", "bf16.pe_cos"): BF16,
    ("papers/tape/adape_bf16", "bf16.pe_sin"): BF16,
    ("papers/tape/adape_bf16", "bf16.positions"): BF16,
    ("papers/tape/adayarn", "n81.second_call.logits_f64"):
        "the public code remembers the longest text of earlier calls; here each call stands alone",
    ("papers/ape/rotary_public.safetensors", ALL):
        "the repository's baseline turns pairs of heads, so it is not RoPE",
    ("papers/ape/self_attention.safetensors", ALL):
        "compared to 1e-7 alone (ApeCheckpoint): its float64 run has the decay in float32",
}
# Parts of files that are read for others of their parts.
CROSS = "no model here attends from one grid to another"
UNREAD = {
    ("papers/ape/grid.safetensors", "cross.scores_code_f64"): CROSS,
    ("papers/ape/grid.safetensors", "cross.scores_intended_f64"): CROSS,
    ("papers/reference/cases.json", "gamma"):
        "analysis_test holds the curve against that of theory/rope_bias.safetensors",
    ("papers/reference/cases.json", "tapa_mean_cosine"):
        "nothing computes it: the theory check measures a model's own pairs",
}

# In place of a file (kDefinition of tests/model/golden.h).
DEFINITION = "the definition"

HEAD = """# Parity

Made by `./dev parity` from the reports of the tests; do not edit. Errors are the largest difference over the
tensor's largest magnitude, the worst of all tensors, lengths, configuration dialects and both backends.
Float64 must agree to 1e-10, float32 to 1e-5 or three times what the reference's own float32 run loses.
The references are described in `tests/data/README.md`.
"""


def parity():
    folder = build.build("release", ["model_test", "phasescope_programs"])
    notes = notes_of(folder / "bin" / "model_test")
    costs = costs_of(folder / "bin" / "phasescope")
    PAGE.write_text("\n".join([HEAD, families(notes), encodings(notes), left_out(notes),
                               shifts(notes), cost_table(costs)]), encoding="utf-8")
    say(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


def notes_of(program):
    """What the tests noted: {kind: {the rest of the key, as a tuple: value}}."""
    say("running the tests that compare with references")
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        done = subprocess.run([str(program), f"--gtest_filter={TESTS}", f"--gtest_output=json:{report}",
                               "--gtest_brief=1"], stdin=subprocess.DEVNULL,
                              stdout=sys.stderr.fileno(), env=build.environment())
        if done.returncode != 0:
            raise DevError("a test failed, so there is no table to write")
        suites = json.loads(report.read_text(encoding="utf-8"))["testsuites"]
    cases = [case for suite in suites for case in suite["testsuite"]]
    missing = [case["name"] for case in cases
               if case.get("result") == "SKIPPED" and "HuggingFace" in case["classname"]]
    if missing:
        raise DevError(f"{len(missing)} references are not here, {missing[0]} first; name their folder in "
                       "PHASESCOPE_GOLDEN")
    notes = defaultdict(dict)
    for case in cases:
        for key, value in case.items():
            kind, *rest = key.split("|")
            if rest:
                known = notes[kind].get(tuple(rest))
                notes[kind][tuple(rest)] = value if known is None else worse(known, value)
    return notes


def worse(a, b):
    """The larger of two numbers as text; anything that is no number is worst."""
    try:
        return a if not float(a) < float(b) else b
    except ValueError:
        return a


def costs_of(program):
    say("counting the costs of the paper's configurations")
    costs = {}
    for path in sorted((ROOT / "sample_configs" / "paper").glob("*_155m.json")):
        command = [str(program), "cost", str(path), "--length", "1024", "--json"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              env=build.environment())
        if done.returncode != 0:
            raise DevError(f"{' '.join(command)} ended with {done.returncode}")
        costs[path.stem.removesuffix("_155m")] = json.loads(done.stdout)
    return costs


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def number(text):
    if not text or float(text) == 0:
        return text
    return f"{float(text):.1e}"


def errors(notes, beginning):
    """{(what, file): {dtype: error}} of the references whose names begin so: one text or a tuple."""
    found = defaultdict(dict)
    for (what, file, dtype), value in notes["parity"].items():
        if file.startswith(beginning):
            found[what, file][dtype] = value
    return found


def families(notes):
    cases = defaultdict(list)
    for (family, file), by_dtype in errors(notes, "hf/").items():
        cases[family].append((Path(file).name, by_dtype))
    rows = []
    for family, list_ in sorted(cases.items()):
        worst = [max((by_dtype[dtype] for _, by_dtype in list_ if dtype in by_dtype), key=float, default="")
                 for dtype in ("f64", "f32")]
        rows.append([family, *map(number, worst), ", ".join(sorted(name for name, _ in list_))])
    return ("## Families of checkpoints\n\nAgainst Hugging Face transformers: whole models, every layer's "
            "hidden states and weights, both dialects of config.json.\n\n"
            + table(["family", "f64", "f32", "cases"], rows))


def encodings(notes):
    rows = [[what, number(by_dtype.get("f64", "")), number(by_dtype.get("f32", "")), file]
            for (what, file), by_dtype in sorted(errors(notes, ("papers/", DEFINITION)).items())]
    return ("## Encodings\n\nAgainst the papers' public code: whole models (`tape/`), single layers (`dape/`, "
            "`ape/`); against float64 references of their formulas (`reference/`); and, where no file of "
            "others is about one, against its definition written out entry by entry. Learned tables are "
            "those of gpt2, opt and bert above.\n\n"
            + table(["encoding", "f64", "f32", "reference"], rows))


def left_out(notes):
    left = {key: why for key, why in notes["left out"].items() if key not in notes["compared"]}
    read = {file for _, file, _ in notes["parity"]}
    left.update(UNREAD)
    left.update({(file, ALL): "no test of models compares it"
                 for file in layer_references() if file not in read})
    rows = [[*key, REASONS.get(key, why)] for key, why in sorted(left.items())]
    return "## Not compared\n\n" + table(["reference", "tensor", "why"], rows)


def layer_references():
    """The references of single layers, wherever tests find them (tests/golden_folder.h)."""
    roots = [ROOT / "tests" / "data", ROOT.parent / "shared" / "golden"]
    if os.environ.get("PHASESCOPE_GOLDEN"):
        roots.append(Path(os.environ["PHASESCOPE_GOLDEN"]))
    return sorted({str(path.relative_to(root)) for root in roots
                   for path in root.glob("papers/*/*.safetensors")})


def shifts(notes):
    rows = [[encoding, name, "refused" if value == "refused" else number(value),
             "" if value == "refused" else "changes" if float(value) > 1e-3 else "the same"]
            for (encoding, name), value in sorted(notes["shift"].items())]
    return ("## A shift of all position ids by 1000\n\nThe largest change of the logits of a small model of "
            "random weights in float64, for every encoding and choice of its options. `refused`: an error, "
            "since such a position is not there.\n\n" + table(["encoding", "case", "change", ""], rows))


def cost_table(costs):
    def counts(count):
        return f"{count['flops'] / 1e9:.2f} / {count['macs'] / 1e9:.2f} / {count['parameters'] / 2**20:.2f}"

    rows = []
    for name, cost in sorted(costs.items(), key=lambda item: (item[0] not in PUBLISHED, item[0])):
        published = " / ".join(f"{value:.2f}" for value in PUBLISHED[name]) if name in PUBLISHED else ""
        rows.append([name, published, counts(cost["published"]), counts(cost["executed"])])
    return ("## Cost of the 155M models\n\nOne forward pass of 1024 tokens, from `sample_configs/paper/*_155m.json` "
            "alone: GFLOPs / GMACs / parameters in 2^20. Published: TAPE (arXiv 2501.00712), Table 3. By its "
            "conventions: full N x N attention, an untied head, TAPE's state as two streams of full width, "
            "without its post-attention linear. Executed: what runs here, causal pairs and half the state.\n\n"
            + table(["encoding", "published", "by its conventions", "executed"], rows))
