#pragma once
// What a model loses where heads are taken out of it, held back, or its encoding is read otherwise.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/messages/loss_blocks.h"
#include "protocol/messages/questions.h"

namespace phasescope::protocol {

// The model beside readings of itself in which something is changed: an AblateResult. What `set`
// changes is part of every one of them; the model before them is read as it is named.
struct AblateRequest {
  static constexpr const char* method = "ablate";
  static constexpr const char* verb = "ablate";
  std::string model;
  Running running;
  QuestionTexts reading;
  std::vector<std::string> head;
  std::string how = "zero";
  std::optional<double> limit;
  std::string by;
  std::string maps = "auto";
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    running.fields(v);
    v("head", head,
      About{.help = "heads (L3H1), layers (L3: all its heads) or all, comma separated (default: "
                    "every head; with --set the settings alone)"});
    v("how", how,
      About{.help = "what is done to a head: its output is replaced by zeros (zero), by its mean "
                    "over the texts (mean) or by its output at a random row that is no later "
                    "(resample); or --limit L changes it: keys at L and farther are not seen "
                    "(window), keys farther than L are read as if they stood at L (clamp), key 0 "
                    "gets a weight of L at most (sink), what the encoding adds to the score is "
                    "multiplied by L (bias)",
            .title = "What is done",
            .choices = "zero|mean|resample|window|clamp|sink|bias"});
    v("limit", limit,
      About{.help = "tokens of window and clamp, the weight of sink, or the factor of bias"});
    v("by", by,
      About{.help = "heads one by one, layer by layer, or together (default: together where heads "
                    "are named, else one by one)",
            .title = "At a time",
            .choices = "head|layer|together"});
    v("maps", maps,
      About{.help = "also measure how far every head's map moves, by a pass over whole maps (auto: "
                    "where there are 4 changes at most)",
            .title = "How far maps move",
            .choices = "auto|yes|no"});
  }
};

// How far the map of one head moves: the Jensen-Shannon divergence of its rows before and after.
struct MapChange {
  std::int64_t layer = 0, head = 0;
  Interval divergence;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head);
    v("divergence", divergence, About{.title = "Jensen-Shannon divergence", .unit = "nats"});
  }
};

// One change. `reading` opens it again in every verb.
struct AblateRow {
  std::string change, reading;
  std::optional<std::int64_t> layer, head;  // where it is of one head, or of the heads of one layer
  Interval loss, loss_change;
  Interval logits_divergence, guesses_changed;
  std::vector<LossBlock> positions;
  std::vector<MapChange> maps;  // empty where they are not measured
  template <class V>
  void fields(V& v) {
    v("change", change), v("reading", reading), v("layer", layer), v("head", head);
    v("loss", loss, About{.unit = "nats a token"});
    v("loss_change", loss_change, About{.title = "change of the loss", .unit = "nats a token"});
    v("logits_divergence", logits_divergence, About{.title = "KL of the guesses", .unit = "nats"});
    v("guesses_changed", guesses_changed, About{.title = "share of first guesses that change"});
    v("positions", positions), v("maps", maps);
  }
};

// Tensor `mean` (layers, heads, d) f32, of how = mean: the mean output of every head, which
// "ablation_means" reads.
struct AblateResult {
  std::string model, formula;
  std::int64_t layers = 0, heads = 0;
  Interval loss;  // of the model as it is
  std::vector<AblateRow> rows;
  std::int64_t passes = 0;
  std::vector<std::string> texts;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("formula", formula), v("layers", layers), v("heads", heads);
    v("loss", loss, About{.unit = "nats a token"});
    v("rows", rows), v("passes", passes), v("texts", texts), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
