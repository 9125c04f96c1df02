#include "analysis/compare.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/divergence.h"
#include "analysis/intervals/intervals.h"
#include "analysis/paired_rows.h"
#include "analysis/pairing.h"
#include "analysis/tensors.h"
#include "formats/error.h"

namespace phasescope::analysis {
namespace {

void require_same_sides(const model::Model& a, const model::Model& b) {
  const bool causal = a.config().attention.causal;
  if (causal == b.config().attention.causal) return;
  const std::string& one = (causal ? a : b).report.name;
  const std::string& other = (causal ? b : a).report.name;
  throw formats::bad_input("the rows of a causal model, " + one +
                               ", and of one that sees both ways, " + other +
                               ", are over different keys, so they cannot be compared",
                           "models", "compare two models of one kind");
}

// What is left out of the comparison; empty for nothing.
std::string left_out(const model::Model& a, const model::Model& b) {
  std::string note;
  for (const model::Model* model : {&a, &b}) {
    if (model->config().encoder_layers > 0) {
      note += (note.empty() ? "" : "; ") + model->report.name +
              " is compared by its decoder's self-attention";
    }
  }
  const auto size = [](const model::Model& model) {
    return model.report.name + " has " + std::to_string(model.config().layers) + " layers of " +
           std::to_string(model.config().heads) + " heads";
  };
  if (a.config().layers != b.config().layers || a.config().heads != b.config().heads) {
    note += (note.empty() ? "" : "; ") + size(a) + " and " + size(b) +
            ": those that both have are compared";
  }
  return note;
}

// Losses of the predicted tokens of one text by one model; NaN where it has none.
at::Tensor losses_of(TextPass& pass) {
  if (!pass.loss_obstacle().empty())
    return at::full({pass.tokens() - 1}, std::nan(""), at::kDouble);
  return pass.losses()[0].to(at::kDouble);
}

// What two passes of one text say of each other's heads.
struct TextHeads {
  at::Tensor rows;     // (L, H, N): every row of every common head
  at::Tensor between;  // (La Ha, Lb Hb): every two heads; undefined where it is not asked for
};

TextHeads text_heads(TextPass& a, TextPass& b, bool match, protocol::Progress& progress) {
  if (a.tokens() != b.tokens()) {
    throw formats::bad_input("the models read different numbers of tokens, " +
                                 std::to_string(a.tokens()) + " and " + std::to_string(b.tokens()),
                             "length", "give a length that both read");
  }
  std::vector<AttentionPointer> layers, others;
  a.visit_layers([&layers](const AttentionPointer& attention) { layers.push_back(attention); });
  std::vector<at::Tensor> rows;
  b.visit_layers([&](const AttentionPointer& attention) {
    const auto l = static_cast<std::size_t>(attention->layer());
    if (l < layers.size()) rows.push_back(divergence_of(*layers[l], *attention, &progress));
    if (match) others.push_back(attention);
  });
  TextHeads heads{at::stack(rows), {}};
  if (match) heads.between = divergence_between(layers, others, &progress);
  return heads;
}

// The pairs of texts 0, 2, .., told of texts 1, 3, ..; `texts` are (La Ha, Lb Hb) each.
std::vector<protocol::HeadMatch> matches_of(const std::vector<at::Tensor>& texts,
                                            std::int64_t heads, std::int64_t other_heads,
                                            const Draws& draws) {
  at::Tensor costs = at::zeros_like(texts[0]);
  for (std::size_t t = 0; t < texts.size(); t += 2) costs += texts[t];
  std::vector<protocol::HeadMatch> matches;
  for (const auto& [one, other] :
       cheapest_pairs(to_vector<double>(costs), costs.size(0), costs.size(1))) {
    std::vector<double> told;
    for (std::size_t t = texts.size() > 1 ? 1 : 0; t < texts.size(); t += 2) {
      told.push_back(texts[t][one][other].item<double>());
    }
    matches.push_back({one / heads, one % heads, other / other_heads, other % other_heads,
                       mean_interval(told, draws)});
  }
  return matches;
}

std::int64_t longest_of(const std::vector<std::shared_ptr<TextPass>>& passes) {
  std::int64_t longest = 0;
  for (const auto& pass : passes) longest = std::max(longest, pass->tokens());
  return longest;
}

}  // namespace

protocol::CompareResult analyse_compare(const std::vector<std::shared_ptr<TextPass>>& a,
                                        const std::vector<std::shared_ptr<TextPass>>& b,
                                        protocol::Progress& progress, const CompareOptions& options,
                                        at::Tensor* between) {
  protocol::CompareResult out;
  out.a = a[0]->model().report.name;
  out.b = b[0]->model().report.name;
  require_same_sides(a[0]->model(), b[0]->model());
  out.provenance.note = left_out(a[0]->model(), b[0]->model());
  RowMean loss_a, loss_b, difference;
  RowBlocks positions(longest_of(a) - 1);
  std::vector<RowMean> heads;
  std::vector<at::Tensor> every_two;
  std::int64_t heads_a_layer = 0;
  for (std::size_t t = 0; t < a.size(); ++t) {
    progress.throw_if_cancelled();
    progress.progress(static_cast<double>(t) / static_cast<double>(a.size()), "comparing");
    const double texts = static_cast<double>(a.size());
    protocol::PartOfProgress part(progress, static_cast<double>(t) / texts,
                                  static_cast<double>(t + 1) / texts);
    const TextHeads text = text_heads(*a[t], *b[t], options.match, part);
    if (options.match) every_two.push_back(text.between);
    heads_a_layer = text.rows.size(1);
    heads.resize(static_cast<std::size_t>(text.rows.size(0) * heads_a_layer));
    for (std::size_t n = 0; n < heads.size(); ++n) {
      heads[n].add(text.rows.flatten(0, 1)[static_cast<std::int64_t>(n)]);
    }
    const at::Tensor first = losses_of(*a[t]), second = losses_of(*b[t]);
    loss_a.add(first), loss_b.add(second), difference.add(second - first);
    positions.add(second - first);
    a[t]->release(), b[t]->release();
  }
  const Draws draws(options.seed);
  out.loss_difference = difference.interval(draws);
  out.loss = {{"a", loss_a.interval(draws).mean},
              {"b", loss_b.interval(draws).mean},
              {"difference", out.loss_difference.mean}};
  const bool has_losses = a[0]->loss_obstacle().empty() && b[0]->loss_obstacle().empty();
  for (const RowBlocks::Block& block : positions.blocks(draws)) {
    if (has_losses) out.positions.push_back({block.begin, block.end, block.mean});
  }
  for (TextPass* pass : {a[0].get(), b[0].get()}) {
    if (pass->loss_obstacle().empty()) continue;
    std::string& note = out.provenance.note;
    note += (note.empty() ? "" : "; ") + pass->model().report.name +
            " has no loss of the next token: " + pass->loss_obstacle();
  }
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const auto number = static_cast<std::int64_t>(n);
    const Interval interval = heads[n].interval(draws);
    out.heads.push_back({number / heads_a_layer, number % heads_a_layer, interval.mean,
                         interval.low, interval.high, interval.n, interval.method});
  }
  if (!options.match) return out;
  out.matches =
      matches_of(every_two, a[0]->model().config().heads, b[0]->model().config().heads, draws);
  if (between != nullptr) *between = at::stack(every_two).mean(0);
  return out;
}

}  // namespace phasescope::analysis
