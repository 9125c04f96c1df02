#include "analysis/texts.h"

#include <algorithm>

#include "analysis/random.h"
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
  }
  return formats::sha256_hex(std::as_bytes(std::span(all)));
}

std::vector<formats::NamedText> bundled_validation_texts() {
  return formats::read_text_collection(model::assets_folder() / "texts" / "validation.jsonl");
}

formats::NamedText first_session_text() {
  const auto path = model::assets_folder() / "texts" / "default.txt";
  return {"first session", formats::read_text_file(path)};
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
