#pragma once
// Continued texts.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// Continues a text: a GenerateResult.
struct GenerateRequest {
  static constexpr const char* method = "generate";
  static constexpr const char* verb = "generate";
  std::string model;
  Running running;
  Reading reading;
  std::int64_t tokens = 64;
  double temperature = 0;
  bool whole = false;
  bool extend = false;
  std::string head;
  std::int64_t top = 3;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    v("input", reading.input, kInputAbout);
    v("length", reading.length,
      About{.help = "tokens read of the prompt (default: the trained context, or of a text that "
                    "nobody gave what leaves room for the tokens in it, half of it at least)",
            .unit = "tokens",
            .low = 1,
            .high = kMostTokens});
    v("seed", reading.seed, kSeedAbout);
    running.fields(v);
    v("tokens", tokens,
      About{.help = "how many to add", .title = "Tokens to add", .low = 1, .high = 1e6});
    v("temperature", temperature, About{.help = "0 is greedy", .low = 0});
    v("whole", whole,
      About{.help = "all that a token is written after is read again for it, without a cache of "
                    "keys and values",
            .title = "Read all again for each token"});
    v("extend", extend,
      About{.help = "past the trained context positions go on; otherwise, each time it is full, "
                    "its last three quarters are read again as a text of their own",
            .title = "Past the trained context"});
    v("head", head,
      About{.help = "where this head looks as each token is written, as it comes: L3H5, or L3 for "
                    "the mean of a layer's heads",
            .title = "Where this head looks"});
    v("top", top,
      About{.help = "keys of its largest weights that are named",
            .title = "Keys named",
            .low = 1,
            .high = 64,
            .needs = "head"});
  }
};

// A token that was written, and where the head that was asked for looked from the last token before
// it. Largest weights first, of equal ones the lower key; `keys` are places in the prompt and what
// was written behind it (of an encoder-decoder, in what it writes), `words` their texts.
struct WrittenToken {
  std::int64_t id = 0;
  std::string text;
  std::vector<std::int64_t> keys;
  std::vector<std::string> words;
  std::vector<double> weights;
  std::optional<double> sink;  // weight on the head's learned sink; left out without one
  template <class V>
  void fields(V& v) {
    v("id", id), v("text", text), v("keys", keys), v("words", words), v("weights", weights);
    v("sink", sink);
  }
};

struct GenerateResult {
  std::string model, prompt, text;
  std::vector<std::int64_t> ids;
  // Whether keys and values of earlier tokens were kept, "yes" or "no: " and why, and how often the
  // trained context was full.
  std::string cache;
  std::int64_t cached = 0;      // tokens that were written so: all, or none
  std::vector<double> seconds;  // of each token; the first one's with the prompt
  // Of the tokens, counted from 0, those for which the last three quarters of a full context were
  // read again.
  std::vector<std::int64_t> begun_at;
  std::string head;                  // as asked
  std::vector<WrittenToken> tokens;  // where a head was asked for
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("prompt", prompt), v("text", text), v("ids", ids);
    v("cache", cache), v("cached", cached, About{.title = "tokens written with a cache"});
    v("seconds", seconds, About{.title = "time", .unit = "s"});
    v("begun_at", begun_at, About{.title = "tokens at which a full context began anew"});
    v("head", head), v("tokens", tokens);
    v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
