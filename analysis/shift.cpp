#include "analysis/shift.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "analysis/worst.h"
#include "formats/error.h"
#include "model/tensor_io.h"

namespace phasescope::analysis {
namespace {

// Rows of a block so that two blocks of all heads stay near 64 MB.
std::int64_t block_rows(const model::LayerAttention& attention) {
  const std::int64_t row = attention.heads() * attention.length() * 8;
  return std::clamp<std::int64_t>((std::int64_t{32} << 20) / row, 1, attention.length());
}

struct AttentionDifference {
  double mean = 0, largest = 0;
};

AttentionDifference attention_difference(const model::LayerAttention& a,
                                         const model::LayerAttention& b, std::int64_t offset) {
  const at::NoGradGuard no_gradients;
  const std::int64_t tokens = a.length(), step = block_rows(a);
  const model::Range heads = a.whole().heads;
  double sum = 0, largest = 0;
  for (std::int64_t begin = 0; begin < tokens; begin += step) {
    const std::int64_t end = std::min(begin + step, tokens);
    const std::int64_t columns = a.program().causal ? end : tokens;
    const at::Tensor x = a.weights({heads, {begin, end}, {0, columns}});
    const at::Tensor y =
        b.weights({heads, {begin + offset, end + offset}, {offset, columns + offset}});
    const at::Tensor difference = (x - y).abs();
    sum += difference.sum(at::kDouble).item<double>();
    largest = worst_of(largest, difference.max().item<double>());
  }
  return {sum / static_cast<double>(heads.size() * tokens), largest};
}

// ||G - G'||_F / ||G||_F over heads, by blocks of rows. (The norms have a closed form without rows,
// but their difference would lose half of the digits.)
double product_difference(const at::Tensor& z, const at::Tensor& other, std::int64_t offset) {
  const at::NoGradGuard no_gradients;
  const std::int64_t tokens = z.size(2);
  const at::Tensor a = z[0].flatten(-2).to(at::kDouble);
  const at::Tensor b = other[0].narrow(1, offset, tokens).flatten(-2).to(at::kDouble).expand_as(a);
  double difference = 0, norm = 0;
  constexpr std::int64_t step = 256;
  for (std::int64_t begin = 0; begin < tokens; begin += step) {
    const std::int64_t rows = std::min(step, tokens - begin);
    const at::Tensor g = at::matmul(a.narrow(1, begin, rows), a.transpose(1, 2));
    const at::Tensor h = at::matmul(b.narrow(1, begin, rows), b.transpose(1, 2));
    difference += (g - h).square().sum().item<double>();
    norm += g.square().sum().item<double>();
  }
  return std::sqrt(difference / norm);
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

class ShiftAnalysis {
 public:
  ShiftAnalysis(std::shared_ptr<const model::Model> model, const std::vector<std::int64_t>& ids,
                std::string dtype)
      : model_(model::in_dtype(model, model::dtype_of_name(dtype))),
        ids_(ids),
        dtype_(std::move(dtype)),
        base_(model_, ids_tensor(ids)) {}

  void add(ShiftMethod method, std::int64_t by, std::vector<protocol::ShiftRow>& rows) {
    const bool tokens = method == ShiftMethod::tokens;
    model::ForwardOptions options;
    if (!tokens) options.shift = by;
    const auto ids = tokens ? with_tokens_before(*model_, ids_, by) : ids_;
    TextPass moved(model_, ids_tensor(ids), options);
    const RunDifference difference = run_difference(base_, moved, tokens ? by : 0);
    for (std::size_t l = 0; l < difference.attention.size(); ++l) {
      protocol::ShiftRow& row = rows.emplace_back();
      row.model = model_->report.name, row.method = name_of(method);
      row.by = by, row.layer = static_cast<std::int64_t>(l), row.dtype = dtype_;
      row.attention_difference = 100 * difference.attention[l];
      if (!difference.position.empty()) {
        row.position_difference =
            100 * difference.position[std::min(l + 1, difference.position.size() - 1)];
      }
      row.logits_difference = difference.logits;
    }
  }

 private:
  std::shared_ptr<const model::Model> model_;
  const std::vector<std::int64_t>& ids_;
  std::string dtype_;
  TextPass base_;
};

}  // namespace

RunDifference run_difference(TextPass& run, TextPass& other, std::int64_t offset) {
  RunDifference out;
  std::vector<AttentionPointer> layers;
  run.visit_layers([&layers](const AttentionPointer& attention) { layers.push_back(attention); });
  other.visit_layers([&](const AttentionPointer& attention) {
    const auto& layer = layers[static_cast<std::size_t>(attention->layer())];
    const AttentionDifference difference = attention_difference(*layer, *attention, offset);
    out.attention.push_back(difference.mean);
    out.attention_largest.push_back(difference.largest);
  });
  const std::vector<at::Tensor> states = states_of(run), moved = states_of(other);
  for (std::size_t n = 0; n < states.size(); ++n) {
    out.position.push_back(product_difference(states[n], moved[n], offset));
  }
  const at::Tensor logits = run.logits();
  const at::Tensor moved_logits = other.logits().narrow(1, offset, run.tokens());
  out.logits = ((logits - moved_logits).abs().max() / logits.abs().max()).item<double>();
  return out;
}

std::vector<protocol::ShiftRow> analyse_shift(const std::shared_ptr<const model::Model>& model,
                                              const std::vector<std::int64_t>& ids,
                                              const ShiftOptions& options,
                                              protocol::Progress& progress) {
  std::vector<protocol::ShiftRow> rows;
  const double steps =
      static_cast<double>(options.dtypes.size() * options.methods.size() * options.by.size());
  double done = 0;
  for (const std::string& dtype : options.dtypes) {
    ShiftAnalysis analysis(model, ids, dtype);
    for (const ShiftMethod method : options.methods) {
      for (const std::int64_t by : options.by) {
        progress.throw_if_cancelled();
        progress.progress(done++ / steps, "shifting " + std::string(name_of(method)) + " by " +
                                              std::to_string(by) + ", " + dtype);
        if (by < 0) throw formats::bad_usage("a shift must not be negative", "by");
        analysis.add(method, by, rows);
      }
    }
  }
  return rows;
}

const char* shift_formula() {
  return "attention: 100 x mean over heads and query rows of sum_j |a_ij - a'_ij| over the "
         "original "
         "tokens; position: 100 x ||G - G'||_F / ||G||_F of the PE dot products of the state after "
         "the layer; logits: largest difference over the largest magnitude. ids: position ids "
         "start "
         "at k; tokens: k [BOS] tokens (id 0 where the tokenizer has none) stand before the text";
}

}  // namespace phasescope::analysis
