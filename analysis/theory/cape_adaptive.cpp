#include "analysis/theory/cape_adaptive.h"

#include <algorithm>
#include <map>

#include "analysis/theory/equality.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

// The bias that each head gives the query at `query` of every text: score less content.
std::map<LayerHead, AdaptiveBias> biases_of(const CheckContext& context, std::int64_t query) {
  const SpreadKeys keys(query, context.model->decoder.device());
  std::map<LayerHead, AdaptiveBias> heads;
  const auto texts = static_cast<double>(context.texts->items.size());
  double done = 0;
  for (const Text& text : context.texts->items) {
    context.progress->throw_if_cancelled();
    context.progress->progress(done++ / texts, "reading contexts");
    if (static_cast<std::int64_t>(text.ids.size()) <= query) continue;
    TextPass pass(context.model,
                  ids_tensor(std::span(text.ids).first(static_cast<std::size_t>(query + 1))),
                  asked_options(context));
    pass.visit_layers_with_maps(
        [&](const AttentionPointer& attention) { add_biases(*attention, keys, heads); });
  }
  return heads;
}

// The largest last place of as many texts as a class needs.
std::int64_t common_query(const Texts& texts) {
  std::vector<std::int64_t> lengths;
  for (const Text& text : texts.items) {
    lengths.push_back(static_cast<std::int64_t>(text.ids.size()));
  }
  if (lengths.size() < kFewestContexts) return 0;
  std::ranges::sort(lengths, std::greater<>());
  return lengths[kFewestContexts - 1] - 1;
}

CheckResult run_cape_adaptive(const CheckContext& context) {
  if (context.model->config().encoding.key != "cape") {
    return not_measured(Verdict::premise_not_met,
                        "premise: a bias that the content corrects; this model's encoding is " +
                            context.model->config().encoding.key);
  }
  const std::int64_t query = common_query(*context.texts);
  if (query < 8) {
    return not_measured(Verdict::undecided, "needs at least " + std::to_string(kFewestContexts) +
                                                " texts of 9 tokens or more, but got " +
                                                std::to_string(context.texts->items.size()) +
                                                " (their number decides, whatever they hold)");
  }
  std::map<std::string, std::int64_t> kinds;
  double least = 1e300, largest_share = 0;
  std::vector<Part> share;  // of all heads, by context
  std::size_t contexts = 0;
  CheckCurve over = curve_of("variance over contexts", {"head", "variance", false, true}, {}, {});
  CheckCurve by = curve_of("variance over distance", {"head", "variance", false, true}, {}, {});
  CheckCurve slopes = curve_of("slope in ln(distance)", {"head", "slope", false, false}, {}, {});
  for (const auto& [of, bias] : biases_of(context, query)) {
    const AdaptiveHead head = adaptive_head(bias, context.seed);
    contexts = bias.values.size();
    ++kinds[head.kind];
    const auto at = static_cast<double>(over.x.size());
    for (CheckCurve* curve : {&over, &by, &slopes}) curve->x.push_back(at);
    over.y.push_back(head.over_contexts), by.y.push_back(head.over_distance);
    slopes.y.push_back(head.slope.mean);
    least =
        std::isnan(head.over_contexts) ? head.over_contexts : std::min(least, head.over_contexts);
    largest_share =
        worst_of(largest_share, head.over_contexts / std::max(head.over_distance, 1e-300));
    share.resize(contexts);
    for (std::size_t n = 0; n < contexts; ++n) {
      share[n].sum += head.share[n].sum, share[n].weight += head.share[n].weight;
    }
  }
  std::string classes;
  for (const auto& [kind, count] : kinds) classes += " " + std::to_string(count) + " " + kind;
  // Scores of float32 of a size of some tens: their rounding squared.
  constexpr double kRounding = 1e-10;
  CheckResult result = answer(
      least > kRounding ? Verdict::holds : Verdict::fails,
      {least, kRounding, 0, static_cast<std::int64_t>(contexts)},
      "query " + std::to_string(query) + " of " + std::to_string(contexts) +
          " contexts: the bias of every head varies over contexts by a "
          "variance of " +
          short_number(least) + " or more (as a share of the variance over distance: " +
          interval_text(contexts_share(share, Draws(context.seed))) + " of all heads together, " +
          short_number(largest_share) + " where it is most); heads:" + classes);
  result.curves = {std::move(over), std::move(by), std::move(slopes)};
  return result;
}

}  // namespace

TheoryCheck cape_adaptive() {
  return {
      {.id = "cape.adaptive",
       .statement = "At a fixed query, key and head the bias varies with the context; heads are "
                    "local, anti-local or flat by its slope in ln(distance).",
       .source = "arXiv 2405.14722, Figure 1",
       .title = "CAPE's bias varies with the context",
       .needs = "a CAPE model and 64 texts or more",
       .rule = "holds where the bias of every head varies over contexts by more than rounding; "
               "a head is local or anti-local where the 95 % interval of its slope over at "
               "least 64 contexts leaves out 0, else flat"},
      &run_cape_adaptive,
      On::model};
}

}  // namespace phasescope::analysis
