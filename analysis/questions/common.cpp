#include "analysis/questions/common.h"

#include <algorithm>
#include <numeric>

#include "analysis/model_sides.h"
#include "formats/error.h"

namespace phasescope::analysis {
namespace {

std::vector<std::int64_t> chosen_of(std::vector<std::int64_t> asked, std::int64_t count,
                                    const std::string& one_of, const char* option) {
  if (asked.empty()) {
    asked.resize(static_cast<std::size_t>(count));
    std::iota(asked.begin(), asked.end(), 0);
  }
  for (const std::int64_t one : asked) {
    if (one >= 0 && one < count) continue;
    throw formats::bad_usage("there is no " + one_of + " " + std::to_string(one) + " among " +
                                 std::to_string(count) + ", counted from 0",
                             option);
  }
  return asked;
}

}  // namespace

ChosenHeads::ChosenHeads(const model::ModelConfig& config, std::vector<std::int64_t> layers,
                         std::vector<std::int64_t> heads)
    : layers_(chosen_of(std::move(layers), config.layers, "layer", "layers")),
      heads_(chosen_of(std::move(heads), config.heads, "head", "heads")) {}

bool ChosenHeads::layer(std::int64_t index) const {
  return std::ranges::find(layers_, index) != layers_.end();
}

void require_causal(const model::Model& model, const std::string& what) {
  if (model.config().attention.causal && model.config().encoder_layers == 0) return;
  throw formats::Error("not_applicable",
                       what + " needs a causal decoder, and " + model.report.name + " is none");
}

void require_losses(const model::Model& model, const Texts& texts) {
  if (!model.config().head.present) {
    throw formats::Error("not_applicable",
                         model.report.name + " has no head, and so no loss of the next token");
  }
  const std::int64_t known = tokens_with_logits(model.config());
  for (const Text& text : texts.items) {
    if (text.ids.size() < 2) {
      throw formats::bad_input("a text of one token has no loss of the next one", text.name);
    }
    if (std::any_of(text.ids.begin() + 1, text.ids.end(), [&](auto id) { return id >= known; })) {
      throw formats::bad_input("a token of the text is beyond the " + std::to_string(known) +
                                   " that have a logit, and has no loss",
                               text.name);
    }
  }
}

}  // namespace phasescope::analysis
