#!/usr/bin/env python3
"""Makes the bundled long texts, assets/texts/long.jsonl, from a Debian package.

    apt-get install --no-install-recommends r-cran-janeaustenr
    python3 tools/make_long_texts.py

or, without R, `apt-get download r-cran-janeaustenr`, `dpkg-deb -x FILE.deb ROOT` and `--root ROOT`.
The package holds the six novels of Jane Austen (public domain) line by line, in R's own form of data.

Nothing here is random: the same package version gives the same bytes. A text begins with a chapter, and
ends with the paragraph that makes it long enough for 8192 tokens of up to 4.5 bytes. The training text
has nothing of them.
"""

import argparse
import gzip
import hashlib
import json
import re
import struct
import sys
import zlib
from pathlib import Path

DATA = "usr/lib/R/site-library/janeaustenr/data/Rdata"
NOVELS = {"sensesensibility": "Sense and Sensibility", "prideprejudice": "Pride and Prejudice",
          "mansfieldpark": "Mansfield Park", "emma": "Emma", "northangerabbey": "Northanger Abbey",
          "persuasion": "Persuasion"}
TEXTS_A_NOVEL = 4
TEXT_BYTES = 36900  # of a text, at least
SHA256 = "f8d0eccfebc6dd170ba908db95b62d9837abb79b2026447c18e1a26a02f29ea3"
CHAPTER = re.compile(r"chapter [0-9ivxl]+\.?", re.I)

PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2014": "--",
                       "\u00a0": " "})


class RData:
    """Reads what R writes with serialize(), XDR form: strings, whole numbers and lists of them."""

    CHARACTERS, LIST, STRING, NIL, PAIRS, SYMBOL = 16, 19, 9, 254, 2, 1
    INTEGERS = 13, 10  # and truth values

    def __init__(self, data):
        self.data, self.at, self.symbols = data, 2, []
        if data[:2] != b"X\n":
            raise ValueError("not in R's XDR form")
        version = struct.unpack(">i", data[2:6])[0]
        self.at = 14
        if version == 3:
            self.at += 4 + self.integer_at(14)

    def integer_at(self, place):
        return struct.unpack(">i", self.data[place:place + 4])[0]

    def integer(self):
        self.at += 4
        return self.integer_at(self.at - 4)

    def value(self):
        flags = self.integer()
        kind, attributes = flags & 255, flags & 512
        if kind == self.NIL:
            return None
        if kind == self.STRING:
            size = self.integer()
            self.at += max(size, 0)
            return self.data[self.at - size:self.at].decode() if size >= 0 else None
        if kind == self.SYMBOL:
            self.symbols.append(self.value())
            return self.symbols[-1]
        if kind == 255:  # a symbol that was there before
            return self.symbols[(flags >> 8) - 1]
        if kind == self.PAIRS:
            own = self.value() if attributes else None
            tag = self.value() if flags & 1024 else own
            first = {tag: self.value()}
            return {**first, **(self.value() or {})}
        if kind in (self.CHARACTERS, self.LIST):
            items = [self.value() for _ in range(self.integer())]
        elif kind in self.INTEGERS:
            items = [self.integer() for _ in range(self.integer())]
        else:
            raise ValueError(f"R's type {kind} is not read here")
        names = (self.value() or {}).get("names") if attributes else None
        return dict(zip(names, items)) if names else items


def read_novels(root):
    """{name: lines}."""
    data = root / DATA
    try:
        index = RData(gzip.decompress(data.with_suffix(".rdx").read_bytes())).value()["variables"]
        objects = data.with_suffix(".rdb").read_bytes()
    except OSError as error:
        sys.exit(f"make_long_texts: {error}; install r-cran-janeaustenr")
    return {name: RData(zlib.decompress(objects[begin + 4:begin + size])).value()
            for name, (begin, size) in index.items() if name in NOVELS}


def paragraphs(lines):
    """Paragraphs, their lines joined; a chapter's heading is one."""
    joined = "\n".join(line.translate(PLAIN).strip() for line in lines)
    return [" ".join(piece.split()) for piece in re.split(r"\n{2,}", joined) if piece.strip()]


def long_enough(pieces, begin):
    """Where a text that begins there ends; None where the novel ends before."""
    size = 0
    for end in range(begin, len(pieces)):
        size += len(pieces[end].encode()) + 2
        if size > TEXT_BYTES:
            return end + 1
    return None


def texts_of(name, lines):
    """The novel's texts, evenly spread over its chapters, none overlapping."""
    pieces = paragraphs(lines)
    chapters = [i for i, piece in enumerate(pieces) if CHAPTER.fullmatch(piece)]
    chapters = [i for i in chapters if long_enough(pieces, i)]
    texts, free = [], 0
    for place in range(TEXTS_A_NOVEL):
        wanted = chapters[place * len(chapters) // TEXTS_A_NOVEL]
        begin = next(i for i in chapters if i >= max(wanted, free))
        free = long_enough(pieces, begin)
        number = 1 + chapters.index(begin)
        texts.append({"name": f"{NOVELS[name]}, from chapter {number}", "source": "austen",
                      "text": "\n\n".join(pieces[begin:free]) + "\n"})
    return texts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, default=Path("/"),
                        help="where the package is unpacked (default: the machine's own)")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent /
                        "assets/texts/long.jsonl")
    options = parser.parse_args()
    novels = read_novels(options.root)
    texts = [text for name in NOVELS for text in texts_of(name, novels[name])]
    lines = "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts).encode()
    options.out.write_bytes(lines)
    made = hashlib.sha256(lines).hexdigest()
    print(f"{options.out}: {len(texts)} texts, {len(lines)} bytes, sha256 {made}")
    if made != SHA256:
        sys.exit(f"make_long_texts: differs from what is bundled, sha256 {SHA256}")


if __name__ == "__main__":
    main()
