// Tokenizers against what Hugging Face's tokenizers and libsentencepiece made of the same texts.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "formats/base64.h"
#include "formats/json.h"
#include "formats/text_input.h"
#include "formats/tokenizer_files.h"
#include "formats/tokenizers/hf_tokenizer.h"
#include "formats/tokenizers/sentence_piece.h"
#include "support.h"
#include "tests/golden_folder.h"

namespace phasescope::formats {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int64_t>;

std::vector<Json> lines_of(const fs::path& path) {
  std::vector<Json> lines;
  std::ifstream stream(path, std::ios::binary);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(parse_json(line, path.string()));
  }
  return lines;
}

// The spans follow the text, lie in it and begin and end between bytes that belong to the tokens.
void check_spans(const TokenizedText& tokens, const std::string& text) {
  ASSERT_EQ(tokens.spans.size(), tokens.ids.size());
  for (const TextSpan& span : tokens.spans) {
    ASSERT_LE(span.begin, span.end) << text;
    ASSERT_LE(span.end, text.size()) << text;
  }
}

void check_case(const Tokenizer& tokenizer, const Json& row) {
  const auto text = row["text"].get<std::string>();
  const TokenizedText plain = tokenizer.encode(text, Template::leave_out);
  const TokenizedText full = tokenizer.encode(text);
  EXPECT_EQ(plain.ids, row["ids"].get<Ids>()) << text;
  EXPECT_EQ(full.ids, row["ids_special"].get<Ids>()) << text;
  EXPECT_EQ(tokenizer.decode_text(plain.ids, SpecialTokens::keep), row["decoded"]) << text;
  EXPECT_EQ(tokenizer.decode_text(full.ids), row["decoded_skip"]) << text;
  if (row.contains("pre")) {
    EXPECT_EQ(tokenizer.pre_tokens(text), row["pre"].get<std::vector<std::string>>()) << text;
  }
  check_spans(full, text);
}

void check_folder(const fs::path& folder) {
  SCOPED_TRACE(folder.filename().string());
  const auto file = find_tokenizer_file(folder);
  ASSERT_TRUE(file);
  const auto tokenizer = open_tokenizer(*file);
  const auto cases = lines_of(folder / "cases.jsonl"), runs = lines_of(folder / "decode.jsonl");
  ASSERT_GT(cases.size(), 100u);
  ASSERT_GT(runs.size(), 20u);
  for (const Json& row : cases) check_case(*tokenizer, row);
  for (const Json& row : runs) {
    const auto ids = row["ids"].get<Ids>();
    EXPECT_EQ(tokenizer->decode_text(ids, SpecialTokens::keep), row["decoded"]) << row["ids"];
    EXPECT_EQ(tokenizer->decode_text(ids), row["decoded_skip"]) << row["ids"];
  }
}

TEST(Tokenizers, AgreeWithTheReferences) {
  std::size_t folders = 0;
  for (const auto& entry : fs::directory_iterator(test_data("hf/tokenizers"))) {
    check_folder(entry.path());
    ++folders;
  }
  EXPECT_EQ(folders, 9u);
}

TEST(Tokenizers, AgreeWithMoreReferences) {
  const fs::path folders = golden_path("hf/tokenizers", true);
  if (folders.empty()) GTEST_SKIP() << "no references beside the project";
  for (const auto& entry : fs::directory_iterator(folders)) {
    check_folder(entry.path());
  }
}

TEST(Tokenizers, EveryPartAgreesWithTheReference) {
  const auto rows = lines_of(test_data("formats/tokenizer_parts.jsonl"));
  ASSERT_GT(rows.size(), 90u);
  for (const Json& row : rows) {
    SCOPED_TRACE(row["name"].get<std::string>());
    keep_case("part.tokenizer.json", row["tokenizer"].dump());
    const auto tokenizer = make_hf_tokenizer(row["tokenizer"], "tokenizer.json");
    for (const Json& item : row.value("cases", Json::array())) {
      const auto text = item["text"].get<std::string>();
      const TokenizedText tokens = tokenizer->encode(text);
      EXPECT_EQ(tokens.ids, item["ids"].get<Ids>()) << text;
      if (item.contains("pre")) {
        EXPECT_EQ(tokenizer->pre_tokens(text), item["pre"].get<std::vector<std::string>>()) << text;
      }
      check_spans(tokens, text);
    }
    for (const Json& item : row.value("decode", Json::array())) {
      EXPECT_EQ(tokenizer->decode_text(item["ids"].get<Ids>()), item["decoded"]) << item["ids"];
    }
  }
}

// Pieces that score alike, sums beyond 100000, -0 beside 0, pieces of every kind: what decides
// there is how the library rounds and in which order it looks.
TEST(Tokenizers, SentencePieceModelsDecideTiesAsTheReference) {
  const auto rows = lines_of(test_data("formats/sentence_piece_models.jsonl"));
  ASSERT_EQ(rows.size(), 7u);
  for (const Json& row : rows) {
    SCOPED_TRACE(row["name"].get<std::string>());
    const std::string model = decoded_base64(row["model"].get<std::string>(), "model");
    keep_case("ties.spiece", model);
    const auto tokenizer = make_sentence_piece(model, "spiece.model");
    ASSERT_GT(row["cases"].size(), 10u);
    for (const Json& item : row["cases"]) {
      const auto text = item["text"].get<std::string>();
      const TokenizedText tokens = tokenizer->encode(text);
      EXPECT_EQ(tokens.ids, item["ids"].get<Ids>()) << text;
      EXPECT_EQ(tokenizer->decode_text(tokens.ids), item["decoded"]) << text;
      check_spans(tokens, text);
    }
  }
}

std::unique_ptr<Tokenizer> reference_tokenizer(const std::string& name) {
  return open_tokenizer(*find_tokenizer_file(test_data("hf/tokenizers/" + name)));
}

TEST(Tokenizers, ByteLevelTextsComeBackAsBytes) {
  const std::string text = "caf\u00e9  \u6ce8\u610f\u529b \U0001F600\n\ttab \u2581 \u0000";
  for (const char* name : {"gpt2_bytelevel", "llama3_bytelevel"}) {
    const auto tokenizer = reference_tokenizer(name);
    const TokenizedText tokens = tokenizer->encode(text, Template::leave_out);
    EXPECT_EQ(tokenizer->decode(tokens.ids), text);
    std::size_t done = 0;  // every byte is in one token's span, in order
    for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
      EXPECT_EQ(tokens.spans[i].begin, done);
      done = tokens.spans[i].end;
      EXPECT_EQ(text.substr(tokens.spans[i].begin, done - tokens.spans[i].begin),
                tokenizer->token_bytes(tokens.ids[i]));
    }
    EXPECT_EQ(done, text.size());
  }
}

TEST(Tokenizers, SpansPointIntoTheTextThatWasGiven) {
  const std::string text = "E\u0301TUDE <s>[MASK] x";  // NFD, lower case and accents off on the way
  const auto tokenizer = reference_tokenizer("bert_wordpiece");
  const TokenizedText tokens = tokenizer->encode(text);
  ASSERT_EQ(tokens.spans.front().begin, tokens.spans.front().end);  // [CLS]
  EXPECT_EQ(tokens.spans.back().begin, text.size());                // [SEP]
  const auto mask = std::find(tokens.ids.begin(), tokens.ids.end(), 4);
  ASSERT_NE(mask, tokens.ids.end());
  const TextSpan span = tokens.spans[static_cast<std::size_t>(mask - tokens.ids.begin())];
  EXPECT_EQ(text.substr(span.begin, span.end - span.begin), "[MASK]");
  EXPECT_EQ(tokens.spans[1].begin, 0u);
}

TEST(Tokenizers, ShowWhiteSpaceAndCharactersOfSeveralTokensOnce) {
  const auto gpt2 = reference_tokenizer("gpt2_bytelevel");
  const std::string text = " a\n\U0001F9FF";
  const auto shown = visible_tokens(*gpt2, gpt2->encode(text).ids);
  std::string all;
  for (const std::string& token : shown) all += token;
  EXPECT_EQ(all, "\u00b7a\u23ce\U0001F9FF");
  const auto llama = reference_tokenizer("llama2_bpe_bytefallback");
  const auto ids = llama->encode("a b").ids;
  EXPECT_EQ(llama->token_text(ids[0]), "<s>");
  EXPECT_TRUE(llama->token_text(ids[1]).starts_with("\u00b7"));
}

TEST(Tokenizers, Row18_TextThatIsNotUtf8IsNamedByItsByte) {
  for (const char* name : {"gpt2_bytelevel", "sp_unigram"}) {
    const auto tokenizer = reference_tokenizer(name);
    EXPECT_TRUE(tells(error_of([&] { tokenizer->encode("ab\xFF"); }), "byte 2"));
  }
}

TEST(Tokenizers, Row20_IdsOutOfRangeAreRefused) {
  const auto tokenizer = reference_tokenizer("gpt2_bytelevel");
  for (const std::int64_t id : {std::int64_t{-1}, tokenizer->vocab_size(), INT64_MAX}) {
    EXPECT_EQ(error_of([&] { tokenizer->decode(std::span(&id, 1)); }).code(), "bad_input");
    EXPECT_EQ(error_of([&] { tokenizer->token_text(id); }).code(), "bad_input");
  }
}

// ---- files that are wrong -----------------------------------------------------------------------

Json small_bpe() {
  return parse_json(R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": null,
    "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})",
                    "test");
}

Error refused(const Json& file) {
  keep_case("wrong.tokenizer.json", file.dump());
  return error_of([&] { make_hf_tokenizer(file, "tokenizer.json", 3); });
}

// RFC 4648, section 10.
TEST(Base64, TestVectorsThereAndBack) {
  for (const auto& [bytes, text] : {std::pair{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"},
                                    {"\xff\xfb", "//s="}}) {
    EXPECT_EQ(base64_of(bytes), text);
    EXPECT_EQ(decoded_base64(text, "test"), bytes);
  }
}

TEST(TokenizerFiles, Row18_NameTheKeyThatIsWrong) {
  EXPECT_NO_THROW(make_hf_tokenizer(small_bpe(), "tokenizer.json", 3));
  const auto with = [](const char* pointer, const Json& value) {
    Json file = small_bpe();
    file[Json::json_pointer(pointer)] = value;
    return refused(file);
  };
  EXPECT_TRUE(tells(refused(Json::array()), "tokenizer.json"));
  EXPECT_TRUE(tells(with("/model", nullptr), "key model"));
  EXPECT_TRUE(tells(with("/model/type", "Magic"), "Magic"));
  EXPECT_TRUE(tells(with("/model/type", "Magic"), "key model.type"));
  EXPECT_TRUE(tells(with("/model/vocab", Json::array()), "key model.vocab"));
  EXPECT_TRUE(tells(with("/model/vocab/c", 1u), "the id 1"));  // twice
  EXPECT_TRUE(tells(with("/model/vocab/c", -1), "key model.vocab"));
  EXPECT_TRUE(tells(with("/model/vocab/c", 1e300), "key model.vocab"));
  EXPECT_TRUE(tells(with("/model/vocab/c", 3u), "3 rows"));
  EXPECT_TRUE(tells(with("/model/merges/0", {"a", "z"}), "key model.merges[0]"));
  EXPECT_TRUE(tells(with("/model/merges/0", {"b", "a"}), "\"ba\""));  // the union is absent
  EXPECT_TRUE(tells(with("/model/merges/0", "a b b"), "key model.merges[0]"));
  EXPECT_TRUE(tells(with("/normalizer", {{"type", "NFX"}}), "key normalizer.type"));
  EXPECT_TRUE(tells(with("/normalizer", "NFC"), "key normalizer"));
  EXPECT_TRUE(tells(with("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", 3}}}}}),
                    "key normalizer.normalizers[0].type"));
  EXPECT_TRUE(tells(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "!"}}),
                    "base64"));
  EXPECT_TRUE(
      tells(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}),
            "cut short"));
  EXPECT_TRUE(tells(with("/decoder", {{"type", "Strip"}}), "key decoder."));
  EXPECT_TRUE(tells(with("/post_processor", {{"type", "BertProcessing"}, {"cls", {"a", 9u}}}),
                    "key post_processor.cls"));
  EXPECT_TRUE(
      tells(with("/added_tokens/0", {{"id", 1u}, {"content", "new"}}), "key added_tokens[0].id"));
}

Json split_by(const std::string& regex) {
  Json file = small_bpe();
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}};
  return file;
}

TEST(TokenizerFiles, Row18_AddedTokensThatAreEmptyOrFarAway) {
  const auto with = [](const Json& added, std::optional<std::int64_t> rows = {}) {
    Json file = small_bpe();
    file["added_tokens"] = added;
    keep_case("added.tokenizer.json", file.dump());
    return error_of([&] { make_hf_tokenizer(file, "tokenizer.json", rows); });
  };
  EXPECT_TRUE(tells(with({{{"id", 3u}, {"content", ""}}}), "key added_tokens[0].content"));
  const Error far = with({{{"id", 3u}, {"content", "<m>"}}, {{"id", 10000000u}, {"content", "x"}}});
  EXPECT_TRUE(tells(far, "the id 10000000 of the added token \"x\" is past the"));
  EXPECT_TRUE(tells(far, "key added_tokens[1].id"));
  EXPECT_TRUE(tells(with({{{"id", 9u}, {"content", "x"}}}, 8), "past the 8 ids"));
}

// The table of ids is as long as the largest: 10^7 of them would take 80 MB for three tokens.
TEST(TokenizerFiles, Row18_AnIdFarPastTheVocabularyMakesNoTable) {
  Json file = small_bpe();
  file["model"]["vocab"]["c"] = 10000000u;
  const Error error = error_of([&] { make_hf_tokenizer(file, "tokenizer.json"); });
  EXPECT_TRUE(tells(error, "the id 10000000 of the token \"c\" is far past the 4 tokens"));
}

// A hundred thousand of them: work in proportion, where comparing each with each takes minutes.
TEST(TokenizerFiles, Row18_ManyAddedTokensTakeTimeInProportion) {
  Json file = small_bpe();
  Json& added = file["added_tokens"] = Json::array();
  const std::string start(60, 'x');
  for (std::uint64_t n = 0; n < 100'000; ++n) {
    added.push_back({{"id", n + 3}, {"content", start + std::to_string(n)}});
  }
  const auto before = std::chrono::steady_clock::now();
  const auto tokenizer = make_hf_tokenizer(file, "tokenizer.json");
  EXPECT_EQ(tokenizer->encode(start + "99999").ids, Ids{100'002});
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20));
}

TEST(TokenizerFiles, Row18_PatternsThatAreNoneOrExplode) {
  for (const char* regex : {"(", "[a", "\\", "[[a]b]", "[a&&b]", "\\p{Nonsense}", "(?<a"}) {
    EXPECT_TRUE(tells(refused(split_by(regex)), "key pre_tokenizer.pattern.Regex")) << regex;
  }
  const std::string text = std::string(200, 'a') + "b";
  for (const char* regex : {"(a+)+$", "(a|aa)+$"}) {
    const auto tokenizer = make_hf_tokenizer(split_by(regex), "tokenizer.json");
    const auto before = std::chrono::steady_clock::now();
    EXPECT_TRUE(tells(error_of([&] { tokenizer->encode(text); }), "too many steps")) << regex;
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20));
  }
}

// Rules that multiply a text: thirty times two letters for one are 2^30, and five thousand letters
// before every character are as many tokens.
TEST(TokenizerFiles, Row18_RulesThatBlowUpATextAreEnded) {
  const Json doubled = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  Json many = Json::array();
  for (int n = 0; n < 30; ++n) many.push_back(doubled);
  Json file = small_bpe();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", many}};
  const auto normalising = make_hf_tokenizer(file, "tokenizer.json");
  EXPECT_TRUE(tells(error_of([&] { normalising->encode("a"); }), "more than 16 times longer"));
  EXPECT_TRUE(normalising->encode("b").ids == Ids{1});

  file["normalizer"] = doubled;
  file["normalizer"]["content"] = std::string(1000, 'a');
  const auto lengthening = make_hf_tokenizer(file, "tokenizer.json");
  EXPECT_TRUE(tells(error_of([&] { lengthening->encode(std::string(1000, 'a')); }),
                    "key normalizer.content"));

  file = small_bpe();
  file["decoder"] = {{"type", "Sequence"}, {"decoders", many}};
  const auto decoding = make_hf_tokenizer(file, "tokenizer.json");
  EXPECT_TRUE(tells(error_of([&] { decoding->decode(Ids{0}); }), "key decoder"));

  file = small_bpe();
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    Json longer = file;
    longer["model"][key] = std::string(5000, 'x');
    EXPECT_TRUE(tells(refused(longer), "has 5000 bytes, and at most 64 make sense")) << key;
  }
}

TEST(TokenizerFiles, Row18_DamagedSentencePieceModels) {
  const std::string model =
      file_content(test_data("hf/tokenizers/sp_bpe_bytefallback/spiece.model"));
  EXPECT_NO_THROW(make_sentence_piece(model, "spiece.model"));
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{7}, model.size() / 2}) {
    EXPECT_EQ(error_of([&] { make_sentence_piece(model.substr(0, size), "spiece.model"); }).code(),
              "bad_input");
  }
  for (std::size_t at = 0; at < model.size(); at += 37) {  // whatever it says, it is an Error
    std::string damaged = model;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    try {
      make_sentence_piece(damaged, "spiece.model")->encode("a text \u6ce8 123");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), "bad_input");
    }
  }
}

// Pieces of a model file, in protobuf's form.
std::string wire(int field, const std::string& message) {
  return std::string(1, static_cast<char>(field << 3 | 2)) + static_cast<char>(message.size()) +
         message;
}

std::string wire_piece(const std::string& text, char kind, const std::string& score) {
  return wire(1, wire(1, text) + "\x15" + score + "\x18" + kind);
}

const std::string kScore("\x00\x00\x80\xbf", 4);  // -1

// <unk>, a, b, and what is given; trainer of type Unigram, normalizer without a dummy prefix.
std::string small_sentence_piece(const std::string& pieces, const std::string& trainer = "") {
  return wire_piece("<unk>", 2, kScore) + wire_piece("a", 1, kScore) + wire_piece("b", 1, kScore) +
         pieces + wire(2, "\x18\x01" + trainer) + wire(3, std::string("\x18\x00", 2));
}

// Damage that leaves protobuf's form whole: it must not open as another model.
TEST(TokenizerFiles, Row18_SentencePieceModelsThatLackAPart) {
  const auto refused = [](const std::string& model) {
    keep_case("lacking.spiece", model);
    return error_of([&] { make_sentence_piece(model, "spiece.model"); });
  };
  const std::string whole = small_sentence_piece("");
  EXPECT_EQ(make_sentence_piece(whole, "spiece.model")->encode("ab").ids, (Ids{1, 2}));
  const std::string normalizer = wire(3, std::string("\x18\x00", 2)), trainer = wire(2, "\x18\x01");
  const std::size_t before_normalizer = whole.size() - normalizer.size();
  EXPECT_TRUE(tells(refused(whole.substr(0, before_normalizer)), "no normalizer_spec"));
  EXPECT_TRUE(tells(refused(whole.substr(0, before_normalizer - trainer.size())),
                    "no trainer_spec: the file is cut short"));
  EXPECT_TRUE(tells(refused(whole + std::string(64, '\0')), "a field has the number 0"));
  EXPECT_TRUE(tells(refused(whole + "\x08\x01"), "wrong type"));  // a piece that is a number
  const std::string nan("\x00\x00\xc0\x7f", 4), infinite("\x00\x00\x80\x7f", 4);
  for (const std::string& score : {nan, infinite}) {
    EXPECT_TRUE(tells(refused(small_sentence_piece(wire_piece("c", 1, score))), "score"));
  }
}

TEST(TokenizerFiles, Row18_BytePiecesAreAllThereOrNone) {
  const auto with = [](int bytes, bool fallback) {
    std::string pieces;
    for (int byte = 0; byte < bytes; ++byte) {
      char name[16];
      std::snprintf(name, sizeof name, "<0x%02X>", byte);
      pieces += wire_piece(name, 6, kScore);
    }
    return small_sentence_piece(pieces, fallback ? "\x98\x02\x01" : "");
  };
  EXPECT_NO_THROW(make_sentence_piece(with(256, true), "spiece.model"));
  EXPECT_NO_THROW(make_sentence_piece(with(0, false), "spiece.model"));
  for (const auto& [bytes, fallback] : {std::pair{255, true}, {0, true}, {1, false}}) {
    const Error error =
        error_of([&] { make_sentence_piece(with(bytes, fallback), "spiece.model"); });
    EXPECT_TRUE(tells(error, "has " + std::to_string(bytes) + " of the 256 byte pieces"));
  }
  const std::string no_byte = small_sentence_piece(wire_piece("<0xZZ>", 6, kScore));
  EXPECT_TRUE(tells(error_of([&] { make_sentence_piece(no_byte, "spiece.model"); }),
                    "\"<0xZZ>\" is a byte, and names none"));
}

TEST(TokenizerFiles, ATemplateIsChosenByTheFileBeside) {
  const TemporaryFolder folder;
  const auto model = folder.file(
      "spiece.model", file_content(test_data("hf/tokenizers/sp_bpe_bytefallback/spiece.model")));
  EXPECT_EQ(open_tokenizer(model)->bos_id(), 1);
  folder.file("tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true})");
  const auto tokenizer = open_tokenizer(model);
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->encode("").ids, Ids{2});
}

TEST(Tokenizers, AMegabyteTakesTimeInProportion) {
  for (const char* name : {"llama2_bpe_bytefallback", "qwen2_bytelevel_nfc"}) {
    const auto tokenizer = reference_tokenizer(name);
    for (const std::string& piece : {std::string("a"), std::string(" ")}) {
      std::string text;
      while (text.size() < 1'000'000) text += piece;
      const auto before = std::chrono::steady_clock::now();
      EXPECT_FALSE(tokenizer->encode(text).ids.empty());
      // About half a second each on one core; quadratic work would take hours.
      EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60)) << name;
    }
  }
}

}  // namespace
}  // namespace phasescope::formats
