#pragma once
// What a model reads in an extrapolation task: texts by its own tokenizer, without the template.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/text_input.h"
#include "formats/tokenizer.h"
#include "training/evals/eval_task.h"

namespace phasescope::training {

// What was asked for.
struct EvalSource {
  nlohmann::json corpus = true;             // as analysis::corpus_texts() has it
  std::optional<formats::NamedText> given;  // one text in place of a corpus
  std::int64_t texts = 0;                   // at most so many, evenly spread; 0: all
  std::uint64_t seed = 0;                   // of ids drawn for a model without a tokenizer
};

// The source that a request names; `texts` as EvalSource has it. Throws Error "bad_usage" for an
// input that is no text.
EvalSource source_of(const protocol::EvalRequest& request, std::int64_t texts);

struct EvalText {
  std::string name;
  std::vector<std::int64_t> ids;
  std::vector<double> bytes;  // of each token; empty where ids were drawn
};

// The texts that are long enough for the shortest of `lengths`; a length is read from those that
// reach it, and the note says how many these are where they are not all.
struct EvalTexts {
  std::vector<EvalText> items;
  std::vector<std::int64_t>
      lengths;         // of those asked for, all that a text is long enough for; rising
  std::string source;  // "validation texts", "long texts", "texts of PATH", "given text"
  std::string note;    // texts and lengths that were left out, and why
  bool drawn = false;  // seeded random ids, which have no bytes
};

// `lengths` rising, not empty. Throws Error "bad_input" where no text is long enough for the
// shortest of them, and where a model without a tokenizer is to read a text.
EvalTexts eval_texts(const EvalModel& entry, const EvalSource& source,
                     const std::vector<std::int64_t>& lengths);

// Throws what eval_texts() would of a model with this tokenizer (null: it has none).
void check_eval_texts(const std::string& model, const formats::Tokenizer* tokenizer,
                      const EvalSource& source, const std::vector<std::int64_t>& lengths);

}  // namespace phasescope::training
