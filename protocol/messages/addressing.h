#pragma once
// How much of a head's scores is distance, how much the key, and how much only the pair can say.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/messages/questions.h"

namespace phasescope::protocol {

// Least squares of the scores by row, distance and key: an AddressingResult.
struct AddressingRequest {
  static constexpr const char* method = "addressing";
  static constexpr const char* verb = "addressing";
  std::string model;
  Running running;
  QuestionTexts reading;
  QuestionHeads chosen;
  std::string of = "score";
  std::int64_t within = 0;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    chosen.fields(v);
    running.fields(v);
    v("of", of,
      About{.help = "what is split: the score, or the content score alone",
            .title = "What is split",
            .choices = "score|content"});
    v("within", within,
      About{
          .help =
              "only pairs less than this many tokens apart, 2 or more (0, the default: all pairs)",
          .title = "Pairs closer than",
          .unit = "tokens",
          .low = 0});
  }
};

// What scores without any structure would read; null where the texts are too short to leave room
// for any.
struct AddressingFloor {
  std::optional<double> distance, key;
  template <class V>
  void fields(V& v) {
    v("distance", distance, About{.or_null = true}), v("key", key, About{.or_null = true});
  }
};

// Shares of the variance within rows, but for `query`, which is one of the whole variance. Null,
// with `why`, where the scores do not vary within a row.
struct AddressingRow {
  std::int64_t layer = 0, head = 0;
  std::optional<Interval> distance_first, key_last, interaction, distance_last, key_first, trend,
      query;
  AddressingFloor floor;
  std::string why;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head);
    v("distance_first", distance_first, About{.title = "distance", .or_null = true});
    v("key_last", key_last, About{.title = "key", .or_null = true});
    v("interaction", interaction, About{.title = "pair", .or_null = true});
    v("distance_last", distance_last,
      About{.title = "distance, trend to the key", .or_null = true});
    v("key_first", key_first, About{.title = "key with the trend", .or_null = true});
    v("trend", trend, About{.or_null = true}), v("query", query, About{.or_null = true});
    v("floor", floor), v("why", why);
  }
};

struct AddressingResult {
  std::string model, of, formula;
  std::int64_t within = 0;  // 0: all pairs
  std::vector<AddressingRow> rows;
  std::vector<std::string> texts;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("of", of), v("formula", formula), v("within", within);
    v("rows", rows), v("texts", texts), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
