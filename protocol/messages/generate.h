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
  template <class V>
  void fields(V& v) {
    v("model", model, About{.help = kModelHelp, .argument = "MODEL"});
    reading.fields(v);
    running.fields(v);
    v("tokens", tokens, About{.help = "how many to add", .low = 1, .high = 1e6});
    v("temperature", temperature, About{.help = "0 is greedy", .low = 0});
  }
};

struct GenerateResult {
  std::string model, prompt, text;
  std::vector<int64_t> ids;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("prompt", prompt), v("text", text), v("ids", ids);
    v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
