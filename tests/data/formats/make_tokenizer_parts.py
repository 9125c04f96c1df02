#!/usr/bin/env python3
"""Writes tokenizer_parts.jsonl: small tokenizers, one for each part a tokenizer.json may have, with
what Hugging Face's library makes of texts. Needs `tokenizers` 0.23. Nothing is downloaded.

One line a tokenizer: {"name", "tokenizer": the file, "cases": [{"text", "ids", "pre", "decoded"}],
"decode": [{"ids", "decoded"}]}."""

import json
from pathlib import Path

from tokenizers import Tokenizer

TEXTS = ["", " ", "  ", "a b", " Hello  World! ", "It's 12 o'clock, I'M 345.6", "x\ty\r\n\n z", "ÀÉ\u0301 ﬁ Ⅷ ½ ²",
         "e\u0323\u0301 o\u0301\u0323 한글 \u1112\u1161\u11ab", "注意力attention 位置。", "İstanbul ΣΑΣ ẞ", "a\u00a0b\u2003c\u3000d\u180ee\u200bf",
         "👩\u200d💻 🇩🇪 ❤\ufe0f", "foo_bar-baz (q)[r]{s} #$%^+=~`|<>", "¿Qué? «sí» — ‘no’ … 𞥞 𑙠", "\u1885\u1886 \U00011a01 \u0898\u0301 \U0001e030",
         "##a ▁b Ġc <s> </s> <mask> [X]", "x<mask> y <mask>z <mask>", "<S> <s>s< s>", "\x00a\x01\x7f\ufffd\ufeffb", "12 ٣٤ 𝟙𝟚 Ⅻ ㊿ \U00011de0",
         "'ſ 'S Ka \u212a", "aaaaaa bbbb", "\U00031350\U0002ebf0 \ua7cb\ua7da \U00010d50", "ab12cd  34\n\n", "don't DON'T we'Ll"]
VOCAB = {t: i for i, t in enumerate(["[UNK]", "<s>", "</s>", "a", "b", "x", "y", "z", "Hello", "World", "12", "▁", "▁a", "##a", "c", "s"])}
LEVEL = {"type": "WordLevel", "vocab": VOCAB, "unk_token": "[UNK]"}


def added(content, ident, **more):
    return {"id": ident, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True} | more


def tokenizer(model=LEVEL, **parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": None} | parts | {"model": model}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


REGEXES = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
             r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
             r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "possessive": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "deepseek": "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
    "han": "[一-龥\u3040-ゟ゠-ヿ]+|\\p{Han}",
    "classes": r"[\S\d]+?\b|[\w&]+|\W",
    "negated": r"[^\S\n]+|\P{L}|[\P{N}]",
    "counts": r"a{,3}|b{2}+|\h",
    "anchors": r"^a|\n+|b$",
    "empty": r"x*",
    "posix": r"[[:space:]]+|[[:digit:]]+|\p{Letter}+|\p{^P}",
    "look": r"(?<=a)b|(?<!\s)\d|x(?=y)",
}

SPLITS = {f"regex {k}": tokenizer(pre_tokenizer=split({"Regex": v})) for k, v in REGEXES.items()}
BEHAVIORS = {f"split {b} {i}": tokenizer(pre_tokenizer=split(p, b, i)) for b in ("Removed", "Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext")
             for i, p in ((False, {"String": " "}), (True, {"Regex": r"\p{L}+"}), (False, {"Regex": r"[ a!]"}))}
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
NORMALIZERS = {f"normalizer {json.dumps(n)[:60]}": tokenizer(normalizer=n) for n in [
    {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "Nmt"}, {"type": "ByteLevel"},
    {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Strip", "strip_left": False, "strip_right": True},
    {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": "ab"}, "content": "$1"}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "_"},
    BERT, BERT | {"lowercase": False}, BERT | {"strip_accents": False}, BERT | {"clean_text": False, "strip_accents": True, "handle_chinese_chars": False},
    {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]},
    {"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}]}
META = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
PRE = {f"pre_tokenizer {json.dumps(p, ensure_ascii=False)[:90]}": tokenizer(pre_tokenizer=p) for p in [
    {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}, {"type": "Punctuation", "behavior": "Isolated"},
    {"type": "Punctuation", "behavior": "MergedWithPrevious"}, {"type": "Digits", "individual_digits": True}, {"type": "Digits", "individual_digits": False},
    {"type": "CharDelimiterSplit", "delimiter": "a"}, META, META | {"split": False}, META | {"prepend_scheme": "first"}, META | {"prepend_scheme": "never"},
    {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}, {"type": "Metaspace", "replacement": "▁", "add_prefix_space": False, "prepend_scheme": "never"},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False},
    {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, META | {"prepend_scheme": "first"}, {"type": "Digits", "individual_digits": True}]},
    {"type": "Sequence", "pretokenizers": [split({"Regex": r"\d+"}, "MergedWithNext"), {"type": "Punctuation", "behavior": "Removed"}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]}]}
SPACE = {"type": "WhitespaceSplit"}
ADDED = {f"added {name}": t for name, t in {
    "plain": tokenizer(added_tokens=[added("<s>", 1), added("</s>", 2), added("<mask>", 16)], pre_tokenizer=SPACE),
    "lstrip": tokenizer(added_tokens=[added("<mask>", 16, lstrip=True)], pre_tokenizer=META),
    "rstrip": tokenizer(added_tokens=[added("<mask>", 16, rstrip=True)], pre_tokenizer=META | {"prepend_scheme": "first"}),
    "both": tokenizer(added_tokens=[added("<mask>", 16, lstrip=True, rstrip=True), added(" ", 17, special=False)]),
    "single_word": tokenizer(added_tokens=[added("a", 3, single_word=True), added("World", 9, single_word=True), added("位", 16, single_word=True)], pre_tokenizer=SPACE),
    "normalized": tokenizer(added_tokens=[added("<S>", 16, normalized=True, special=False), added("World", 9, normalized=True)], normalizer={"type": "Lowercase"}, pre_tokenizer=SPACE),
    "longest": tokenizer(added_tokens=[added("a", 3), added("aa", 16), added("aaa", 17), added("bb", 18)], pre_tokenizer=SPACE),
    "other ids": tokenizer(added_tokens=[added("<mask>", 40), added("[X]", 41)], pre_tokenizer=SPACE),
    "prepend": tokenizer(added_tokens=[added("<mask>", 16)], normalizer={"type": "Prepend", "prepend": "▁"}, pre_tokenizer=SPACE)}.items()}
SINGLE = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]
TEMPLATE = {"type": "TemplateProcessing", "single": SINGLE, "pair": SINGLE + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [2, 2], "tokens": ["</s>", "</s>"]}}}
POST = {f"post_processor {p['type']}": tokenizer(post_processor=p, pre_tokenizer=SPACE) for p in [
    TEMPLATE, {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]},
    {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": True},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, TEMPLATE]}]}
PIECES = {t: i for i, t in enumerate(["<unk>", "<s>", "▁a", "b", " c", "<0xE4>", "<0xBD>", "<0xFF>", "<0x41>", "d▁e", "Ġf", "é", "##g", ".", "?", "n't", "x</w>", "</w>", "▁▁h", "'", "s", "do", "not",
                                      "<0x+1>", "▁", "ä", "Ã", "¤"])}
DECODERS = {f"decoder {json.dumps(d, ensure_ascii=False)[:90]}": tokenizer(model=LEVEL | {"vocab": PIECES, "unk_token": "<unk>"}, decoder=d, added_tokens=[added("<s>", 1)]) for d in [
    None, {"type": "Fuse"}, {"type": "ByteFallback"}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Replace", "pattern": {"Regex": "[▁é]+"}, "content": "-"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}, {"type": "Strip", "content": "▁", "start": 2, "stop": 0}, {"type": "Strip", "content": "s", "start": 0, "stop": 1},
    {"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "WordPiece", "prefix": "##", "cleanup": False},
    META, META | {"prepend_scheme": "never"}, {"type": "BPEDecoder", "suffix": "</w>"},
    {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}]}
BPE_VOCAB = {t: i for i, t in enumerate(["a", "b", "c", "ab", "bc", "abc", "aa", "aaaa", "<unk>", "##a", "##b", "a##b", "a</w>", "<0x31>", "<0x32>", "12", "H", "x"])}
MERGES = [["b", "c"], ["a", "b"], ["a", "bc"], ["a", "a"], ["aa", "aa"]]
BPE = {"type": "BPE", "vocab": BPE_VOCAB, "merges": MERGES, "unk_token": "<unk>", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
UNIGRAM = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.5], ["b", -2.0], ["ab", -3.0], ["aa", -2.5], ["aaa", -4.5], ["▁", -1.0], ["▁a", -2.25], ["位置", -3.5], ["<0xE6>", -9.0]], "byte_fallback": False}
MODELS = {f"model {name}": t for name, t in {
    "bpe": tokenizer(BPE), "bpe fused": tokenizer(BPE | {"fuse_unk": True}), "bpe bytes": tokenizer(BPE | {"byte_fallback": True, "fuse_unk": True}),
    "bpe without unknown": tokenizer(BPE | {"unk_token": None}), "bpe whole words": tokenizer(BPE | {"ignore_merges": True}, pre_tokenizer=SPACE),
    "bpe suffix": tokenizer(BPE | {"end_of_word_suffix": "</w>"}, pre_tokenizer=SPACE), "bpe prefix": tokenizer(BPE | {"continuing_subword_prefix": "##", "merges": []}, pre_tokenizer=SPACE),
    "bpe strings": tokenizer(BPE | {"merges": ["#version: 0.2"] + [" ".join(m) for m in MERGES]}),
    "unigram": tokenizer(UNIGRAM, pre_tokenizer=META), "unigram bytes": tokenizer(UNIGRAM | {"byte_fallback": True, "vocab": UNIGRAM["vocab"] + [[f"<0x{b:02X}>", -9.0] for b in range(256) if b != 0xE6]}),
    "wordpiece": tokenizer({"type": "WordPiece", "vocab": VOCAB | {"##b": 16, "##12": 17}, "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 5}, pre_tokenizer=SPACE),
}.items()}


def main():
    with open(Path(__file__).parent / "tokenizer_parts.jsonl", "w", encoding="utf-8") as out:
        for name, file in (SPLITS | BEHAVIORS | NORMALIZERS | PRE | ADDED | POST | DECODERS | MODELS).items():
            tok = Tokenizer.from_str(json.dumps(file))
            row = {"name": name, "tokenizer": file}
            if name.startswith("decoder"):
                runs = [[i] for i in range(len(PIECES))] + [[2, 3, 4], [5, 6, 7, 8], [1, 2, 5, 3], [26, 27, 10, 4], [3, 12, 13, 21, 22, 15, 14], [24, 24, 18, 9], [16, 17, 16], [3, 19, 20, 19], [8, 23, 8]]
                row["decode"] = [{"ids": r, "decoded": tok.decode(r, skip_special_tokens=True)} for r in runs]
            else:
                row["cases"] = []
                for text in TEXTS:
                    case = {"text": text, "ids": tok.encode(text).ids}
                    normal = tok.normalizer.normalize_str(text) if tok.normalizer else text
                    if tok.pre_tokenizer:
                        case["pre"] = [p for p, _ in tok.pre_tokenizer.pre_tokenize_str(normal)]
                    elif tok.normalizer:
                        case["pre"] = [normal] if normal else []
                    row["cases"].append(case)
            out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
