#pragma once
// A text as a model reads it: tokens, losses, guesses.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// Loss and guesses of every token: a TextResult.
struct TextRequest {
  static constexpr const char* method = "text.read";
  static constexpr const char* verb = "text";
  std::string model;
  Running running;
  Reading reading;
  std::int64_t guesses = 5;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    running.fields(v);
    v("guesses", guesses,
      About{.help = "how many of the model's likeliest tokens are listed at each place",
            .low = 0,
            .high = 100});
  }
};

struct Guess {
  std::int64_t id = 0;
  std::string text;
  double probability = 0;
  template <class V>
  void fields(V& v) {
    v("id", id), v("text", text), v("probability", probability);
  }
};

struct TokenReading {
  std::int64_t id = 0;
  std::string text;                 // visible whitespace
  std::int64_t begin = 0, end = 0;  // byte offsets in the text
  std::optional<double> loss;       // nats, of predicting this token; none for the first
  std::vector<Guess> guesses;       // what the model expected here, best first
  template <class V>
  void fields(V& v) {
    v("id", id), v("text", text), v("begin", begin, About{.unit = "bytes"});
    v("end", end, About{.unit = "bytes"}), v("loss", loss, About{.unit = "nats"});
    v("guesses", guesses);
  }
};

struct TextResult {
  std::string model;
  std::vector<TokenReading> tokens;
  double loss = 0;           // nats a token
  double bits_per_byte = 0;  // nan where the tokenizer is not by bytes and there is no text
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("tokens", tokens), v("loss", loss, About{.unit = "nats a token"});
    v("bits_per_byte", bits_per_byte, About{.title = "loss", .unit = "bits a byte"});
    v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
