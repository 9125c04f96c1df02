"""./dev new KIND NAME: the files of a new thing from templates, and its lines in lists that exist."""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from .console import DevError, say
from .paths import CLANG_FORMAT, ROOT

TEMPLATES = Path(__file__).resolve().parent / "templates"
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass
class Line:
    """A line of a list: it goes before the first of those that match `among` and sort after it, or behind
    the last of them; without `ordered` behind the last."""
    path: str
    among: str
    text: str
    ordered: bool = False


@dataclass
class Kind:
    files: dict  # template -> place
    lines: list
    left: list = field(default_factory=list)  # what is still to be done by hand


def include(path, folder, name, ending=""):
    return Line(path, rf'^#include "{folder}/\w+{ending}\.h"$', f'#include "{folder}/{name}{ending}.h"', ordered=True)


def source(path, folder, name, indent=4):
    return Line(path, rf"^ {{{indent}}}{folder}/\w+\.cpp$", f"{' ' * indent}{folder}/{name}.cpp", ordered=True)


KINDS = {
    "encoding": Kind(
        {"encoding.h": "model/encodings/NEW_NAME.h", "encoding.cpp": "model/encodings/NEW_NAME.cpp",
         "encoding_test.cpp": "tests/model/encodings/NEW_NAME_test.cpp"},
        [include("model/encodings.cpp", "model/encodings", "NEW_NAME"),
         Line("model/encodings.cpp", r"^ +(\w+_entry\(\), *)+$", "      NEW_NAME_entry(),"),
         source("model/CMakeLists.txt", "encodings", "NEW_NAME"),
         source("tests/model/CMakeLists.txt", "encodings", "NEW_NAME_test")],
        ["the score, its formula and its source in model/encodings/NEW_NAME.cpp",
         "a parity test in tests/model, against a reference made with other people's code",
         "a row of tests/model/encodings/shift_test.cpp: what a shift of all positions does",
         "run configurations in sample_configs/desk and sample_configs/paper",
         "./dev docs writes docs/registered.md, with what is in docs/images/encodings/NEW_NAME"]),
    "family": Kind(
        {"family.h": "model/families/NEW_NAME.h", "family.cpp": "model/families/NEW_NAME.cpp",
         "family_test.cpp": "tests/model/NEW_NAME_family_test.cpp"},
        [include("model/families/families.cpp", "model/families", "NEW_NAME"),
         Line("model/families/families.cpp", r"^      \w+_family\(\),$", "      NEW_NAME_family(),"),
         source("model/CMakeLists.txt", "families", "NEW_NAME"),
         Line("tests/model/CMakeLists.txt", r"^    \w+_test\.cpp$", "    NEW_NAME_family_test.cpp", ordered=True)],
        ["names of tensors and keys in model/families/NEW_NAME.cpp",
         "a checkpoint and its logits, made with other people's code, in tests/data/hf",
         "./dev docs writes docs/registered.md; README.md says how many families there are"]),
    "check": Kind(
        {"check.h": "analysis/theory/NEW_NAME.h", "check.cpp": "analysis/theory/NEW_NAME.cpp",
         "check_test.cpp": "tests/analysis/theory_NEW_NAME_test.cpp"},
        [include("analysis/theory/registry.cpp", "analysis/theory", "NEW_NAME"),
         Line("analysis/theory/registry.cpp", r"^      \w+\(\),$", "      NEW_NAME(),"),
         source("analysis/CMakeLists.txt", "theory", "NEW_NAME"),
         Line("tests/analysis/CMakeLists.txt", r"^    \w+_test\.cpp$", "    theory_NEW_NAME_test.cpp", ordered=True)],
        ["statement, measure and verdict in analysis/theory/NEW_NAME.cpp (its id is PAPER.NAME)",
         "./dev docs writes docs/theory.md; README.md says how many statements there are"]),
    "task": Kind(
        {"task.cpp": "tasks/NEW_NAME.cpp", "task_test.cpp": "tests/tasks/NEW_NAME_test.cpp"},
        [Line("tasks/factories.h", r"^std::unique_ptr<Task> \w+\(\);$", "std::unique_ptr<Task> NEW_NAME();"),
         Line("tasks/tasks.cpp", r"^      addition, .*,$", "      NEW_NAME,"),
         Line("tasks/CMakeLists.txt", r"^    \w+\.cpp$", "    NEW_NAME.cpp", ordered=True),
         Line("tests/tasks/CMakeLists.txt", r"^(  SOURCES tasks_test\.cpp.*|    \w+_test\.cpp)$",
              "    NEW_NAME_test.cpp")],
        ["what is drawn and asked in tasks/NEW_NAME.cpp",
         "samples of the public code in tests/data/tasks",
         "a run configuration in sample_configs/desk",
         "./dev docs writes docs/registered.md"]),
    "verb": Kind(
        {"verb.cpp": "app/verbs/NEW_NAME.cpp", "verb_test.cpp": "tests/app/NEW_NAME_verb_test.cpp"},
        [Line("app/verbs/factories.h", r"^std::unique_ptr<Verb> \w+_verb\(\);$",
              "std::unique_ptr<Verb> NEW_NAME_verb();"),
         Line("app/verbs/factories.h", r"^ +(\w+_verb, *)+$", "    NEW_NAME_verb,"),
         source("app/CMakeLists.txt", "verbs", "NEW_NAME"),
         Line("tests/app/CMakeLists.txt", r"^    \w+_test\.cpp( \w+_test\.cpp)*$",
              "    NEW_NAME_verb_test.cpp", ordered=True)],
        ["help, options (those of its request) and output in app/verbs/NEW_NAME.cpp",
         "./dev docs writes docs/verbs.md"]),
    "view": Kind(
        {"view.h": "app/views/NEW_NAME_view.h", "view.cpp": "app/views/NEW_NAME_view.cpp",
         "view_test.cpp": "tests/app/NEW_NAME_view_test.cpp"},
        [include("app/views/views.cpp", "app/views", "NEW_NAME", "_view"),
         Line("app/views/views.cpp", r"^  views\.push_back\(std::make_unique<\w+>\(\)\);$",
              "  views.push_back(std::make_unique<NewNameView>());"),
         source("app/CMakeLists.txt", "views", "NEW_NAME_view", indent=2),
         Line("tests/app/CMakeLists.txt", r"^    (worker_requests|\w+_view)_test\.cpp( \w+_test\.cpp)*$",
              "    NEW_NAME_view_test.cpp")],
        ["what it asks, shows and saves in app/views/NEW_NAME_view.cpp",
         "./dev looks --update takes its picture for right, once it was looked at"]),
    "question": Kind(
        {"question.h": "analysis/questions/NEW_NAME.h", "question.cpp": "analysis/questions/NEW_NAME.cpp",
         "question_messages.h": "protocol/messages/NEW_NAME.h",
         "question_test.cpp": "tests/analysis/NEW_NAME_test.cpp"},
        [Line("analysis/questions/registry.cpp", r'^       "[^"]*", "[^"]*", "[^"]*"\},$',
              '      {"NEW_NAME", "write me?", "write me", "write me", "", ""},'),
         source("analysis/CMakeLists.txt", "questions", "NEW_NAME"),
         Line("tests/analysis/CMakeLists.txt", r"^    \w+_test\.cpp$", "    NEW_NAME_test.cpp", ordered=True)],
        ["what is measured in analysis/questions/NEW_NAME.cpp, and its row in registry.cpp there",
         "its handler in worker/handle_questions.cpp",
         "its verb: ./dev new verb NEW_NAME", "its figures in app/figures/NEW_NAME_figures.cpp",
         "its tables in app/outputs/question_output.cpp, its line in tests/protocol/results_page_test.cpp",
         "./dev docs writes docs/questions.md, docs/results.md and docs/protocol.md"]),
}


def new(kind, name, remove=False):
    if not NAME.fullmatch(name):
        raise DevError(f'"{name}" is no name here: small letters, digits and single _ between them', 2)
    said = take_away(kind, name) if remove else make(kind, name)
    for line in said:
        say(line)
    return 0


def make(kind, name):
    """Writes the files and lines; what is left to do. Nothing is written where anything stands in the way."""
    files = {ROOT / place: text for place, text in contents(kind, name).items()}
    for path in files:
        if path.exists():
            raise DevError(f"{path.relative_to(ROOT)} is there already", 2)
    lists = with_lines(kind, name)
    for path, text in {**files, **lists}.items():
        path.write_text(text, encoding="utf-8")
    tidy([*files, *lists])
    said = [f"wrote {path.relative_to(ROOT)}" for path in files]
    said += [f"added a line to {path.relative_to(ROOT)}" for path in lists]
    return said + ["left to do: " + renamed(line, name) for line in KINDS[kind].left] + [
        f"./dev new {kind} {name} --remove takes all of it back"]


def take_away(kind, name):
    """Deletes the files and lines. Throws DevError where somebody has worked on one of the files."""
    files = {ROOT / place: text for place, text in contents(kind, name).items()}
    for path, text in files.items():
        if not path.exists():
            raise DevError(f"{path.relative_to(ROOT)} is not there", 2)
        if bare(path.read_text(encoding="utf-8")) != bare(text):
            raise DevError(f"{path.relative_to(ROOT)} is no longer as it was made; delete it yourself first", 2)
    lists = without_lines(kind, name)
    for path in files:
        path.unlink()
    for path, text in lists.items():
        path.write_text(text, encoding="utf-8")
    tidy(lists)
    return [f"deleted {path.relative_to(ROOT)}" for path in files]


def bare(text):
    """Without what clang-format moves: spaces, and where it breaks texts and comments that are too long."""
    return re.sub(r'[\s"/]', "", text)


def renamed(text, name):
    return text.replace("NEW_NAME", name).replace("NewName", "".join(part.title() for part in name.split("_")))


def contents(kind, name):
    """{place: text} of the files that are the thing's own."""
    return {renamed(place, name): renamed((TEMPLATES / template).read_text(encoding="utf-8"), name)
            for template, place in KINDS[kind].files.items()}


def with_lines(kind, name):
    """{path: text} of the lists, with the thing's lines."""
    texts = {}
    for line in KINDS[kind].lines:
        path = ROOT / line.path
        texts[path] = inserted(texts.get(path) or path.read_text(encoding="utf-8"), line, renamed(line.text, name))
    return texts


def inserted(text, line, words):
    lines = text.splitlines(keepends=True)
    places = [number for number, one in enumerate(lines) if re.match(line.among, one.rstrip("\n"))]
    if not places:
        raise DevError(f"{line.path} has no line like {line.among}; tools/dev_tool/new.py expects one")
    at = places[-1] + 1
    if line.ordered:
        at = next((number for number in places if lines[number].rstrip("\n") > words), at)
    return "".join([*lines[:at], words + "\n", *lines[at:]])


def without_lines(kind, name):
    texts = {}
    for line in KINDS[kind].lines:
        path = ROOT / line.path
        texts[path] = removed(texts.get(path) or path.read_text(encoding="utf-8"), line, renamed(line.text, name))
    return texts


def removed(text, line, words):
    """Without the line or, where clang-format has put it beside others, without its words."""
    if f"\n{words}\n" in text:
        return text.replace(f"\n{words}\n", "\n", 1)
    parts = re.split(rf"(?<![\w]){re.escape(words.strip())}[ ]*(?=\S)|[ ]*(?<![\w]){re.escape(words.strip())}(?=\n)",
                     text)
    if len(parts) != 2:
        raise DevError(f"{line.path} no longer has the line {words.strip()}; take it out yourself")
    return "".join(parts)


def tidy(paths):
    """Lists in columns are as clang-format makes them, and so are files whose name made lines longer."""
    sources = [path for path in paths if path.suffix in (".h", ".cpp")]
    if CLANG_FORMAT.exists() and sources:
        subprocess.run([CLANG_FORMAT, "-i", "--style=file:" + str(ROOT / ".clang-format"), *sources], check=True)
