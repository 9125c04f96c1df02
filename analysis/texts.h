#pragma once
// Texts as an analysis reads them: token ids with the template of the model's tokenizer, cut to a
// length, and what has to be said about that.
#include <cstdint>
#include <string>
#include <vector>

#include "formats/text_input.h"
#include "formats/tokenizer.h"

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

  bool ids_alone() const {
    return position_ids.empty() && token_types.empty() && decoder_ids.empty();
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

// The bundled texts: the validation texts (assets/texts/validation.jsonl), and the first session's.
std::vector<formats::NamedText> bundled_validation_texts();
formats::NamedText first_session_text();

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
