#include "analysis/shift.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "analysis/model_sides.h"
#include "analysis/tensors.h"
#include "analysis/worst.h"
#include "formats/error.h"
#include "model/checkpoints/tensor_io.h"

namespace phasescope::analysis {
namespace {

// Rows of a block so that two blocks of all heads stay near 64 MB.
std::int64_t block_rows(const model::LayerAttention& attention) {
  const std::int64_t row = attention.heads() * attention.length() * 8;
  return std::clamp<std::int64_t>((std::int64_t{32} << 20) / row, 1, attention.length());
}

struct AttentionDifference {
  std::vector<double> rows;  // mean over heads
  double largest = 0;
};

AttentionDifference attention_difference(const model::LayerAttention& a,
                                         const model::LayerAttention& b, std::int64_t offset,
                                         const protocol::Progress& progress) {
  const at::NoGradGuard no_gradients;
  const std::int64_t tokens = a.length(), step = block_rows(a);
  const model::Range heads = a.whole().heads;
  AttentionDifference out;
  for (std::int64_t begin = 0; begin < tokens; begin += step) {
    progress.throw_if_cancelled();
    const std::int64_t end = std::min(begin + step, tokens);
    const std::int64_t columns = a.program().causal ? end : tokens;
    const at::Tensor x = a.weights({heads, {begin, end}, {0, columns}});
    const at::Tensor y =
        b.weights({heads, {begin + offset, end + offset}, {offset, columns + offset}});
    const at::Tensor difference = (x - y).abs();
    const auto rows = to_vector<double>(difference[0].sum(-1, false, at::kDouble).mean(0));
    out.rows.insert(out.rows.end(), rows.begin(), rows.end());
    out.largest = worst_of(out.largest, difference.max().item<double>());
  }
  return out;
}

// Consecutive rows in kBlocks blocks of equal length, those left over in none.
Interval ratio_of_rows(const std::vector<Part>& rows) {
  std::vector<Part> blocks(kBlocks);
  Part whole;
  const auto length = rows.size() / kBlocks;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    whole.sum += rows[row].sum, whole.weight += rows[row].weight;
    if (length == 0 || row / length >= kBlocks) continue;
    blocks[row / length].sum += rows[row].sum;
    blocks[row / length].weight += rows[row].weight;
  }
  return blocks_interval(whole.sum / whole.weight, blocks, static_cast<std::int64_t>(rows.size()));
}

double root_of(double x) { return x < 0 ? 0 : std::sqrt(x); }

struct ProductDifference {
  Interval ratio;
  Part whole;
};

// ||G - G'||_F / ||G||_F over heads, by blocks of rows. (The norms have a closed form without rows,
// but their difference would lose half of the digits.)
ProductDifference product_difference(const at::Tensor& z, const at::Tensor& other,
                                     std::int64_t offset, const protocol::Progress& progress) {
  const at::NoGradGuard no_gradients;
  const std::int64_t tokens = z.size(2);
  const at::Tensor a = z[0].flatten(-2).to(at::kDouble);
  const at::Tensor b = other[0].narrow(1, offset, tokens).flatten(-2).to(at::kDouble).expand_as(a);
  std::vector<Part> parts;
  Part whole;
  // Blocks of 32 MB at most, several of which there are.
  const std::int64_t most = (std::int64_t{32} << 20) / (a.size(0) * tokens * 8);
  const std::int64_t step = std::clamp<std::int64_t>(most, 1, 256);
  for (std::int64_t begin = 0; begin < tokens; begin += step) {
    progress.throw_if_cancelled();
    const std::int64_t rows = std::min(step, tokens - begin);
    const at::Tensor g = at::matmul(a.narrow(1, begin, rows), a.transpose(1, 2));
    const at::Tensor h = at::matmul(b.narrow(1, begin, rows), b.transpose(1, 2));
    const auto difference = to_vector<double>((g - h).square().sum(at::IntArrayRef{0, 2}));
    const auto norm = to_vector<double>(g.square().sum(at::IntArrayRef{0, 2}));
    for (std::size_t row = 0; row < norm.size(); ++row) {
      parts.push_back({difference[row], norm[row]});
      whole.sum += difference[row], whole.weight += norm[row];
    }
  }
  return {transformed(ratio_of_rows(parts), &root_of), whole};
}

// By the layer that reads them.
std::map<std::int64_t, at::Tensor> states_of(TextPass& pass, protocol::Progress& progress) {
  const Watching watching(pass, progress);
  std::map<std::int64_t, at::Tensor> states;
  pass.visit_positions([&states](std::int64_t index, const model::PositionState& state) {
    if (state.z.defined()) states[index] = state.z;
  });
  return states;
}

std::vector<std::int64_t> with_tokens_before(const model::Model& model,
                                             const std::vector<std::int64_t>& ids,
                                             std::int64_t count) {
  const auto bos = model.tokenizer ? model.tokenizer->bos_id() : std::nullopt;
  std::vector<std::int64_t> longer(static_cast<std::size_t>(count), bos.value_or(0));
  longer.insert(longer.end(), ids.begin(), ids.end());
  return longer;
}

const char* name_of(ShiftMethod method) { return method == ShiftMethod::ids ? "ids" : "tokens"; }

Interval in_percent(const Interval& interval) {
  return transformed(interval, [](double x) { return 100 * x; });
}

// One method and shift, over the texts: a list entry a layer with maps, or a state.
struct ShiftCell {
  ShiftMethod method = ShiftMethod::ids;
  std::int64_t by = 0;
  std::vector<std::int64_t> layers, states;
  std::vector<std::vector<Interval>> attention, position;  // [text]
  std::vector<std::vector<Part>> products;                 // [text], of states
  double logits = 0;

  void add(RunDifference difference) {
    logits = attention.empty() ? difference.logits : worst_of(logits, difference.logits);
    layers = std::move(difference.layers), states = std::move(difference.states);
    attention.push_back(std::move(difference.attention));
    position.push_back(std::move(difference.position));
    products.push_back(std::move(difference.products));
  }
};

// Throws Error "bad_input" where the text itself, unmoved, gives no numbers to compare.
void require_numbers(TextPass& unmoved, const std::string& dtype) {
  if (unmoved.hidden().isfinite().all().item<bool>()) return;
  throw formats::bad_input(unmoved.model().report.name + " gives numbers that are not finite in " +
                               dtype + " for the text that is not shifted, so that nothing tells " +
                               "what a shift changes",
                           "models", "info names the tensors that hold NaN or infinity");
}

// All texts in one dtype.
class ShiftAnalysis {
 public:
  ShiftAnalysis(const std::shared_ptr<const model::Model>& model, std::string dtype,
                const ShiftOptions& options)
      : model_(model::in_dtype(model, model::dtype_of_name(dtype))),
        dtype_(std::move(dtype)),
        backend_(options.backend),
        draws_(options.seed) {
    for (const ShiftMethod method : options.methods) {
      for (const std::int64_t by : options.by) {
        const bool tokens = method == ShiftMethod::tokens && options.methods.size() > 1;
        if (tokens && by > kTokensBesideIds) continue;
        cells_.emplace_back().method = method, cells_.back().by = by;
      }
    }
  }

  void add(const std::vector<std::int64_t>& ids, protocol::Progress& progress) {
    TextPass base(model_, ids_tensor(ids), options_at(0));
    double done = 0;
    for (ShiftCell& cell : cells_) {
      progress.throw_if_cancelled();
      progress.progress(done++ / static_cast<double>(cells_.size()),
                        "shifting " + std::string(name_of(cell.method)) + " by " +
                            std::to_string(cell.by) + ", " + dtype_);
      const bool tokens = cell.method == ShiftMethod::tokens;
      const auto moved_ids = tokens ? with_tokens_before(*model_, ids, cell.by) : ids;
      TextPass moved(model_, ids_tensor(moved_ids), options_at(tokens ? 0 : cell.by));
      protocol::PartOfProgress of_cell(progress, (done - 1) / static_cast<double>(cells_.size()),
                                       done / static_cast<double>(cells_.size()));
      RunDifference difference = run_difference(base, moved, tokens ? cell.by : 0, of_cell);
      require_numbers(base, dtype_);
      cell.add(std::move(difference));
      for (const TextPass* pass : {&base, &moved}) {
        kernels_.insert(pass->kernels().begin(), pass->kernels().end());
      }
    }
  }

  void finish(std::vector<protocol::ShiftRow>& rows) const {
    for (const ShiftCell& cell : cells_) {
      for (std::size_t l = 0; l < cell.layers.size(); ++l) rows.push_back(row_of(cell, l));
    }
  }

  // What ran attention of all that was added.
  const model::AllRan& kernels() const { return kernels_; }

 private:
  model::ForwardOptions options_at(std::int64_t shift) const {
    model::ForwardOptions options;
    options.backend = backend_;
    options.shift = shift;
    return options;
  }

  // `at`: the place in the cell's lists.
  protocol::ShiftRow row_of(const ShiftCell& cell, std::size_t at) const {
    protocol::ShiftRow row;
    row.model = model_->report.name, row.method = name_of(cell.method);
    row.by = cell.by, row.layer = cell.layers[at], row.dtype = dtype_;
    // Of two rows that sum to 1 each.
    constexpr ValueRange kRange{0, 2};
    const Interval attention = in_percent(bounded(kRange, attention_of(cell, at)));
    row.attention_difference = attention.mean;
    row.attention_low = attention.low, row.attention_high = attention.high;
    row.n = attention.n, row.unit = attention.unit, row.interval = attention.method;
    // The state behind the layer, which the next one reads.
    const auto state = std::ranges::find(cell.states, row.layer + 1);
    if (state != cell.states.end()) {
      const Interval position =
          in_percent(position_of(cell, static_cast<std::size_t>(state - cell.states.begin())));
      row.position_difference = position.mean;
      row.position_low = position.low, row.position_high = position.high;
    }
    row.logits_difference = cell.logits;
    return row;
  }

  Interval attention_of(const ShiftCell& cell, std::size_t at) const {
    if (cell.attention.size() == 1) return cell.attention[0][at];
    std::vector<double> values;
    for (const auto& text : cell.attention) values.push_back(text[at].mean);
    return mean_interval(values, draws_);
  }

  Interval position_of(const ShiftCell& cell, std::size_t state) const {
    if (cell.position.size() == 1) return cell.position[0][state];
    std::vector<Part> parts;
    for (const auto& text : cell.products) parts.push_back(text[state]);
    return transformed(ratio_interval(parts, draws_), &root_of);
  }

  std::shared_ptr<const model::Model> model_;
  std::string dtype_;
  model::Backend backend_;
  Draws draws_;
  std::vector<ShiftCell> cells_;
  model::AllRan kernels_;
};

// What the float64 rows say of each row of shifted ids, in every dtype.
void judge_rows(std::vector<protocol::ShiftRow>& rows, const model::UnderShift& declared,
                std::int64_t tokens) {
  std::map<std::pair<std::int64_t, std::int64_t>, bool> moves;  // by shift and layer
  for (const protocol::ShiftRow& row : rows) {
    if (row.method != "ids" || row.dtype != "f64") continue;
    const double rounding = 100 * shift_rounding(row.by, tokens);
    const bool still =
        row.attention_difference <= rounding && row.position_difference.value_or(0) <= rounding;
    moves[{row.by, row.layer}] = !still;  // a NaN is no rounding
  }
  for (protocol::ShiftRow& row : rows) {
    if (row.method != "ids") continue;
    row.expected = name_of(declared.kind);
    const auto found = moves.find({row.by, row.layer});
    if (found == moves.end()) continue;
    const bool stays = declared.kind == model::UnderShift::Kind::stays;
    row.verdict = !found->second ? "rounding" : stays ? "failure" : "as declared";
  }
}

// Whether the encoding takes position ids [shift, shift + tokens): a table ends somewhere.
bool has_positions(const model::Model& model, std::int64_t tokens, std::int64_t shift) {
  const at::NoGradGuard no_gradients;
  const model::ModelConfig& config = model.config();
  model::StartContext context = start_context(model.decoder, tokens, model.decoder.dtype());
  context.positions.shift = shift + (config.positions.map == "shift" ? config.positions.shift : 0);
  const at::Tensor token =
      at::zeros({1, 1, config.width}, context.positions.options(model.decoder.dtype()));
  try {
    model.encoding().start(context);
    model.encoding().embed(token.expand({1, tokens, config.width}), context);
  } catch (const formats::Error& error) {
    if (error.code() != "bad_input") throw;
    return false;
  }
  return true;
}

// The shortest text that has anything to compare is of two tokens.
void require_room(const model::Model& model, std::int64_t shift) {
  const std::int64_t there = positions_of(model, shift + 2);
  if (there == shift + 2) return;
  throw formats::bad_input("a shift by " + std::to_string(shift) +
                               " moves any text past the end of this model's table of " +
                               std::to_string(there) + " positions",
                           "by", "give shifts of " + std::to_string(there - 2) + " at most");
}

void require_positions(const model::Model& model, std::int64_t tokens,
                       const std::vector<std::int64_t>& by) {
  const std::int64_t fit = tokens_that_shift(model, tokens, by);
  const std::int64_t shift = by.empty() ? 0 : *std::ranges::max_element(by);
  if (fit == tokens) return require_room(model, shift);
  throw formats::bad_input(
      "a shift by " + std::to_string(shift) + " puts the last of " + std::to_string(tokens) +
          " tokens at position " + std::to_string(tokens - 1 + shift) +
          ", and this model has a table of " + std::to_string(fit + shift) + " positions",
      "by", "give a length of " + std::to_string(fit) + " at most, or smaller shifts");
}

}  // namespace

RunDifference run_difference(TextPass& run, TextPass& other, std::int64_t offset) {
  protocol::NoProgress nobody;
  return run_difference(run, other, offset, nobody);
}

RunDifference run_difference(TextPass& run, TextPass& other, std::int64_t offset,
                             protocol::Progress& progress) {
  RunDifference out;
  // The second pass compares all rows of both, so most of the time is its.
  protocol::PartOfProgress first(progress, 0, 0.15), second(progress, 0.15, 0.8),
      of_states(progress, 0.8, 0.9), of_moved(progress, 0.9, 1);
  std::map<std::int64_t, AttentionPointer> layers;
  {
    const Watching watching(run, first);
    run.visit_layers_with_maps([&layers](const AttentionPointer& attention) {
      layers[attention->layer()] = attention->for_weights();
    });
  }
  {
    const Watching watching(other, second);
    other.visit_layers_with_maps([&](const AttentionPointer& attention) {
      const AttentionDifference difference =
          attention_difference(*layers.at(attention->layer()), *attention, offset, progress);
      out.layers.push_back(attention->layer());
      out.attention.push_back(rows_interval(difference.rows));
      out.attention_largest.push_back(difference.largest);
    });
  }
  const std::map<std::int64_t, at::Tensor> states = states_of(run, of_states),
                                           moved = states_of(other, of_moved);
  for (const auto& [index, state] : states) {
    const ProductDifference products = product_difference(state, moved.at(index), offset, progress);
    out.states.push_back(index);
    out.position.push_back(products.ratio), out.products.push_back(products.whole);
  }
  const auto difference = [&](const at::Tensor& a, const at::Tensor& b) {
    return relative_difference(b.narrow(1, offset, run.tokens()), a);
  };
  out.hidden = difference(run.hidden(), other.hidden());
  const bool head = run.model().config().head.present;
  out.logits = head ? difference(run.logits(), other.logits()) : std::nan("");
  progress.progress(1, "reading the text");
  return out;
}

std::int64_t positions_of(const model::Model& model, std::int64_t most) {
  if (most <= 2 || has_positions(model, 2, most - 2) || !has_positions(model, 2, 0)) return most;
  std::int64_t fits = 0, leaves = most - 2;
  while (leaves - fits > 1) {
    const std::int64_t middle = fits + (leaves - fits) / 2;
    (has_positions(model, 2, middle) ? fits : leaves) = middle;
  }
  return fits + 2;
}

std::int64_t tokens_that_shift(const model::Model& model, std::int64_t tokens,
                               const std::vector<std::int64_t>& by) {
  const std::int64_t shift = by.empty() ? 0 : *std::ranges::max_element(by);
  if (has_positions(model, tokens, shift) || !has_positions(model, 2, shift)) return tokens;
  std::int64_t fits = 2, leaves = tokens;
  while (leaves - fits > 1) {
    const std::int64_t middle = (fits + leaves) / 2;
    (has_positions(model, middle, shift) ? fits : leaves) = middle;
  }
  return fits;
}

double shift_rounding(std::int64_t by, std::int64_t tokens) {
  return 1e-9 + 0x1p-53 * static_cast<double>(by + tokens) * 1e3;
}

ShiftOutput analyse_shift(const std::shared_ptr<const model::Model>& model,
                          const std::vector<std::vector<std::int64_t>>& texts,
                          const ShiftOptions& options, protocol::Progress& progress) {
  for (const std::int64_t shift : options.by) {
    if (shift < 0) throw formats::bad_usage("a shift must not be negative", "by");
  }
  require_some_maps(model->config());
  std::int64_t longest = 0;
  for (const auto& ids : texts) longest = std::max<std::int64_t>(longest, std::ssize(ids));
  require_positions(*model, longest, options.by);
  ShiftOutput out;
  const auto steps = static_cast<double>(options.dtypes.size() * texts.size());
  double done = 0;
  for (const std::string& dtype : options.dtypes) {
    ShiftAnalysis analysis(model, dtype, options);
    for (const auto& ids : texts) {
      protocol::PartOfProgress part(progress, done / steps, (done + 1) / steps);
      ++done;
      analysis.add(ids, part);
    }
    analysis.finish(out.rows);
    out.ran.insert(out.ran.end(), analysis.kernels().begin(), analysis.kernels().end());
  }
  judge_rows(out.rows, model->encoding().under_shift(), longest);
  return out;
}

ShiftOutput analyse_shift(const std::shared_ptr<const model::Model>& model,
                          const std::vector<std::int64_t>& ids, const ShiftOptions& options,
                          protocol::Progress& progress) {
  const std::vector<std::vector<std::int64_t>> texts = {ids};
  return analyse_shift(model, texts, options, progress);
}

const char* shift_formula() {
  return "attention: 100 x mean over heads and query rows of sum_j |a_ij - a'_ij| over the "
         "original "
         "tokens; position: 100 x ||G - G'||_F / ||G||_F of the PE dot products of the state after "
         "the layer; logits: largest difference over the largest magnitude. ids: position ids "
         "start "
         "at k; tokens: k [BOS] tokens (id 0 where the tokenizer has none) stand before the text; "
         "intervals: 95 %, over texts, or over 8 blocks of rows of one text and of this text "
         "alone; "
         "verdict of shifted ids: rounding where float64 has no difference beyond rounding, "
         "failure "
         "where it has and the formula has none";
}

}  // namespace phasescope::analysis
