#include "formats/tokenizers/gguf_tokenizer.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "formats/tokenizers/hf_tokenizer.h"
#include "formats/tokenizers/json_fields.h"
#include "formats/tokenizers/sentence_piece.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

using Kind = SentencePieceFile::Kind;  // llama.cpp's types of tokens have SentencePiece's numbers

const std::string kPrefix = "tokenizer.ggml.";

// The lists that describe the tokens, one element each.
class TokenLists {
 public:
  TokenLists(const Json& keys, const std::string& where)
      : fields_(keys, where, ""), texts_(fields_.array(kPrefix + "tokens")) {
    types_ = list("token_type");
    scores_ = list("scores");
  }

  const JsonFields& fields() const { return fields_; }
  std::size_t size() const { return texts_.size(); }

  std::string text(std::size_t id) const {
    const Json& text = texts_[id];
    if (!text.is_string()) fields_.fail(kPrefix + "tokens", "a token is no text");
    return text.get<std::string>();
  }

  Kind kind(std::size_t id) const {
    if (types_ == nullptr) return Kind::normal;
    const Json& type = (*types_)[id];
    const std::int64_t number = type.is_number_integer() ? type.get<std::int64_t>() : 0;
    if (number < 1 || number > 6) {
      fields_.fail(kPrefix + "token_type",
                   "the token " + std::to_string(id) + " is of no type that is known");
    }
    return static_cast<Kind>(number);
  }

  float score(std::size_t id) const {
    if (scores_ == nullptr) return 0;
    const Json& score = (*scores_)[id];
    if (!score.is_number() || !std::isfinite(score.get<double>())) {
      fields_.fail(kPrefix + "scores",
                   "the score of token " + std::to_string(id) + " is no number");
    }
    return score.get<float>();
  }

  // A special token's id; nullopt where the keys have none. Throws for one that is no token.
  std::optional<std::size_t> special(const std::string& name) const {
    if (!fields_.has(kPrefix + name)) return std::nullopt;
    const auto most = static_cast<std::int64_t>(size()) - 1;
    return static_cast<std::size_t>(fields_.integer(kPrefix + name, 0, most));
  }

 private:
  const Json* list(const std::string& name) const {
    if (!fields_.has(kPrefix + name)) return nullptr;
    const Json& list = fields_.array(kPrefix + name);
    if (list.size() != size()) {
      fields_.fail(kPrefix + name, "has " + std::to_string(list.size()) +
                                       " elements, and there are " + std::to_string(size()) +
                                       " tokens");
    }
    return &list;
  }

  JsonFields fields_;
  const Json& texts_;
  const Json *types_ = nullptr, *scores_ = nullptr;
};

// ---- SentencePiece ------------------------------------------------------------------------------

std::unique_ptr<Tokenizer> sentence_piece_of(const TokenLists& tokens, const std::string& where,
                                             std::optional<std::int64_t> embedding_rows) {
  const JsonFields& fields = tokens.fields();
  SentencePieceFile file;
  file.model = SentencePieceFile::Model::bpe;
  file.dummy_prefix = fields.flag(kPrefix + "add_space_prefix", true);
  file.remove_extra_whitespace = fields.flag(kPrefix + "remove_extra_whitespaces", false);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    file.pieces.push_back({tokens.text(id), tokens.score(id), tokens.kind(id)});
    if (file.pieces.back().text.empty()) {
      throw bad_input("the token " + std::to_string(id) + " is empty", where);
    }
    file.byte_fallback = file.byte_fallback || file.pieces.back().kind == Kind::byte;
  }
  finish_sentence_piece_file(file, where);
  if (const auto bos = tokens.special("bos_token_id")) file.bos_piece = tokens.text(*bos);
  if (const auto eos = tokens.special("eos_token_id")) file.eos_piece = tokens.text(*eos);
  const SentencePieceTemplate wanted = {fields.flag(kPrefix + "add_bos_token", true),
                                        fields.flag(kPrefix + "add_eos_token", false)};
  return make_sentence_piece(std::move(file), where, embedding_rows, wanted);
}

// ---- Byte-level BPE -----------------------------------------------------------------------------

// How texts are cut before merging: by tokenizer.ggml.pre, with the expressions of the
// tokenizer.json files of the models that it is named after.
struct Cutting {
  std::string_view name;
  const char* expression;  // null: that of GPT-2, which ByteLevel carries out itself
  const char* normal_form;
  bool ignore_merges, add_bos;
};
constexpr const char* kQwen2 =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char* kLlama3 =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr Cutting kCuttings[] = {
    {"gpt-2", nullptr, nullptr, false, false},   {"qwen2", kQwen2, "NFC", false, false},
    {"llama-bpe", kLlama3, nullptr, true, true}, {"llama3", kLlama3, nullptr, true, true},
    {"llama-v3", kLlama3, nullptr, true, true},
};

const Cutting& cutting_of(const JsonFields& fields) {
  const std::string name = fields.text(kPrefix + "pre", "gpt-2");
  std::string known;
  for (const Cutting& cutting : kCuttings) {
    if (cutting.name == name) return cutting;
    known += (known.empty() ? "" : ", ") + std::string(cutting.name);
  }
  fields.fail(kPrefix + "pre", "texts are cut by " + in_quotes(name) + ", which is not known",
              "known: " + known);
}

Json pre_tokenizer_of(const Cutting& cutting) {
  const bool alone = cutting.expression == nullptr;
  const Json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", false},
                      {"use_regex", alone}};
  if (alone) return bytes;
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", cutting.expression}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}};
}

// A post_processor that puts `bos` before every text.
Json template_of(const std::string& bos, std::size_t id) {
  const auto special = [&] { return Json{{"SpecialToken", {{"id", bos}, {"type_id", 0}}}}; };
  const auto text = [](const char* name) {
    return Json{{"Sequence", {{"id", name}, {"type_id", 0}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({special(), text("A")})},
          {"pair", Json::array({special(), text("A"), special(), text("B")})},
          {"special_tokens",
           {{bos, {{"id", bos}, {"ids", Json::array({id})}, {"tokens", Json::array({bos})}}}}}};
}

std::unique_ptr<Tokenizer> byte_level_of(const TokenLists& tokens, const std::string& where,
                                         std::optional<std::int64_t> embedding_rows) {
  const JsonFields& fields = tokens.fields();
  const Cutting& cutting = cutting_of(fields);
  Json vocabulary = Json::object(), added = Json::array();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string text = tokens.text(id);
    const Kind kind = tokens.kind(id);
    if (kind == Kind::unused) continue;  // rows of the embedding that fill it up
    if (!vocabulary.emplace(text, id).second) {
      fields.fail(kPrefix + "tokens", "the token " + in_quotes(text) + " is there twice");
    }
    if (kind == Kind::normal || kind == Kind::byte) continue;
    added.push_back({{"id", id},
                     {"content", text},
                     {"special", kind != Kind::user_defined},
                     {"normalized", false}});
  }
  Json file = {{"model",
                {{"type", "BPE"},
                 {"vocab", std::move(vocabulary)},
                 {"merges", fields.array(kPrefix + "merges")},
                 {"ignore_merges", cutting.ignore_merges}}},
               {"added_tokens", std::move(added)},
               {"pre_tokenizer", pre_tokenizer_of(cutting)},
               {"decoder", {{"type", "ByteLevel"}}}};
  if (cutting.normal_form != nullptr) file["normalizer"] = {{"type", cutting.normal_form}};
  const auto bos = tokens.special("bos_token_id");
  if (bos && fields.flag(kPrefix + "add_bos_token", cutting.add_bos)) {
    file["post_processor"] = template_of(tokens.text(*bos), *bos);
  }
  return make_hf_tokenizer(file, where, embedding_rows);
}

}  // namespace

std::unique_ptr<Tokenizer> make_gguf_tokenizer(const Json& keys, const std::string& where,
                                               std::optional<std::int64_t> embedding_rows) {
  if (!keys.contains(kPrefix + "tokens")) return nullptr;
  const TokenLists tokens(keys, where);
  const std::string model = tokens.fields().text(kPrefix + "model", "");
  if (model == "llama") return sentence_piece_of(tokens, where, embedding_rows);
  if (model == "gpt2") return byte_level_of(tokens, where, embedding_rows);
  tokens.fields().fail(
      kPrefix + "model",
      "the tokenizer is of the kind " + in_quotes(model) + ", which cannot be read",
      "known: llama, gpt2");
}

}  // namespace phasescope::formats
