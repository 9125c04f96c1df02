#include "analysis/questions/demand.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <utility>

#include "analysis/intervals/intervals.h"
#include "analysis/questions/bias_fit.h"
#include "analysis/questions/common.h"
#include "analysis/tensors.h"
#include "model/attention/repairs.h"
#include "model/host_memory.h"
#include "model/loss.h"
#include "model/recompute.h"

namespace phasescope::analysis {
namespace {

// The forward pass's share of the time where gradients are made too.
constexpr double kForward = 0.3;

// A bias by distance of zeros in every layer, behind all that is done to its scores: what the loss
// would gain by it is minus its gradient.
class GradientHook final : public model::RepeatableHook {
 public:
  // `bias` lies where the layers do.
  GradientHook(const DistanceBias& bias, std::int64_t tokens, const DemandPass& pass,
               std::int64_t layers)
      : bias_(bias), tokens_(tokens), pass_(pass), count_(layers) {}

  void before(const model::LayerInput& input, model::AttentionProgram& program) override {
    if (bias_.table.defined()) {
      const at::Tensor own = bias_.table[input.layer].narrow(0, 0, program.q.size(1));
      model::add_by_distance(program, model::by_distance(own, bias_.edges, tokens_));
    }
    if (!pass_.demand) return;
    at::Tensor& zeros = layers_[input.layer];
    if (!zeros.defined()) {
      zeros = at::zeros({1, program.q.size(1), tokens_}, program.q.options().dtype(at::kDouble))
                  .requires_grad_(true);
      zeros.register_hook([this, n = input.layer](const at::Tensor&) { gradients_came(n); });
    }
    program.distance_bias = zeros;
  }

  // The share of the layers that have run forward.
  void tell(double layers) const {
    if (pass_.progress == nullptr) return;
    pass_.progress->progress(pass_.demand ? kForward * layers : layers, pass_.doing);
  }

  // (layers, heads, N), - d loss / d b(lambda); 0 of what nothing reads, and of heads that are not
  // there.
  at::Tensor demand(const model::ModelConfig& config) const {
    at::Tensor all = at::zeros({config.layers, config.heads, tokens_}, at::kDouble);
    for (const auto& [index, layer] : layers_) {
      const at::Tensor& gradient = layer.grad();
      if (gradient.defined()) all[index].narrow(0, 0, layer.size(1)).copy_(-gradient[0].detach());
    }
    return all;
  }

 private:
  // Of a layer, or of a block of its rows: the layers behind it have all theirs.
  void gradients_came(std::int64_t layer) const {
    if (pass_.progress == nullptr) return;
    pass_.progress->throw_if_cancelled();
    const double done = static_cast<double>(count_ - 1 - layer) / static_cast<double>(count_);
    pass_.progress->progress(kForward + (1 - kForward) * done, pass_.doing);
  }

  const DistanceBias& bias_;
  std::int64_t tokens_;
  const DemandPass& pass_;
  std::int64_t count_;  // of layers
  std::map<std::int64_t, at::Tensor> layers_;
};

// The loss of all rows in bits, and its gradient by the hidden states where that is wanted; logits
// of some rows at a time.
double loss_in_bits(const model::Decoder& decoder, const at::Tensor& hidden, const at::Tensor& ids,
                    at::Tensor* gradient) {
  const at::AutoGradMode mode(gradient != nullptr);
  const at::Tensor leaf =
      gradient != nullptr ? hidden.detach().requires_grad_(true) : hidden.detach();
  constexpr std::int64_t kBudget = std::int64_t{16} << 20;  // logits held at once
  const std::int64_t rows = hidden.size(1);
  const std::int64_t step = std::max<std::int64_t>(1, kBudget / decoder.config().vocab_size);
  double loss = 0;
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const std::int64_t end = std::min(begin + step, rows);
    const at::Tensor sum =
        model::token_losses_of(decoder, leaf.slice(1, begin, end), ids.slice(1, begin, end + 1))
            .to(at::kDouble)
            .sum() /
        std::numbers::ln2;
    if (gradient != nullptr) sum.backward();
    loss += sum.item<double>();
  }
  if (gradient != nullptr) *gradient = leaf.grad();
  return loss;
}

// The parts of a weighted mean over texts.
std::vector<Part> parts_of(const std::vector<double>& sums, const std::vector<double>& rows) {
  std::vector<Part> parts;
  for (std::size_t n = 0; n < sums.size(); ++n) parts.push_back({sums[n], rows[n]});
  return parts;
}

class DemandAnalysis {
 public:
  DemandAnalysis(const std::shared_ptr<const model::Model>& model, const Texts& texts,
                 const DemandOptions& options, protocol::Progress& progress)
      : model_(model),
        texts_(texts),
        options_(options),
        progress_(progress),
        chosen_(model->config(), options.layers, options.heads) {}

  DemandOutput run() {
    const std::int64_t tokens = texts_.longest();
    protocol::DemandResult& result = out_.result;
    result.model = model_->report.name;
    result.formula =
        "demand(lambda) = - d loss / d b(lambda), b added to the softmax's input of all pairs "
        "lambda apart; bits a token per unit of score, summed over a bucket's distances; the "
        "demands of a head add up to 0";
    result.edges = distance_edges(tokens);
    result.trained = model_->config().context;
    measure();
    fill_rows();
    if (options_.fit) fit();
    result.provenance.ran = protocol::listed(kernels_);
    result.provenance.note = note_of_missing_heads(*model_);
    return std::move(out_);
  }

 private:
  void measure() {
    const double share = options_.fit ? 0.2 : 1.0;
    for (std::size_t n = 0; n < texts_.items.size(); ++n) {
      const double each = share / static_cast<double>(texts_.items.size());
      const double begin = each * static_cast<double>(n);
      protocol::PartOfProgress part(progress_, begin, begin + each);
      const DemandPass pass{options_.backend, true, &kernels_, &part};
      part.progress(0, pass.doing);
      const TextDemand text = demand_of(*model_, texts_.items[n].ids, {}, pass);
      losses_.push_back(text.loss), rows_.push_back(text.rows);
      add(text.demand);
      whole_.push_back(text.demand);
      demands_.push_back(by_bucket(text.demand, out_.result.edges));
    }
  }

  // Texts may be of different lengths.
  void add(const at::Tensor& demand) {
    if (!total_.defined()) {
      total_ = at::zeros({demand.size(0), demand.size(1), texts_.longest()}, at::kDouble);
    }
    total_.narrow(2, 0, demand.size(2)).add_(demand);
  }

  void fill_rows() {
    protocol::DemandResult& result = out_.result;
    for (const std::int64_t layer : chosen_.layers()) {
      for (const std::int64_t head : chosen_.heads_of(layer)) {
        protocol::DemandRow& row = result.rows.emplace_back();
        row.layer = layer, row.head = head;
        for (std::size_t bucket = 0; bucket < result.edges.size(); ++bucket) {
          row.demand.push_back(of_bucket(layer, head, static_cast<std::int64_t>(bucket)));
        }
      }
    }
    result.loss = bounded(kFromZero, ratio_interval(parts_of(losses_, rows_), draws_));
    result.share_beyond_trained = beyond_trained();
  }

  // The share of the sum of |demand| over heads and distances, which no sums over texts give: it is
  // made again without each text.
  Interval beyond_trained() const {
    const auto share_of = [this](const at::Tensor& total) {
      const at::Tensor size = total.abs();
      const double all = size.sum().item<double>();
      return all > 0 ? size.slice(2, out_.result.trained).sum().item<double>() / all : 0;
    };
    std::vector<double> without;
    for (const at::Tensor& one : whole_) {
      at::Tensor rest = total_.clone();
      rest.narrow(2, 0, one.size(2)).sub_(one);
      without.push_back(share_of(rest));
    }
    return share_interval(share_of(total_), without);
  }

  Interval of_bucket(std::int64_t layer, std::int64_t head, std::int64_t bucket) const {
    std::vector<double> sums;
    for (const at::Tensor& text : demands_) {
      sums.push_back(text[layer][head][bucket].item<double>());
    }
    return ratio_interval(parts_of(sums, rows_), draws_);
  }

  void fit() {
    FitOptions fit;
    fit.backend = options_.backend;
    fit.steps = options_.steps;
    fit.start_window = options_.start_window;
    fit.seed = options_.seed;
    protocol::PartOfProgress part(progress_, 0.2, 1);
    FittedBias fitted = fit_bias(*model_, texts_, out_.result.edges, fit, kernels_, part);
    if (fitted.report.helps) {
      out_.tensors.push_back(tensor_ref("table", fitted.bias.table));
      out_.tensors.push_back(tensor_ref("edges", at::tensor(fitted.bias.edges, at::kLong)));
    }
    out_.result.fit = std::move(fitted.report);
  }

  std::shared_ptr<const model::Model> model_;
  const Texts& texts_;
  const DemandOptions& options_;
  protocol::Progress& progress_;
  ChosenHeads chosen_;
  std::vector<double> losses_, rows_;
  std::vector<at::Tensor> demands_;  // (layers, heads, K) of each text
  std::vector<at::Tensor> whole_;    // the same by distance, (layers, heads, N)
  at::Tensor total_;
  Draws draws_{options_.seed};
  model::AllRan kernels_;
  DemandOutput out_;
};

}  // namespace

std::vector<std::int64_t> distance_edges(std::int64_t tokens) {
  std::vector<std::int64_t> edges;
  for (const std::int64_t edge : {0, 1, 2, 3}) {
    if (edge < tokens || edge == 0) edges.push_back(edge);
  }
  for (std::int64_t power = 4; power < tokens; power *= 2) {
    edges.push_back(power);
    if (power + power / 2 < tokens) edges.push_back(power + power / 2);
  }
  return edges;
}

at::Tensor by_bucket(const at::Tensor& values, const std::vector<std::int64_t>& edges) {
  std::vector<at::Tensor> sums;
  const std::int64_t length = values.size(-1);
  for (std::size_t n = 0; n < edges.size(); ++n) {
    const std::int64_t end = n + 1 < edges.size() ? edges[n + 1] : length;
    sums.push_back(values.slice(-1, std::min(edges[n], length), std::min(end, length)).sum(-1));
  }
  return at::stack(sums, -1);
}

TextDemand demand_of(const model::Model& model, const std::vector<std::int64_t>& ids,
                     const DistanceBias& bias, const DemandPass& pass) {
  const at::AutoGradMode mode(pass.demand);
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const at::Tensor all = ids_tensor(ids);
  model::ForwardOptions options;
  options.recompute = pass.demand && tokens > pass.kept_tokens;
  const DistanceBias there =
      bias.table.defined() ? DistanceBias{bias.table.to(model.decoder.device()), bias.edges} : bias;
  GradientHook hook(there, tokens, pass, model.config().layers);
  options.backend = pass.backend;
  options.hook = &hook;
  options.kernels = pass.kernels;
  if (pass.progress != nullptr) {
    options.cancelled = [&pass] { return pass.progress->cancelled(); };
    options.progress = [&hook](double done) { hook.tell(done); };
  }
  const at::Tensor hidden = model.decoder.hidden(all.slice(1, 0, tokens - 1), options);
  TextDemand out;
  out.rows = static_cast<double>(tokens - 1);
  if (!pass.demand) {
    out.loss = loss_in_bits(model.decoder, hidden, all, nullptr);
    return out;
  }
  at::Tensor gradient;
  out.loss = loss_in_bits(model.decoder, hidden, all, &gradient);
  hidden.backward(gradient);
  out.demand = hook.demand(model.config());
  return out;
}

DemandOutput analyse_demand(const std::shared_ptr<const model::Model>& model, const Texts& texts,
                            const DemandOptions& options, protocol::Progress& progress) {
  require_causal(*model, "demand");
  require_losses(*model, texts);
  return DemandAnalysis(model, texts, options, progress).run();
}

}  // namespace phasescope::analysis
