#pragma once
// How much a head's scores move with position, and how often the content decides whatever it is.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/messages/questions.h"

namespace phasescope::protocol {

// The positional and the semantic score (arXiv 2609.39929) of every head: a ProfileResult.
struct ProfileRequest {
  static constexpr const char* method = "profile";
  static constexpr const char* verb = "profile";
  std::string model;
  Running running;
  QuestionTexts reading;
  QuestionHeads chosen;
  std::int64_t window = 0, samples = 256;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    chosen.fields(v);
    running.fields(v);
    v("window", window,
      About{.help = "how many distances are looked at, from 0 on (default: the trained length)",
            .unit = "tokens",
            .low = 0,
            .high = 1 << 20});
    v("samples", samples,
      About{
          .help = "how many pairs, and triplets of a query and two keys, are drawn from each text",
          .title = "Samples of a text",
          .low = 1,
          .high = 1 << 20});
  }
};

// Means over sampled pairs and triplets; null, with `why`, where none of them is valid. positional:
// mean step of s(t) over the norm of the planes' amplitudes; positional_row: over the deviation of
// the row's scores. semantic: how surely the sign of d(t) is that of d(0), by a Gaussian;
// semantic_share: for how many t it is. high_frequency: share of the amplitudes' norm that turns by
// 2 and more.
struct ProfileRow {
  std::int64_t layer = 0, head = 0;
  std::optional<Interval> positional, positional_row, semantic, semantic_share, high_frequency;
  std::int64_t ties = 0, invalid = 0;  // triplets that were left out; rows and variances
  std::string why;                     // of every number that is null
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("positional", positional, About{.or_null = true});
    v("positional_row", positional_row, About{.or_null = true});
    v("semantic", semantic, About{.or_null = true});
    v("semantic_share", semantic_share, About{.or_null = true});
    v("high_frequency", high_frequency, About{.or_null = true});
    v("ties", ties), v("invalid", invalid), v("why", why);
  }
};

struct ProfileResult {
  std::string model, formula;
  std::int64_t window = 0, samples = 0;
  std::vector<ProfileRow> rows;
  std::vector<std::string> texts;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("formula", formula), v("window", window), v("samples", samples);
    v("rows", rows), v("texts", texts), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
