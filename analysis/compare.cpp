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

// A model and the stack of it that is compared.
struct Side {
  const model::Model& model;
  Stack stack;

  bool causal() const { return is_causal(stack, model.config()); }
  std::int64_t layers() const { return layers_of(stack, model.config()); }
};

// Of a model of one stack that one, whatever is asked of those that have several.
Side side_of(const model::Model& model, const std::string& stack) {
  const bool several = model.config().encoder_layers > 0;
  return {model, several ? stack_named(stack, model.config()) : Stack::main};
}

void require_same_keys(const Side& a, const Side& b) {
  if ((a.stack == Stack::cross) != (b.stack == Stack::cross)) {
    const std::string& one = (a.stack == Stack::cross ? a : b).model.report.name;
    const std::string& other = (a.stack == Stack::cross ? b : a).model.report.name;
    throw formats::bad_input("the decoder of " + one + " attends to its encoder's tokens, and " +
                                 other + " to its own, so they cannot be compared",
                             "stack", "name another stack");
  }
  const bool causal = a.causal();
  if (causal == b.causal()) return;
  const std::string& one = (causal ? a : b).model.report.name;
  const std::string& other = (causal ? b : a).model.report.name;
  throw formats::bad_input("the rows of a causal model, " + one +
                               ", and of one that sees both ways, " + other +
                               ", are over different keys, so they cannot be compared",
                           "models", "compare two models of one kind");
}

// What is left out of the comparison; empty for nothing.
std::string left_out(const Side& a, const Side& b) {
  std::string note;
  const bool same = a.model.report.name == b.model.report.name;
  for (const Side* side : {&a, &b}) {
    if (side->model.config().encoder_layers == 0 || (side == &b && same)) continue;
    note += (note.empty() ? "" : "; ") + side->model.report.name + " is compared by its " +
            (side->stack == Stack::encoder ? "encoder"
             : side->stack == Stack::cross ? "decoder's attention to its encoder"
                                           : "decoder's self-attention");
  }
  const auto size = [](const Side& side) {
    return side.model.report.name + " has " + std::to_string(side.layers()) + " layers of " +
           std::to_string(side.model.config().heads) + " heads";
  };
  if (a.layers() != b.layers() || a.model.config().heads != b.model.config().heads) {
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

TextHeads text_heads(TextPass& a, Stack a_stack, TextPass& b, Stack b_stack, bool match,
                     protocol::Progress& progress) {
  const std::int64_t a_tokens = a.tokens(a_stack), b_tokens = b.tokens(b_stack);
  if (a_tokens != b_tokens) {
    throw formats::bad_input("the models read different numbers of tokens, " +
                                 std::to_string(a_tokens) + " and " + std::to_string(b_tokens),
                             "length", "give a length that both read");
  }
  std::vector<AttentionPointer> layers, others;
  a.visit_layers([&layers](const AttentionPointer& attention) { layers.push_back(attention); },
                 nullptr, a_stack);
  std::vector<at::Tensor> rows;
  b.visit_layers(
      [&](const AttentionPointer& attention) {
        const auto l = static_cast<std::size_t>(attention->layer());
        if (l < layers.size()) rows.push_back(divergence_of(*layers[l], *attention, &progress));
        if (match) others.push_back(attention);
      },
      nullptr, b_stack);
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
  const Side one = side_of(a[0]->model(), options.stack);
  const Side other = side_of(b[0]->model(), options.stack);
  require_same_keys(one, other);
  out.stack = name_of(one.stack, one.model.config());
  out.other_stack = name_of(other.stack, other.model.config());
  out.provenance.note = left_out(one, other);
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
    const TextHeads text = text_heads(*a[t], one.stack, *b[t], other.stack, options.match, part);
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
