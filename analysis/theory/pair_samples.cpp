#include "analysis/theory/pair_samples.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/random.h"
#include "analysis/score_pairs.h"
#include "analysis/theory/equality.h"

namespace phasescope::analysis {
namespace {

DrawnPairs drawn_pairs(std::int64_t text, std::int64_t tokens, std::uint64_t seed,
                       const std::vector<std::int64_t>& distances, std::int64_t a_distance,
                       const at::Device& device) {
  Random random(seed * 7919 + static_cast<std::uint64_t>(text));
  std::vector<std::int64_t> queries, keys;
  for (const std::int64_t distance : distances) {
    for (std::int64_t n = 0; n < a_distance; ++n) {
      queries.push_back(random.between(distance, tokens));
      keys.push_back(queries.back() - distance);
    }
  }
  return {text, a_distance, model::TokenPairs(pairs_of_tokens(queries, keys), device)};
}

}  // namespace

std::vector<std::int64_t> reached_distances(const Texts& texts, int count, bool logarithmic) {
  std::vector<std::int64_t> lengths;
  for (const Text& text : texts.items) {
    lengths.push_back(static_cast<std::int64_t>(text.ids.size()));
  }
  std::ranges::sort(lengths, std::greater<>());
  if (static_cast<std::int64_t>(lengths.size()) < kFewestClusters) return {};
  const auto last = static_cast<double>(lengths[kFewestClusters - 1] - 2);
  if (last < 2) return {};
  std::set<std::int64_t> distances;
  for (int n = 0; n < count; ++n) {
    const double share = static_cast<double>(n) / (count - 1);
    distances.insert(std::llround(logarithmic ? std::pow(last, share) : 1 + share * (last - 1)));
  }
  return {distances.begin(), distances.end()};
}

void visit_pairs(const CheckContext& context, const std::shared_ptr<const model::Model>& model,
                 const std::vector<std::int64_t>& distances, std::int64_t pairs,
                 const PairVisitor& visitor) {
  const at::NoGradGuard no_gradients;
  const std::vector<Text>& texts = context.texts->items;
  std::int64_t used = 0;
  const auto reaches = [&](const Text& text) {
    return static_cast<std::int64_t>(text.ids.size()) > distances.back() + 1;
  };
  for (const Text& text : texts) used += reaches(text);
  const std::int64_t parts =
      std::max<std::int64_t>(1, used) * static_cast<std::int64_t>(distances.size());
  for (std::size_t t = 0; t < texts.size(); ++t) {
    context.progress->throw_if_cancelled();
    context.progress->progress(static_cast<double>(t) / static_cast<double>(texts.size()),
                               "sampling pairs");
    if (!reaches(texts[t])) continue;
    const DrawnPairs drawn = drawn_pairs(
        static_cast<std::int64_t>(t), static_cast<std::int64_t>(texts[t].ids.size()), context.seed,
        distances, std::max<std::int64_t>(1, pairs / parts), model->decoder.device());
    TextPass pass(model, ids_tensor(texts[t].ids), asked_options(context));
    pass.visit_layers_with_maps(
        [&](const AttentionPointer& attention) { visitor(drawn, *attention); });
  }
}

}  // namespace phasescope::analysis
