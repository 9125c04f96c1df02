"""./dev bench --import FILE: what a GPU machine has said (tools/device/first_minutes.py) becomes a section of
docs/benchmarks.md and, when all passed, lines of the list of verified kernels."""

import json
import os
import re

from . import build
from .console import DevError, clear_progress, say
from .first_window import PROGRAM
from .paths import ROOT, write_mark

LIST = ROOT / "kernels" / "cuda" / "verified.inc"
PAGE = ROOT / "docs" / "benchmarks.md"
FORMAT = 1
# A line has a score's name and, last, its passes on CUDA.
SCORES = ROOT / "kernels" / "variants" / "scores.inc"
SCORE = re.compile(r'^PHASESCOPE_SCORE\((\w+),.*"([a-z_ ]*)"\)$', re.MULTILINE)
# A kind of problems, and the score whose kernels it runs.
KIND = re.compile(r"^PHASESCOPE_KIND\((\w+), (\w+)\)$", re.MULTILINE)
KIND_LIST = ROOT / "kernels" / "problems" / "kinds.inc"


def with_kinds(*has, prefix="", suffix=""):
    """{kernel: kinds that run it} of the scores that have one of these passes; a form of its own has kinds of its own,
    which have its prefix."""
    kinds = KIND.findall(KIND_LIST.read_text(encoding="utf-8"))
    return {prefix + name + suffix: {prefix + kind for kind, score in kinds if score == name}
            for name, words in SCORE.findall(SCORES.read_text(encoding="utf-8")) if set(has) & set(words.split())}


KINDS = {**with_kinds("forward", "own_forward"), **with_kinds("wide", suffix="_wide")}
# The Hopper form's likewise; each is verified by its own tests, and is not waited for.
FORM_OF_HOPPER = "hopper_"
HOPPER = with_kinds("hopper", prefix=FORM_OF_HOPPER)


def take(words):
    if len(words) != 1:
        raise DevError("./dev bench --import takes one file, the result.json of a GPU machine", 2)
    result = read(words[0])
    doubts = doubts_of(result)
    capability = result["device"]["capability"]
    if doubts:
        say(f"no kernel counts as verified: {'; '.join(doubts)}")
    else:
        names = set(KINDS) | passed_in_hopper_form(result)
        write_mark(LIST, with_kernels(LIST.read_text(encoding="utf-8"), capability, names))
        say(f"verified on {result['device']['name']} ({capability / 10:.1f}): {', '.join(sorted(names))}; "
            f"{LIST.relative_to(ROOT)} has them; ./dev roofline lets docs/cuda.md say so")
    for line in said_of_models(result.get("models", {})):
        say(line)
    return show(words[0])


def said_of_models(step):
    """A line for each whole model that was timed there, or was not."""
    rows = [row for table in step.get("tables", {}).values() for row in table["rows"]]
    return [f"{row['name']} on {row['device']}: {row['tokens_per_second']:,.0f} tokens a second, "
            f"{row['to_device']} copies to the device and {row['to_host']} back, attention by {row['kernel']}"
            for row in rows] + [f"{name} {why.splitlines()[0]}" for name, why in step.get("failures", {}).items()]


def read(path):
    """The result; a DevError for what is none, or is of the emulation."""
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    except (OSError, ValueError) as error:
        raise DevError(f"{path} cannot be read: {error}") from None
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        raise DevError(f"{path} is no result of first_minutes.py, or of another version of it")
    if result.get("emulated") is not False:
        raise DevError(f"{path} is of the kernels' emulation, which says nothing of a device")
    if not isinstance(result.get("device", {}).get("capability"), int):
        raise DevError(f"{path} does not say which device it is of")
    return result


def doubts_of(result):
    """Why the kernels are not verified by it; none where all of it passed. Machine code that could not be looked at
    (no cuobjdump) is no doubt: what counts is what the device did."""
    doubts = []
    if result.get("bundle", {}).get("changed") is not False:
        doubts.append("the programs were built from changed sources")
    kinds = result.get("tests", {}).get("kinds", {})
    wanted = set().union(*KINDS.values()) | {"checks"}
    if missing := sorted(wanted - set(kinds)):
        doubts.append(f"no tests of {', '.join(missing)}")
    if unknown := sorted(set(kinds) - wanted - set().union(*HOPPER.values())):
        doubts.append(f"tests of {', '.join(unknown)}, which no kernel is known for")
    if bad := sorted(kind for kind in wanted & set(kinds) if not whole(kinds[kind])):
        doubts.append(f"tests of {', '.join(bad)} did not all pass")
    for name in ("tests", "sanitizers", "times"):
        step = result.get(name, {})
        if step.get("passed") is not True:
            doubts.append(step.get("absent") or said_by_tools(step) or f"{name} did not pass")
    if result.get("machine_code", {}).get("passed") is False:
        doubts.append("the machine code of plain spills")
    return doubts


def said_by_tools(step):
    """Of sanitizers, which of them found an error and which did not come to an end."""
    return ", ".join(f"{name} {one.get('said', 'did not pass')}" for name, one in step.get("tools", {}).items()
                     if not one["passed"] and not name.startswith(FORM_OF_HOPPER))


def passed_in_hopper_form(result):
    """The kernels whose tests all ran and passed, where the sanitizers found nothing in any."""
    kinds, tools = result["tests"]["kinds"], result["sanitizers"].get("tools", {})
    found = [one["passed"] for name, one in tools.items() if name.startswith(FORM_OF_HOPPER)]
    if not found or not all(found):
        return set()
    return {name for name, wanted in HOPPER.items() if all(whole(kinds.get(kind, {})) for kind in wanted)}


def whole(counts):
    return counts.get("passed", 0) > 0 and not any(counts.get(word, 1) for word in ("failed", "skipped", "unfinished"))


def with_kernels(text, capability, names):
    """The list with these kernels of this architecture, and those of others as they were."""
    comment = [line for line in text.splitlines() if line.startswith("//")]
    pairs = {(name, int(number)) for name, number in re.findall(r'\{"(\w+)", (\d+)\}', text)}
    pairs = {pair for pair in pairs if pair[1] != capability} | {(name, capability) for name in names}
    lines = [f'{{"{name}", {number}}},' for name, number in sorted(pairs, key=lambda pair: (pair[1], pair[0]))]
    return "\n".join(comment + lines) + "\n"


def show(path):
    """Becomes phasescope, which writes the page."""
    build.build("release", ["phasescope"], tests=False)
    clear_progress()
    os.execv(PROGRAM, [str(PROGRAM), "bench", "kernels", "--import", str(path), "--write", str(PAGE)])
