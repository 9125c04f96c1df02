#pragma once
// A text as a model reads it: the loss of every token and what it expected there; and what it
// writes itself.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/map.h"
#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "protocol/messages/generate.h"
#include "protocol/messages/text.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

// `guesses`: how many next-token guesses each token gets (those made before it was read). Where the
// model has no loss of the next token there are neither losses nor guesses, the means are NaN, and
// the result's note says why.
protocol::TextResult analyse_text(TextPass& pass, const Text& text, std::int64_t guesses);

// Bytes as text that JSON can carry: what is no UTF-8 becomes U+FFFD.
std::string as_utf8(std::string_view bytes);

struct GenerateOptions {
  std::int64_t tokens = 64;
  double temperature = 0;  // 0: greedy
  std::uint64_t seed = 0;
  model::Backend backend = model::Backend::fused;
  bool whole = false;                 // every token reads the whole text again
  bool extend = false;                // positions go on past the context
  std::optional<HeadName> head = {};  // whose weights each token was written with are wanted
  std::int64_t top = 3;               // so many keys of it
};

// Continues the text token by token, each of which reads the one before it: keys and values of the
// others are kept (model/key_value_cache.h) where the model allows it. No token is seen at a
// position the model was not trained for, unless options.extend says so: each time the context is
// full, its last three quarters begin again as a text of their own, so that a token costs a quarter
// of a context's worth of reading three more, however long the text is. Result::cache says which it
// was. An encoder-decoder's encoder reads the
// text, and its decoder writes from its start token on. Without a tokenizer the result has ids and
// no text, and its note says so; its kernel is what ran. Throws Error "bad_usage" for options,
// "not_applicable" for a model that has no loss of the next token, and so no next token, and for
// a head that is not there. With options.head, progress says what was written last and where that
// head looked, token by token; an encoder-decoder's decoder is looked at.
protocol::GenerateResult generate(const model::Model& model, const Text& prompt,
                                  const GenerateOptions& options, protocol::Progress& progress);

}  // namespace phasescope::analysis
