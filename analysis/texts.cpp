#include "analysis/texts.h"

#include <algorithm>
#include <bit>
#include <filesystem>

#include "analysis/random.h"
#include "formats/base64.h"
#include "formats/error.h"
#include "formats/sha256.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::analysis {
namespace {

// Cuts a text to `length` tokens and says so once for all texts.
void cut(Texts& texts, std::int64_t length) {
  if (length <= 0) return;
  std::int64_t cut_texts = 0, longest = 0;
  for (Text& text : texts.items) {
    const auto tokens = static_cast<std::int64_t>(text.ids.size());
    if (tokens <= length) continue;
    ++cut_texts;
    longest = std::max(longest, tokens);
    text.ids.resize(static_cast<std::size_t>(length));
    if (!text.spans.empty()) text.spans.resize(static_cast<std::size_t>(length));
  }
  if (cut_texts == 0) return;
  const std::string what =
      texts.items.size() == 1
          ? "text cut"
          : std::to_string(cut_texts) + " of " + std::to_string(texts.items.size()) + " texts cut";
  texts.note = what + " to " + std::to_string(length) + " of " + (cut_texts > 1 ? "up to " : "") +
               std::to_string(longest) + " tokens";
}

std::vector<formats::NamedText> bundled(const char* file) {
  return formats::read_text_collection(model::assets_folder() / "texts" / file);
}

// How many texts reach it, as far as one has to look to find kEnoughTexts.
std::int64_t count_reaching(const std::vector<formats::NamedText>& texts, const TokenCount& tokens,
                            std::int64_t length) {
  std::int64_t reaching = 0;
  for (const formats::NamedText& text : texts) {
    if (reaching == kEnoughTexts) break;
    if (tokens(text.text) >= length) ++reaching;
  }
  return reaching;
}

// Bytes of pieces that have `length` tokens each, a tenth more than the text's own mean says.
std::size_t piece_bytes(const std::string& text, const TokenCount& tokens, std::int64_t length) {
  constexpr std::size_t kLookedAt = 1 << 16, kLeast = 4096;
  std::size_t end = std::min(text.size(), kLookedAt);
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  const std::string head = text.substr(0, end);
  const auto read = static_cast<double>(std::max<std::int64_t>(1, tokens(head)));
  const double bytes = static_cast<double>(head.size()) / read * static_cast<double>(length);
  return std::max(kLeast, static_cast<std::size_t>(1.1 * bytes));
}

Collection texts_of_path(const std::filesystem::path& path, const TokenCount& tokens,
                         std::int64_t length) {
  Collection read{formats::read_corpus(path), "texts of " + path.string(), ""};
  std::error_code error;
  if (path.extension() == ".jsonl" || std::filesystem::is_directory(path, error)) return read;
  const formats::NamedText whole = read.texts.at(0);
  const std::size_t bytes = piece_bytes(whole.text, tokens, length);
  read.texts = formats::cut_at_lines(whole, bytes);
  if (read.texts.size() > 1) {
    read.note = whole.name + " is cut into " + std::to_string(read.texts.size()) + " texts of " +
                std::to_string(bytes) + " bytes and more";
  }
  return read;
}

[[noreturn]] void wrong_corpus() {
  throw formats::bad_usage(
      "a corpus is true, a list of texts or of {\"name\", \"text\"}, or the path of a file, a "
      "folder or a .jsonl file",
      "corpus");
}

}  // namespace

std::int64_t Texts::longest() const {
  std::size_t tokens = 0;
  for (const Text& text : items) tokens = std::max(tokens, text.ids.size());
  return static_cast<std::int64_t>(tokens);
}

std::int64_t Texts::shortest() const {
  std::size_t tokens = items.empty() ? 0 : items[0].ids.size();
  for (const Text& text : items) tokens = std::min(tokens, text.ids.size());
  return static_cast<std::int64_t>(tokens);
}

std::string Texts::hash() const {
  std::vector<std::int64_t> all;
  for (const Text& text : items) {
    if (!all.empty()) all.push_back(-1);
    all.insert(all.end(), text.ids.begin(), text.ids.end());
    if (text.ids_alone()) continue;
    for (const auto* more : {&text.position_ids, &text.token_types, &text.decoder_ids}) {
      all.push_back(-2);
      all.insert(all.end(), more->begin(), more->end());
    }
    // Older kinds keep their hashes.
    for (const std::int64_t place : text.decoder_position_ids) all.push_back(-3 - place);
    for (const float pixel : text.patches) all.push_back(std::bit_cast<std::int32_t>(pixel));
  }
  return formats::sha256_hex(std::as_bytes(std::span(all)));
}

formats::NamedText first_session_text() {
  const auto path = model::assets_folder() / "texts" / "default.txt";
  return {"first session", formats::read_text_file(path)};
}

TokenCount counted_by(const formats::Tokenizer& tokenizer, formats::Template use) {
  return [&tokenizer, use](const std::string& text) {
    return static_cast<std::int64_t>(tokenizer.encode(text, use).ids.size());
  };
}

Collection bundled_texts(const TokenCount& tokens, std::int64_t length) {
  std::vector<formats::NamedText> texts = bundled("validation.jsonl");
  const std::int64_t reaching = count_reaching(texts, tokens, length);
  if (reaching >= kEnoughTexts) return {std::move(texts), "validation texts", ""};
  const std::size_t all = texts.size();
  texts = bundled("long.jsonl");
  return {std::move(texts), "long texts",
          "the long texts are read, since only " + std::to_string(reaching) + " of the " +
              std::to_string(all) + " validation texts have " + std::to_string(length) + " tokens"};
}

std::optional<formats::NamedText> given_text(const protocol::Input& input) {
  const auto name = [&input](const char* kind) { return input.name.empty() ? kind : input.name; };
  if (input.text) return formats::NamedText{name("text"), *input.text};
  if (input.prompt) return formats::NamedText{name("prompt"), *input.prompt};
  if (!input.base64) return std::nullopt;
  return formats::NamedText{name("base64"), formats::decoded_base64(*input.base64, "base64")};
}

Collection corpus_texts(const nlohmann::json& corpus, const TokenCount& tokens,
                        std::int64_t length) {
  if (corpus == true || corpus == "desk") return bundled_texts(tokens, length);
  if (corpus.is_string()) return texts_of_path(corpus.get<std::string>(), tokens, length);
  if (!corpus.is_array() || corpus.empty()) wrong_corpus();
  Collection given{{}, "given texts", ""};
  for (const nlohmann::json& item : corpus) {
    const std::string name = "text " + std::to_string(given.texts.size());
    if (item.is_string()) {
      given.texts.push_back({name, item.get<std::string>()});
    } else if (item.is_object() && item.contains("text") && item["text"].is_string()) {
      given.texts.push_back({item.value("name", name), item["text"].get<std::string>()});
    } else {
      wrong_corpus();
    }
  }
  return given;
}

Texts tokenised(const std::vector<formats::NamedText>& texts, const formats::Tokenizer& tokenizer,
                std::int64_t length) {
  Texts out;
  out.corpus = texts.size() > 1;
  out.starts_with_bos = tokenizer.bos_id().has_value();
  for (const formats::NamedText& text : texts) {
    if (text.text.empty()) {
      throw formats::bad_input("the text is empty, there is nothing to read", text.name,
                               "give a text of at least one character");
    }
    formats::TokenizedText tokens = tokenizer.encode(text.text);
    const bool bos = !tokens.ids.empty() && tokenizer.bos_id() == tokens.ids[0];
    out.starts_with_bos = out.starts_with_bos && bos;
    out.items.push_back({text.name, text.text, std::move(tokens.ids), std::move(tokens.spans)});
  }
  cut(out, length);
  return out;
}

Texts texts_of_ids(const std::vector<std::vector<std::int64_t>>& ids, std::int64_t vocabulary,
                   std::int64_t length, const std::string& source) {
  Texts out;
  out.corpus = ids.size() > 1;
  for (const std::vector<std::int64_t>& list : ids) {
    const std::string name =
        out.corpus ? source + ", list " + std::to_string(out.items.size()) : source;
    if (list.empty()) throw formats::bad_input("the list of ids is empty", name);
    formats::check_ids(list, vocabulary, name);
    out.items.push_back({name, "", list, {}});
  }
  if (out.items.empty()) throw formats::bad_input("there are no ids to read", source);
  cut(out, length);
  return out;
}

Texts random_texts(std::int64_t count, std::int64_t length, std::int64_t vocabulary,
                   std::uint64_t seed) {
  Random random(seed);
  Texts out;
  out.corpus = count > 1;
  for (std::int64_t n = 0; n < count; ++n) {
    Text text{"random ids " + std::to_string(n), "", {}, {}};
    for (std::int64_t i = 0; i < length; ++i) text.ids.push_back(random.below(vocabulary));
    out.items.push_back(std::move(text));
  }
  out.note = "the model has no tokenizer: seeded random ids were read";
  return out;
}

}  // namespace phasescope::analysis
