#include "analysis/questions/common.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "analysis/model_sides.h"
#include "formats/error.h"
#include "model/layers.h"

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
    throw formats::bad_usage("there is no " + one_of + " " + std::to_string(one) + ": there are " +
                                 std::to_string(count) + ", counted from 0",
                             option);
  }
  return asked;
}

}  // namespace

ChosenHeads::ChosenHeads(const model::ModelConfig& config, std::vector<std::int64_t> layers,
                         const std::vector<std::int64_t>& heads) {
  require_some_maps(config);
  const bool named = !layers.empty();
  const std::vector<std::int64_t> wanted = chosen_of(heads, config.heads, "head", "heads");
  for (const std::int64_t layer : chosen_of(std::move(layers), config.layers, "layer", "layers")) {
    std::vector<std::int64_t> there;
    std::ranges::copy_if(wanted, std::back_inserter(there),
                         [&](std::int64_t head) { return has_head(config, layer, head); });
    if (named && there.empty()) {
      const std::int64_t count = model::heads_of_layer(config, layer);
      throw formats::bad_usage(
          count == 0 ? words_of_no_maps(layer)
                     : "layer " + std::to_string(layer) + " has " + std::to_string(count) +
                           " heads, none of those asked for",
          "layers",
          "the first layer with maps is " + std::to_string(first_layer_with_maps(config)));
    }
    if (!there.empty()) layers_.push_back(layer), heads_[layer] = std::move(there);
  }
}

const std::vector<std::int64_t>& ChosenHeads::heads_of(std::int64_t layer) const {
  static const std::vector<std::int64_t> none;
  const auto found = heads_.find(layer);
  return found == heads_.end() ? none : found->second;
}

std::string note_of_missing_heads(const model::Model& model) {
  const std::string why = missing_heads(model.config());
  return why.empty() ? why
                     : model.report.name + ": " + why + "; only the heads that there are have rows";
}

void require_causal(const model::Model& model, const std::string& what) {
  if (model.config().attention.causal && model.config().encoder_layers == 0) return;
  throw formats::Error("not_applicable",
                       what + " needs a causal decoder, and " + model.report.name + " is none");
}

protocol::PartOfProgress part_of_pass(protocol::Progress& progress, std::int64_t done,
                                      double expected) {
  const auto at = [expected](std::int64_t passes) {
    return std::min(1.0, static_cast<double>(passes) / expected);
  };
  return {progress, at(done), at(done + 1)};
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
