#pragma once
// How finely a model needs to know distance, and at which distances.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/messages/questions.h"

namespace phasescope::protocol {

// The change of loss where keys of a band of distances are shown at each other's: an AcuityResult.
struct AcuityRequest {
  static constexpr const char* method = "acuity";
  static constexpr const char* verb = "acuity";
  std::string model;
  Opening running;  // rows at other distances are plain operations whatever runs attention
  QuestionTexts reading;
  QuestionHeads chosen;
  std::vector<std::string> bands;
  std::vector<std::int64_t> seeds{1, 2, 3};
  std::string by = "model";
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    chosen.fields(v);
    running.fields(v);
    v("bands", bands,
      About{.help = "bands of distances a:b, e.g. 1:3,4:9 (default: octaves to the trained length)",
            .title = "Bands of distances",
            .unit = "tokens"});
    v("seeds", seeds,
      About{.help = "seeds of the permutations", .title = "Seeds of the permutations", .low = 0});
    v("by", by,
      About{.help = "all heads at once (model), or each layer or each head alone as well",
            .title = "At a time",
            .choices = "model|layer|head"});
  }
};

// Keys at distances low <= lambda < high are permuted in every row. Bits a token, treated - plain;
// null, with `why`, where no row sees the band.
struct AcuityBand {
  std::int64_t low = 0, high = 0;
  std::optional<Interval> change;       // of all rows
  std::optional<Interval> change_seen;  // of rows that see at least half of the band
  std::int64_t rows_seen = 0;           // of all texts
  std::vector<double> by_seed;          // change_seen of each seed
  std::string why;
  template <class V>
  void fields(V& v) {
    v("low", low), v("high", high), v("change", change, About{.or_null = true});
    v("change_seen", change_seen, About{.or_null = true});
    v("rows_seen", rows_seen), v("by_seed", by_seed), v("why", why);
  }
};

// The changes of the loss where one layer (head -1) or one head alone is shown other distances.
struct AcuityRow {
  std::int64_t layer = 0, head = -1;
  std::vector<AcuityBand> bands;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("bands", bands);
  }
};

struct AcuityResult {
  std::string model, formula;
  std::int64_t trained = 0, passes = 0;
  std::vector<std::int64_t> seeds;
  std::vector<AcuityBand> bands;
  std::vector<AcuityRow> rows;  // on request
  std::vector<std::string> texts;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("formula", formula), v("trained", trained), v("passes", passes);
    v("seeds", seeds), v("bands", bands), v("rows", rows), v("texts", texts);
    v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
