#pragma once
// At which distances each head wants more weight, and the bias that would repair the model.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/messages/questions.h"

namespace phasescope::protocol {

// What the loss gains where weight moves: a DemandResult. With `fit` also the bias by layer, head
// and distance that lowers it, as tensors `table` (L, H, K) and `edges` (K) where it helps.
struct DemandRequest {
  static constexpr const char* method = "demand";
  static constexpr const char* verb = "demand";
  std::string model;
  Running running;
  QuestionTexts reading;
  QuestionHeads chosen;
  bool fit = false;
  std::int64_t steps = 12;
  std::string start = "zero";
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    chosen.fields(v);
    running.fields(v);
    v("fit", fit,
      About{.help = "also fit a bias by layer, head and distance (12 texts or more); --out "
                    "FILE.safetensors keeps it, \"MODEL (bias_table=FILE)\" reads it",
            .title = "Fit a bias"});
    v("steps", steps,
      About{.help = "largest number of steps of the fit",
            .title = "Steps of the fit",
            .low = 1,
            .high = 1000,
            .needs = "fit"});
    v("start", start,
      About{.help = "what the fit starts from: zero, or window:W",
            .title = "The fit starts from",
            .needs = "fit"});
  }
};

// `demand`: one a bucket, bits a token per unit of score; positive where the loss falls if weight
// moves there. The sum over the bucket's distances.
struct DemandRow {
  std::int64_t layer = 0, head = 0;
  std::vector<Interval> demand;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("demand", demand);
  }
};

// Keys this far and farther hidden from every head: of the loss on the test texts, bits a token,
// the change, and what it is less the fitted bias's.
struct DemandWindow {
  std::int64_t window = 0;
  Interval change, over_fit;
  template <class V>
  void fields(V& v) {
    v("window", window), v("change", change);
    v("over_fit", over_fit, About{.title = "change less the fit's"});
  }
};

// Losses in bits a token; `change` is after - before on texts that nothing was fitted to or chosen
// by.
struct DemandFit {
  Interval before, after, change;
  std::int64_t step = 0;       // the best one on `choose`; 0 is the start without any bias
  std::vector<double> choose;  // loss after each step
  std::vector<DemandWindow> windows;
  bool helps = false;
  std::string why;  // where it does not
  template <class V>
  void fields(V& v) {
    v("before", before), v("after", after), v("change", change), v("step", step);
    v("choose", choose), v("windows", windows), v("helps", helps), v("why", why);
  }
};

struct DemandResult {
  std::string model, formula;
  std::vector<std::int64_t> edges;  // bucket n is [edges[n], edges[n + 1]), the last one to the end
  std::vector<DemandRow> rows;
  std::int64_t trained = 0;
  Interval share_beyond_trained;  // of the sum of |demand|
  Interval loss;                  // bits a token
  std::optional<DemandFit> fit;
  std::vector<std::string> texts;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("formula", formula), v("edges", edges), v("rows", rows);
    v("trained", trained), v("share_beyond_trained", share_beyond_trained), v("loss", loss);
    v("fit", fit), v("texts", texts), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
