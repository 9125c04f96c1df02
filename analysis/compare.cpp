#include "analysis/compare.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/divergence.h"
#include "analysis/head_grid.h"
#include "analysis/intervals/intervals.h"
#include "analysis/model_sides.h"
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
  HeadGrid heads;

  bool causal() const { return is_causal(stack, model.config()); }
  std::int64_t layers() const { return layers_of(stack, model.config()); }
};

// Of a model of one stack that one, whatever is asked of those that have several.
Side side_of(const model::Model& model, const std::string& named) {
  const model::ModelConfig& config = model.config();
  require_some_maps(config);
  const Stack stack = config.encoder_layers > 0 ? stack_named(named, config) : Stack::main;
  return {model, stack, HeadGrid(stack == Stack::encoder ? config.encoder() : config)};
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

// In which heads two sides differ, and which neither has; empty where all have maps and are as
// many.
std::string unlike_sizes(const Side& a, const Side& b, bool same) {
  std::string words;
  const auto size = [](const Side& side) {
    return side.model.report.name + " has " + std::to_string(side.layers()) + " layers of " +
           std::to_string(side.model.config().heads) + " heads";
  };
  if (a.layers() != b.layers() || a.model.config().heads != b.model.config().heads) {
    words = size(a) + " and " + size(b);
  }
  for (const Side* side : {&a, &b}) {
    const std::string missing = missing_heads(side->model.config());
    if (missing.empty() || (side == &b && same)) continue;
    words += (words.empty() ? "" : ", ") + side->model.report.name + ": " + missing;
  }
  return words;
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
  const std::string sizes = unlike_sizes(a, b, same);
  if (!sizes.empty()) {
    note += (note.empty() ? "" : "; ") + sizes + ": those that both have are compared";
  }
  return note;
}

// Losses of the predicted tokens of one text by one model; NaN where it has none.
at::Tensor losses_of(TextPass& pass) {
  if (!pass.loss_obstacle().empty()) {
    return at::full({pass.tokens() - 1}, std::nan(""), at::kDouble);
  }
  return pass.losses()[0].to(at::kDouble);
}

// What two passes of one text say of each other's heads.
struct TextHeads {
  std::vector<LayerHead> common;
  at::Tensor rows;     // (common, N): every row of every common head
  at::Tensor between;  // (heads of a, heads of b); undefined where it is not asked for
};

TextHeads text_heads(TextPass& a, Stack a_stack, TextPass& b, Stack b_stack, bool match,
                     protocol::Progress& progress) {
  const std::int64_t a_tokens = a.tokens(a_stack), b_tokens = b.tokens(b_stack);
  if (a_tokens != b_tokens) {
    throw formats::bad_input("the models read different numbers of tokens, " +
                                 std::to_string(a_tokens) + " and " + std::to_string(b_tokens),
                             "length", "give a length that both read");
  }
  const double both_read = match ? 0.6 : 1;  // comparing every two heads comes after it
  protocol::PartOfProgress first(progress, 0, both_read / 2),
      second(progress, both_read / 2, both_read), last(progress, both_read, 1);
  std::vector<AttentionPointer> layers, others;
  {
    const Watching watching(a, first);
    a.visit_layers_with_maps(
        [&layers](const AttentionPointer& attention) { layers.push_back(attention); }, nullptr,
        a_stack);
  }
  TextHeads heads;
  CancelOnly within(second);
  const Watching watching(b, second);
  std::vector<at::Tensor> rows{at::empty({0, a_tokens}, at::kDouble)};
  b.visit_layers_with_maps(
      [&](const AttentionPointer& attention) {
        if (match) others.push_back(attention);
        const auto own =
            std::ranges::find(layers, attention->layer(), &model::LayerAttention::layer);
        if (own == layers.end()) return;
        rows.push_back(divergence_of(**own, *attention, &within));
        for (std::int64_t head = 0; head < rows.back().size(0); ++head) {
          heads.common.push_back({attention->layer(), head});
        }
      },
      nullptr, b_stack);
  heads.rows = at::cat(rows);
  if (match) heads.between = divergence_between(layers, others, &last);
  return heads;
}

// The pairs of texts 0, 2, .., told of texts 1, 3, ..; `texts` are (heads, other heads) each.
std::vector<protocol::HeadMatch> matches_of(const std::vector<at::Tensor>& texts,
                                            const std::vector<LayerHead>& heads,
                                            const std::vector<LayerHead>& others,
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
    const LayerHead& of_a = heads[static_cast<std::size_t>(one)];
    const LayerHead& of_b = others[static_cast<std::size_t>(other)];
    matches.push_back({of_a.layer, of_a.head, of_b.layer, of_b.head,
                       bounded(kDivergence, mean_interval(told, draws))});
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
  std::vector<LayerHead> common;
  std::vector<at::Tensor> every_two;
  for (std::size_t t = 0; t < a.size(); ++t) {
    progress.throw_if_cancelled();
    progress.progress(static_cast<double>(t) / static_cast<double>(a.size()), "comparing");
    const double texts = static_cast<double>(a.size());
    protocol::PartOfProgress part(progress, static_cast<double>(t) / texts,
                                  static_cast<double>(t + 1) / texts);
    const TextHeads text = text_heads(*a[t], one.stack, *b[t], other.stack, options.match, part);
    if (options.match) every_two.push_back(text.between);
    common = text.common;
    heads.resize(common.size());
    for (std::size_t n = 0; n < heads.size(); ++n) {
      heads[n].add(text.rows[static_cast<std::int64_t>(n)]);
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
    const Interval interval = bounded(kDivergence, heads[n].interval(draws));
    out.heads.push_back({common[n].layer, common[n].head, interval.mean, interval.low,
                         interval.high, interval.n, interval.method});
  }
  if (!options.match) return out;
  out.matches = matches_of(every_two, one.heads.present(), other.heads.present(), draws);
  if (between != nullptr) {
    *between = on_grid(at::stack(every_two).mean(0), one.heads, other.heads);
  }
  return out;
}

}  // namespace phasescope::analysis
