#!/usr/bin/env python3
"""Writes sentence_piece_models.jsonl: small .model files whose pieces score alike, or are of every
kind, with what sentencepiece makes of texts. Needs `sentencepiece` 0.2.3: releases up to 0.2.1 add
scores in double, and 0.2.2 still writes control pieces of one character.

One line a model: {"name", "model": the file in base64, "cases": [{"text", "ids", "decoded"}]}."""

import base64
import json
import random
import struct
from pathlib import Path

import sentencepiece

UNIGRAM, BPE = 1, 2
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
BYTES = [(f"<0x{b:02X}>", 0, BYTE) for b in range(256)]
RANDOM = random.Random(4)


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def message(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def model(kind, pieces, byte_fallback=False):
    """A ModelProto without rules of normalisation and without a dummy prefix."""
    out = b"".join(message(1, message(1, text.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + bytes([what]))
                   for text, score, what in [("<unk>", 0, UNKNOWN), *pieces])
    trainer = bytes([3 << 3, kind]) + varint(35 << 3) + bytes([byte_fallback])
    return out + message(2, trainer) + message(3, bytes([3 << 3, 0, 4 << 3, 0]))


def scored(texts, what=NORMAL, size=10.0):
    return [(text, -size * RANDOM.random(), what) for text in texts]


def runs(alphabet, count=16):
    return ["".join(RANDOM.choice(alphabet) * RANDOM.choice([1, 1, 2, 5, 9]) for _ in range(RANDOM.randint(1, 7))) for _ in range(count)]


MODELS = {
    # "...." as ".", ".." and ".." in any order scores the same but for the rounding of the sums
    "unigram ties": (model(UNIGRAM, scored([".", "a", "▁"], size=8) + [("..", -3.3456789, NORMAL), ("aa", -4.7654321, NORMAL), ("aaa", -5.1234567, NORMAL), ("▁▁▁", -6.5432101, NORMAL)]), "..aa ▁"),
    "unigram user-defined": (model(UNIGRAM, scored("=-ab") + scored(["==", "==="], USER_DEFINED) + scored(["---", "a=", "b="]) + [("注意", 0, USER_DEFINED), ("ab", 0, USER_DEFINED)]), ["=", "=", "-", "a", "b", "注意", "注", "ab"]),
    # beyond 100000 the sums are counted anew: hundredths still count, which float has no room for above
    "unigram large sums": (model(UNIGRAM, [("a", -3000.3, NORMAL), ("aa", -6000.62, NORMAL), ("aaa", -9000.91, NORMAL), ("b", -3000.4, NORMAL), ("ab", -6000.69, NORMAL), ("ba", -6000.71, NORMAL)]), ["aab", "abababab", "aaaaa", "baa", "b"]),
    "unigram unused": (model(UNIGRAM, scored(["a", "ab"]) + scored(["b", "aa", "abab"], UNUSED) + scored(["c", "ca"], CONTROL)), "aabbc"),
    "bpe ties": (model(BPE, [("ab", -0.0, NORMAL), ("bc", 0.0, NORMAL), ("ca", 0.0, NORMAL), ("aa", -1, NORMAL), ("bb", -1, NORMAL), ("aab", -1, NORMAL), ("a", -2, NORMAL), ("b", -2, NORMAL), ("c", -2, NORMAL)]), "abc"),
    "bpe every kind": (model(BPE, [("ab", -1, UNUSED), ("abc", -2, NORMAL), ("ca", -1, UNUSED), ("cab", -3, UNUSED), ("a", -4, NORMAL), ("b", -4, UNUSED), ("c", -4, CONTROL), ("d", 0, USER_DEFINED), ("dd", 0, USER_DEFINED)]), "abcd"),
    "bpe bytes": (model(BPE, [("\0", -1, NORMAL), ("a", -1, NORMAL), ("b", -1, UNUSED), ("c", -1, CONTROL)] + BYTES, byte_fallback=True), "\0abcé"),
}


def main():
    with open(Path(__file__).parent / "sentence_piece_models.jsonl", "w", encoding="utf-8") as out:
        for name, (file, alphabet) in MODELS.items():
            processor = sentencepiece.SentencePieceProcessor(model_proto=file)
            row = {"name": name, "model": base64.b64encode(file).decode(), "cases": []}
            for text in runs(alphabet):
                ids = processor.encode(text, out_type=int)
                row["cases"].append({"text": text, "ids": ids, "decoded": processor.decode(ids)})
            out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
