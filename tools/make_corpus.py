#!/usr/bin/env python3
"""Makes the training corpus and the bundled validation texts from four Debian packages.

    apt-get install bible-kjv bible-kjv-text jargon-text fortunes fortunes-min
    python3 tools/make_corpus.py --out .cache/corpus

writes OUT/train.txt and OUT/validation.jsonl, prints the SHA-256 of train.txt and compares all of it
with assets/texts/corpus.json. With --update it writes assets/texts/ anew instead.

Nothing here is random: the same package versions give the same bytes. Validation texts are whole
passages, taken out of the training text. They come from the two sources in the public domain alone.
"""

import argparse
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "bible-kjv": "Program that prints the text (GPL-2+, only run, nothing of it is copied)",
    "bible-kjv-text": "King James Version of the Bible, public domain (copyright expired)",
    "jargon-text": "The Jargon File 4.4.7, public domain",
    "fortunes": "Fortune cookies, BSD-3-clause as a collection",
    "fortunes-min": "Fortune cookies, BSD-3-clause as a collection",
}
JARGON = "usr/share/doc/jargon-text/jargon.txt.gz"
FORTUNES = "usr/share/games/fortunes"
# Pictures, other languages, and collections that are mostly slurs.
FORTUNES_LEFT_OUT = {"ascii-art", "translate-me", "ethnic", "men-women"}

VALIDATION_BYTES = 4200  # of a text, at least: windows of 4096 tokens of one text exist
VALIDATION_COUNTS = {"bible": 46, "jargon": 24}
SHINGLE_WORDS = 10
SHARED_LIMIT = 0.03  # of a validation text's shingles that may occur in the rest of the corpus

COARSE = re.compile("fuck|shit|cunt|bitch", re.I)  # not in the texts that are bundled

DEFAULT_TEXT = ("Eccl", 3, 1, 15)  # book, chapter, first and last verse

PLAIN = str.maketrans({
    "\u2018": "'", "\u2019": "'", "\u00b4": "'", "\u201c": '"', "\u201d": '"', "\u2014": "--",
    "\u2013": "-", "\u2212": "-", "\u00a0": " ", "\u2022": "*", "\u2192": "->", "\u2026": "...",
    "\u3008": "<", "\u3009": ">", "\r": None, "\f": None, "\0": None,
})


def decode(raw):
    """UTF-8 where a line is, Latin-1 where it is not."""
    lines = []
    for line in raw.split(b"\n"):
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            lines.append(line.decode("latin-1"))
    return "\n".join(lines)


def without_overstrikes(text):
    """Carries out the backspaces: '___<BS><BS><BS>not' becomes 'not'."""
    kept = []
    for char in text:
        if char != "\b":
            kept.append(char)
        elif kept and kept[-1] != "\n":
            kept.pop()
    return "".join(kept)


def plain(text):
    """Typographic quotes and dashes in ASCII, no control characters, no blanks at line ends."""
    text = text.translate(PLAIN)
    text = re.sub(r"[\x01-\x08\x0b-\x1f\x7f-\x9f]", "", text)
    text = re.sub(r"[ \t]+\n", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def read_bible(root):
    """A list of (book, chapter, verse, text)."""
    program = root / "usr/bin/bible"
    data = root / "usr/lib"
    try:
        out = subprocess.run([str(program), "-p", str(data), "-f", "gen1:1-rev22:21"], check=True,
                             stdin=subprocess.DEVNULL, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"make_corpus: cannot run {program}: {error}; install bible-kjv, bible-kjv-text")
    verses = []
    for line in decode(out).splitlines():
        match = re.match(r"([1-3]?[A-Za-z]+)(\d+):(\d+) (.+)$", line)
        if match:
            verses.append((match[1], int(match[2]), int(match[3]), plain(match[4])))
    return verses


def read_jargon(root):
    """A list of (name, text), one a chapter section or lexicon entry, without the tables of contents."""
    path = root / JARGON
    try:
        text = decode(gzip.decompress(path.read_bytes()))
    except OSError as error:
        sys.exit(f"make_corpus: {error}; install jargon-text")
    lines = [line for line in text.split("\n") if not re.search("[\u2500-\u257f]", line)]
    lines = [line[3:] if line.startswith("   ") else line for line in lines]
    welcome = [i for i, line in enumerate(lines) if line.strip() == "Welcome to the Jargon File"][1]
    glossary = lines.index("Glossary")
    lexicon = next(i for i in range(glossary, len(lines)) if lines[i].startswith(":(TM):"))
    pieces, name, piece = [], "Welcome", []
    for line in lines[welcome:glossary] + [""] + lines[lexicon:]:
        heading = re.match(r":([^:].*?):( |$)|((?:Chapter|Appendix) \w+\.)", line)
        if heading and piece:
            pieces.append((name, plain("\n".join(piece))))
            piece = []
        if heading:
            name = heading[1] or heading[3]
        piece.append(line)
    pieces.append((name, plain("\n".join(piece))))
    return [(name, text) for name, text in pieces if text]


def read_fortunes(root):
    """A list of cookies."""
    folder = root / FORTUNES
    names = sorted(p.name for p in folder.glob("*")
                   if p.is_file() and not p.is_symlink() and not p.suffix)
    if not names:
        sys.exit(f"make_corpus: no fortunes in {folder}; install fortunes, fortunes-min")
    cookies = []
    for name in names:
        if name in FORTUNES_LEFT_OUT:
            continue
        text = without_overstrikes(decode((folder / name).read_bytes()))
        cookies += [plain(cookie) for cookie in re.split(r"(?m)^%\n?", text)]
    return [cookie for cookie in cookies if cookie]


def join_verses(verses):
    """Verses one a line, chapters parted by an empty line."""
    lines = []
    for before, verse in zip([None] + verses[:-1], verses):
        if before and before[:2] != verse[:2]:
            lines.append("")
        lines.append(verse[3])
    return "\n".join(lines)


def blocks(items, join, boundary):
    """Runs (start, stop) of items, each long enough for a validation text, none across a boundary."""
    runs, start = [], 0
    for stop in range(1, len(items) + 1):
        if len(join(items[start:stop]).encode()) >= VALIDATION_BYTES:
            runs.append((start, stop))
            start = stop
        elif stop < len(items) and boundary(items[stop - 1], items[stop]):
            start = stop
    return runs


def shingles(text):
    words = text.lower().split()
    return [hash_of(words[i:i + SHINGLE_WORDS]) for i in range(len(words) - SHINGLE_WORDS + 1)]


def hash_of(words):
    return int.from_bytes(hashlib.blake2b(" ".join(words).encode(), digest_size=8).digest(), "big")


def shingle_counts(texts):
    counts = {}
    for text in texts:
        for shingle in shingles(text):
            counts[shingle] = counts.get(shingle, 0) + 1
    return counts


def fit_to_show(text, counts):
    """Whether the text is clean and little of it occurs elsewhere in the corpus."""
    if COARSE.search(text):
        return False
    own = {}
    for shingle in shingles(text):
        own[shingle] = own.get(shingle, 0) + 1
    shared = sum(n for shingle, n in own.items() if counts[shingle] > n)
    return shared <= SHARED_LIMIT * sum(own.values())


def choose(runs, count, accept):
    """`count` runs evenly spread; one that is not accepted gives way to the next."""
    chosen = []
    for place in range(count):
        begin, end = place * len(runs) // count, (place + 1) * len(runs) // count
        run = next((run for run in runs[begin:end] if accept(run)), None)
        if run:
            chosen.append(run)
    return chosen


def without(items, runs):
    """The items split into the stretches between the runs."""
    stretches, at = [], 0
    for start, stop in sorted(runs):
        stretches.append(items[at:start])
        at = stop
    return [stretch for stretch in stretches + [items[at:]] if stretch]


def build(root):
    """(train text, validation records, default text, sizes by source)."""
    verses, entries, cookies = read_bible(root), read_jargon(root), read_fortunes(root)
    book, chapter, first, last = DEFAULT_TEXT
    inside = [i for i, v in enumerate(verses) if v[:2] == (book, chapter) and first <= v[2] <= last]
    default_run = (inside[0], inside[-1] + 1)
    default_text = join_verses(verses[slice(*default_run)]) + "\n"

    def join_entries(some):
        return "\n\n".join(text for _, text in some)

    counts = shingle_counts([join_verses(verses), join_entries(entries), "\n\n".join(cookies)])
    sources = {
        "bible": (verses, join_verses, lambda a, b: a[0] != b[0],
                  lambda some: f"{some[0][0]} {some[0][1]}:{some[0][2]} - {some[-1][1]}:{some[-1][2]}"),
        "jargon": (entries, join_entries, lambda a, b: False,
                   lambda some: f"{some[0][0]} ... {some[-1][0]}" if len(some) > 1 else some[0][0]),
    }
    validation, train, sizes = [], [], {}
    for source, (items, join, boundary, name) in sources.items():
        def accept(run):
            free = source != "bible" or run[1] <= default_run[0] or run[0] >= default_run[1]
            return free and fit_to_show(join(items[slice(*run)]), counts)
        chosen = choose(blocks(items, join, boundary), VALIDATION_COUNTS[source], accept)
        for run in chosen:
            some = items[slice(*run)]
            validation.append({"name": name(some), "source": source, "text": join(some) + "\n"})
        taken = chosen + ([default_run] if source == "bible" else [])
        text = "\n\n".join(join(stretch) for stretch in without(items, taken)) + "\n"
        sizes[source] = len(text.encode())
        train.append(text)
    train.append("\n\n".join(cookies) + "\n")
    sizes["fortunes"] = len(train[-1].encode())
    return "\n".join(train), validation, default_text, sizes


def package_versions():
    versions = {}
    for package in PACKAGES:
        out = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package],
                             capture_output=True, text=True, check=False).stdout.strip()
        versions[package] = out or "not known"
    return versions


def describe(train, validation, default_text, sizes):
    def entry(name, data):
        return {"file": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return {
        "made_by": "tools/make_corpus.py",
        "train": {**entry("train.txt", train), "bytes_by_source": sizes},
        "validation": {**entry("validation.jsonl", validation[1]), "texts": len(validation[0]),
                       "shortest_bytes": min(len(v["text"].encode()) for v in validation[0]),
                       "text_bytes": sum(len(v["text"].encode()) for v in validation[0])},
        "default": entry("default.txt", default_text),
        "packages": [{"package": package, "version": version, "licence": PACKAGES[package]}
                     for package, version in package_versions().items()],
    }


def differences(made, pinned):
    found = [f"{part}: sha256 {made[part]['sha256']}, pinned {pinned[part]['sha256']}"
             for part in ("train", "validation", "default")
             if made[part]["sha256"] != pinned[part]["sha256"]]
    pinned_versions = {p["package"]: p["version"] for p in pinned["packages"]}
    found += [f"{p['package']} {p['version']}, pinned with {pinned_versions.get(p['package'])}"
              for p in made["packages"]
              if found and p["version"] != pinned_versions.get(p["package"])]
    return found


def replace(path, content):
    """Writes a file whole or not at all: somebody may begin to read it, or this may be killed."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(".cache/corpus"))
    parser.add_argument("--root", type=Path, default=Path("/"),
                        help="where the packages are unpacked (default: the machine's own)")
    parser.add_argument("--update", action="store_true", help="write assets/texts/ anew")
    options = parser.parse_args()

    train_text, records, default_text, sizes = build(options.root)
    train = train_text.encode()
    lines = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode()
    made = describe(train, (records, lines), default_text.encode(), sizes)
    options.out.mkdir(parents=True, exist_ok=True)
    replace(options.out / "train.txt", train)
    replace(options.out / "validation.jsonl", lines)
    replace(options.out / "corpus.json", (json.dumps(made, indent=2) + "\n").encode())
    print(f"{options.out / 'train.txt'}: {len(train)} bytes, sha256 {made['train']['sha256']}")

    texts = Path(__file__).resolve().parent.parent / "assets" / "texts"
    if options.update:
        texts.mkdir(parents=True, exist_ok=True)
        (texts / "validation.jsonl").write_bytes(lines)
        (texts / "default.txt").write_bytes(default_text.encode())
        (texts / "corpus.json").write_text(json.dumps(made, indent=2) + "\n")
        return
    found = differences(made, json.loads((texts / "corpus.json").read_text()))
    for line in found:
        print(f"make_corpus: differs from assets/texts/corpus.json: {line}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
