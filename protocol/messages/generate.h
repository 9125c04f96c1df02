#pragma once
// Continued texts.
#include <cstdint>
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
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    running.fields(v);
    v("tokens", tokens, About{.help = "how many to add", .low = 1, .high = 1e6});
    v("temperature", temperature, About{.help = "0 is greedy", .low = 0});
    v("whole", whole,
      About{.help = "the whole text is read again for every token, without a cache of keys and "
                    "values"});
    v("extend", extend,
      About{.help = "past the trained context positions go on; otherwise the last tokens that fit "
                    "are read again as a text of their own"});
  }
};

struct GenerateResult {
  std::string model, prompt, text;
  std::vector<int64_t> ids;
  // Whether keys and values of earlier tokens were kept: "yes", "no: " and why, or how far.
  std::string cache;
  std::vector<double> seconds;  // of each token; the first one's with the prompt
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("prompt", prompt), v("text", text), v("ids", ids);
    v("cache", cache), v("seconds", seconds, About{.title = "time", .unit = "s"});
    v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
