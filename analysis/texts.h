#pragma once
// Texts as an analysis reads them: token ids with the template of the model's tokenizer, cut to a
// length, and what has to be said about that.
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/text_input.h"
#include "formats/tokenizer.h"
#include "protocol/field_types.h"

namespace phasescope::analysis {

struct Text {
  std::string name;
  std::string text;  // as given; empty where ids were given
  std::vector<std::int64_t> ids;
  std::vector<formats::TextSpan> spans;  // of `text`, one an id; empty where ids were given
  // What a file of inputs holds beside the ids, one an id each; empty where it holds none, or only
  // what a forward pass takes anyway.
  std::vector<std::int64_t> position_ids = {}, token_types = {};
  std::vector<std::int64_t> decoder_ids = {};  // what the decoder of an encoder-decoder reads
  std::vector<std::int64_t> decoder_position_ids = {};
  std::vector<float> patches = {};  // of an image, all tokens' pieces one after the other

  bool ids_alone() const {
    return position_ids.empty() && token_types.empty() && decoder_ids.empty() && patches.empty();
  }
};

struct Texts {
  std::vector<Text> items;
  bool corpus = false;           // several texts: statistics carry intervals over them
  bool starts_with_bos = false;  // key 0 of every text is the template's [BOS]
  std::string note;              // cuts and the like; for Provenance::note

  void add_note(const std::string& more) {
    note += (note.empty() || more.empty() ? "" : "; ") + more;
  }
  std::int64_t longest() const;
  std::int64_t shortest() const;
  // SHA-256 of all ids, as little-endian int64, one text after the other with a -1 between; where a
  // text has more than ids, that follows its ids behind a -2 each.
  std::string hash() const;
};

// The text of a first session (assets/texts/default.txt).
formats::NamedText first_session_text();

// Texts that somebody reads, what they are, and what has to be said of the choice.
struct Collection {
  std::vector<formats::NamedText> texts;
  std::string source, note;
};

// How many tokens a reader makes of a text.
using TokenCount = std::function<std::int64_t(const std::string& text)>;
// By a tokenizer that outlives it.
TokenCount counted_by(const formats::Tokenizer& tokenizer,
                      formats::Template use = formats::Template::apply);

// The fewest texts that give an interval worth something.
inline constexpr std::int64_t kEnoughTexts = 24;

// The bundled texts for a reader of `length` tokens: the validation texts
// (assets/texts/validation.jsonl, 4 to 7 kB each), or, where fewer than kEnoughTexts of them have
// so many, the long ones (assets/texts/long.jsonl, 37 to 39 kB each); the note says so.
Collection bundled_texts(const TokenCount& tokens, std::int64_t length);

// The text of an input, of whichever kind; nothing where it gives something else.
std::optional<formats::NamedText> given_text(const protocol::Input& input);

// The texts of a corpus as requests have it: true or "desk", the bundled ones; a path as
// formats::read_corpus() has it; or a list of texts or of {"name", "text"}. A file of plain text is
// cut into texts of somewhat more than `length` tokens, which the note says. Throws Error.
Collection corpus_texts(const nlohmann::json& corpus, const TokenCount& tokens,
                        std::int64_t length);

// Texts through a tokenizer with its own template, each cut to `length` tokens (0: not cut).
// Throws Error "bad_input" for an empty text.
Texts tokenised(const std::vector<formats::NamedText>& texts, const formats::Tokenizer& tokenizer,
                std::int64_t length);

// Ids as they are; checked against the vocabulary. Cut to `length` tokens (0: not cut). `source`
// names the file they are from, for errors. Throws Error "bad_input" for none, and for ids outside
// the vocabulary.
Texts texts_of_ids(const std::vector<std::vector<std::int64_t>>& ids, std::int64_t vocabulary,
                   std::int64_t length, const std::string& source = "ids");

// How many are drawn where a model with a tokenizer reads the validation texts.
inline constexpr std::int64_t kRandomTexts = 64;

// Seeded random ids, for a model without a tokenizer.
Texts random_texts(std::int64_t count, std::int64_t length, std::int64_t vocabulary,
                   std::uint64_t seed);

}  // namespace phasescope::analysis
