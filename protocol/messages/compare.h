#pragma once
// The same text through several models, or two texts through one.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/loss_blocks.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// The same text through several models, each beside the first, or two texts through one: a
// CompareResult.
struct CompareRequest {
  static constexpr const char* method = "compare";
  static constexpr const char* verb = "compare";
  std::string a, b;
  std::vector<std::string> models;
  Running running;
  ReadingMany reading;
  std::string other;
  bool match = false;
  std::string stack;
  template <class V>
  void fields(V& v) {
    v("a", a, About{.help = "the first of two models", .wire_only = true});
    v("b", b, About{.help = "the second of two models", .wire_only = true});
    v("models", models,
      About{.help = "two or more, each beside the first: bundled names, folders, .safetensors "
                    "files, a run's folder JOB/checkpoints for all that are in it; or one with "
                    "--other",
            .argument = "MODEL",
            .repeats = true});
    reading.fields(v);
    running.fields(v);
    v("other", other, About{.help = "file of a second text, read by the same model"});
    v("match", match,
      About{.help = "also the pairs of heads, one of each model and of any layer, that are most "
                    "alike together"});
    v("stack", stack, kStackAbout);
  }
};

struct HeadDivergence {
  std::int64_t layer = 0, head = 0;
  double js_divergence = 0;  // nats, mean over rows
  IntervalEnd low, high;     // 95 % interval over n texts, or over the 8 blocks of one
  std::int64_t n = 0;
  std::string method = "none";
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head);
    v("js_divergence", js_divergence, About{.title = "Jensen-Shannon divergence", .unit = "nats"});
    v("low", low), v("high", high), v("n", n), v("method", method, About{.title = "interval by"});
  }
};

// Heads that do the most alike: `js_divergence` of head (layer, head) of a and head (other_layer,
// other_head) of b. The pairs have the smallest sum that any pairing of different heads has, on
// texts 0, 2, ..; the number and its interval are of texts 1, 3, ... Of one text there is no other
// to tell it of: the number is that which was chosen by, without an interval.
struct HeadMatch {
  std::int64_t layer = 0, head = 0, other_layer = 0, other_head = 0;
  Interval js_divergence;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("other_layer", other_layer), v("other_head", other_head);
    v("js_divergence", js_divergence, About{.title = "Jensen-Shannon divergence", .unit = "nats"});
  }
};

// A further model beside the first; fields as those of a CompareResult.
struct ComparePair {
  std::string a, b, stack, other_stack;
  std::map<std::string, double> loss;
  Interval loss_difference;
  std::vector<LossBlock> positions;
  std::vector<HeadDivergence> heads;
  std::vector<HeadMatch> matches;
  std::string note;
  template <class V>
  void fields(V& v) {
    v("a", a), v("b", b), v("stack", stack), v("other_stack", other_stack);
    v("loss", loss, About{.unit = "nats a token"});
    v("loss_difference", loss_difference,
      About{.title = "loss of b - loss of a", .unit = "nats a token"});
    v("positions", positions), v("heads", heads), v("matches", matches), v("note", note);
  }
};

// Tensor `js_between` (La Ha, Lb Hb) f64 where heads are matched, mean over texts: every head of a
// beside every head of b; of further models `js_between_2`, `js_between_3`, ...
struct CompareResult {
  std::string a, b;
  std::string stack, other_stack;      // of a and of b, as in HeadsResult
  std::map<std::string, double> loss;  // "a", "b", "difference": nats a token
  Interval loss_difference;            // b - a, text by text
  std::vector<HeadDivergence> heads;
  std::vector<LossBlock> positions;
  std::vector<HeadMatch> matches;
  std::vector<ComparePair> others;  // further models beside a
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("a", a), v("b", b), v("stack", stack), v("other_stack", other_stack);
    v("loss", loss, About{.unit = "nats a token"});
    v("loss_difference", loss_difference,
      About{.title = "loss of b - loss of a", .unit = "nats a token"});
    v("heads", heads), v("positions", positions), v("matches", matches), v("others", others);
    v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
