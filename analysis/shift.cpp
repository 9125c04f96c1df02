#include "analysis/shift.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

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
                                         const model::LayerAttention& b, std::int64_t offset) {
  const at::NoGradGuard no_gradients;
  const std::int64_t tokens = a.length(), step = block_rows(a);
  const model::Range heads = a.whole().heads;
  AttentionDifference out;
  for (std::int64_t begin = 0; begin < tokens; begin += step) {
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

// ||G - G'||_F / ||G||_F over heads, by blocks of rows. (The norms have a closed form without rows,
// but their difference would lose half of the digits.)
Interval product_difference(const at::Tensor& z, const at::Tensor& other, std::int64_t offset) {
  const at::NoGradGuard no_gradients;
  const std::int64_t tokens = z.size(2);
  const at::Tensor a = z[0].flatten(-2).to(at::kDouble);
  const at::Tensor b = other[0].narrow(1, offset, tokens).flatten(-2).to(at::kDouble).expand_as(a);
  std::vector<Part> parts;
  constexpr std::int64_t step = 256;
  for (std::int64_t begin = 0; begin < tokens; begin += step) {
    const std::int64_t rows = std::min(step, tokens - begin);
    const at::Tensor g = at::matmul(a.narrow(1, begin, rows), a.transpose(1, 2));
    const at::Tensor h = at::matmul(b.narrow(1, begin, rows), b.transpose(1, 2));
    const auto difference = to_vector<double>((g - h).square().sum(at::IntArrayRef{0, 2}));
    const auto norm = to_vector<double>(g.square().sum(at::IntArrayRef{0, 2}));
    for (std::size_t row = 0; row < norm.size(); ++row)
      parts.push_back({difference[row], norm[row]});
  }
  return transformed(ratio_of_rows(parts), [](double x) { return x < 0 ? 0 : std::sqrt(x); });
}

std::vector<at::Tensor> states_of(TextPass& pass) {
  std::vector<at::Tensor> states;
  pass.visit_positions([&states](std::int64_t, const model::PositionState& state) {
    if (state.z.defined()) states.push_back(state.z);
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

class ShiftAnalysis {
 public:
  ShiftAnalysis(const std::shared_ptr<const model::Model>& model,
                const std::vector<std::int64_t>& ids, std::string dtype, model::Backend backend)
      : model_(model::in_dtype(model, model::dtype_of_name(dtype))),
        ids_(ids),
        dtype_(std::move(dtype)),
        backend_(backend),
        base_(model_, ids_tensor(ids), options_at(0)) {}

  void add(ShiftMethod method, std::int64_t by, std::vector<protocol::ShiftRow>& rows) {
    const bool tokens = method == ShiftMethod::tokens;
    const auto ids = tokens ? with_tokens_before(*model_, ids_, by) : ids_;
    TextPass moved(model_, ids_tensor(ids), options_at(tokens ? 0 : by));
    const RunDifference difference = run_difference(base_, moved, tokens ? by : 0);
    for (const TextPass* pass : {&base_, &moved}) {
      kernels_.insert(pass->kernels().begin(), pass->kernels().end());
    }
    for (std::size_t l = 0; l < difference.attention.size(); ++l) {
      protocol::ShiftRow& row = rows.emplace_back();
      row.model = model_->report.name, row.method = name_of(method);
      row.by = by, row.layer = static_cast<std::int64_t>(l), row.dtype = dtype_;
      const Interval attention = in_percent(difference.attention[l]);
      row.attention_difference = attention.mean;
      row.attention_low = attention.low, row.attention_high = attention.high;
      row.n = attention.n, row.interval = attention.method;
      if (!difference.position.empty()) {
        const Interval position =
            in_percent(difference.position[std::min(l + 1, difference.position.size() - 1)]);
        row.position_difference = position.mean;
        row.position_low = position.low, row.position_high = position.high;
      }
      row.logits_difference = difference.logits;
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

  std::shared_ptr<const model::Model> model_;
  const std::vector<std::int64_t>& ids_;
  std::string dtype_;
  model::Backend backend_;
  TextPass base_;
  model::AllRan kernels_;
};

// Whether the encoding takes position ids [shift, shift + tokens): a table ends somewhere.
bool has_positions(const model::Model& model, std::int64_t tokens, std::int64_t shift) {
  const at::NoGradGuard no_gradients;
  const model::ModelConfig& config = model.config();
  model::StartContext context = start_context(model.decoder, tokens, model.decoder.dtype());
  context.positions.shift = shift + (config.positions.map == "shift" ? config.positions.shift : 0);
  const at::Tensor token = at::zeros({1, 1, config.width}, model.decoder.dtype());
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
  if (has_positions(model, 2, shift) || !has_positions(model, 2, 0)) return;
  std::int64_t fits = 0, leaves = shift;
  while (leaves - fits > 1) {
    const std::int64_t middle = fits + (leaves - fits) / 2;
    (has_positions(model, 2, middle) ? fits : leaves) = middle;
  }
  throw formats::bad_input("a shift by " + std::to_string(shift) +
                               " moves any text past the end of this model's table of " +
                               std::to_string(fits + 2) + " positions",
                           "by", "give shifts of " + std::to_string(fits) + " at most");
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
  RunDifference out;
  std::vector<AttentionPointer> layers;
  run.visit_layers([&layers](const AttentionPointer& attention) { layers.push_back(attention); });
  other.visit_layers([&](const AttentionPointer& attention) {
    const auto& layer = layers[static_cast<std::size_t>(attention->layer())];
    const AttentionDifference difference = attention_difference(*layer, *attention, offset);
    out.attention.push_back(rows_interval(difference.rows));
    out.attention_largest.push_back(difference.largest);
  });
  const std::vector<at::Tensor> states = states_of(run), moved = states_of(other);
  for (std::size_t n = 0; n < states.size(); ++n) {
    out.position.push_back(product_difference(states[n], moved[n], offset));
  }
  const auto difference = [&](const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor moved = b.narrow(1, offset, run.tokens());
    return ((a - moved).abs().max() / a.abs().max()).item<double>();
  };
  out.hidden = difference(run.hidden(), other.hidden());
  const bool head = run.model().config().head.present;
  out.logits = head ? difference(run.logits(), other.logits()) : std::nan("");
  return out;
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

ShiftOutput analyse_shift(const std::shared_ptr<const model::Model>& model,
                          const std::vector<std::int64_t>& ids, const ShiftOptions& options,
                          protocol::Progress& progress) {
  for (const std::int64_t shift : options.by) {
    if (shift < 0) throw formats::bad_usage("a shift must not be negative", "by");
  }
  require_positions(*model, static_cast<std::int64_t>(ids.size()), options.by);
  ShiftOutput out;
  const double steps =
      static_cast<double>(options.dtypes.size() * options.methods.size() * options.by.size());
  double done = 0;
  for (const std::string& dtype : options.dtypes) {
    ShiftAnalysis analysis(model, ids, dtype, options.backend);
    for (const ShiftMethod method : options.methods) {
      for (const std::int64_t by : options.by) {
        progress.throw_if_cancelled();
        progress.progress(done++ / steps, "shifting " + std::string(name_of(method)) + " by " +
                                              std::to_string(by) + ", " + dtype);
        analysis.add(method, by, out.rows);
      }
    }
    out.ran.insert(out.ran.end(), analysis.kernels().begin(), analysis.kernels().end());
  }
  return out;
}

const char* shift_formula() {
  return "attention: 100 x mean over heads and query rows of sum_j |a_ij - a'_ij| over the "
         "original "
         "tokens; position: 100 x ||G - G'||_F / ||G||_F of the PE dot products of the state after "
         "the layer; logits: largest difference over the largest magnitude. ids: position ids "
         "start "
         "at k; tokens: k [BOS] tokens (id 0 where the tokenizer has none) stand before the text; "
         "intervals: 8 blocks of rows of the text, 95 % and of this text alone";
}

}  // namespace phasescope::analysis
