#include "analysis/patterns.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "analysis/tensors.h"
#include "formats/error.h"

namespace phasescope::analysis {
namespace {

using Passes = std::vector<std::shared_ptr<TextPass>>;

constexpr std::int64_t kTableLength = 4096;  // distances of a curve

std::vector<std::int64_t> sampled_positions(std::int64_t tokens, std::int64_t count) {
  const std::int64_t samples = std::clamp<std::int64_t>(count, 1, tokens);
  std::vector<std::int64_t> positions;
  for (std::int64_t n = 0; n < samples; ++n) positions.push_back(n * tokens / samples);
  return positions;
}

at::Tensor long_tensor(const std::vector<std::int64_t>& values) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), out.data_ptr<std::int64_t>());
  return out;
}

// Mean of G over heads and all pairs of tokens at distances 0, 1, ..; z as in position_products.
// The sums over pairs are an autocorrelation, which the transform gives without N x N products.
std::vector<double> mean_by_distance(const at::Tensor& z) {
  const at::Tensor channels = z[0].flatten(-2).to(at::kDouble).transpose(1, 2);  // (H, 2 planes, N)
  const std::int64_t tokens = channels.size(2);
  at::Tensor power;
  for (std::int64_t head = 0; head < channels.size(0); ++head) {
    const at::Tensor spectrum = at::fft_rfft(channels[head], 2 * tokens).abs().square().sum(0);
    power = power.defined() ? power + spectrum : spectrum;
  }
  const at::Tensor pairs = at::arange(tokens, 0, -1, at::kDouble) * channels.size(0);
  const at::Tensor means = at::fft_irfft(power, 2 * tokens).slice(0, 0, tokens) / pairs;
  return to_vector<double>(means.slice(0, 0, std::min(tokens, kTableLength)));
}

class PatternsAnalysis {
 public:
  PatternsAnalysis(const Passes& passes, const PatternsOptions& options)
      : passes_(passes), options_(options), pass_(*passes[0]) {}

  PatternsOutput run(protocol::Progress& progress) {
    check_options();
    const model::EncodingInfo& info = pass_.model().encoding().info();
    out_.result.model = pass_.model().report.name;
    out_.result.encoding = info.key;
    out_.result.formula = info.formula;
    out_.result.positions = sampled_positions(pass_.tokens(), options_.positions);
    progress.progress(0.1, "reading the position states");
    add_states();
    add_frequencies();
    progress.throw_if_cancelled();
    progress.progress(0.5, "reading the bias curves");
    add_bias(progress);
    if (out_.result.layers.empty() && out_.result.bias.empty()) {
      out_.result.why_empty =
          fixed_ ? "nothing updates the state of " + info.title + ", so that it is shown as layer 0"
                 : info.title +
                       " has neither a position state nor a bias by distance, see the distance "
                       "view";
    }
    return std::move(out_);
  }

 private:
  void check_options() const {
    if (options_.positions < 1) {
      throw formats::bad_usage("the number of positions must be above 0", "--positions");
    }
    // Of states 0 is the start, and n comes after n layers; curves are counted as layers are.
    const std::int64_t layers = pass_.model().config().layers;
    const std::int64_t last = pass_.model().encoding().info().has_state ? layers : layers - 1;
    for (const std::int64_t index : options_.layers.value_or(std::vector<std::int64_t>{})) {
      if (index >= 0 && index <= last) continue;
      throw formats::bad_usage(std::to_string(index) + " is outside 0.." + std::to_string(last),
                               "--layers");
    }
  }

  bool wanted(std::int64_t index) const {
    return !options_.layers || std::ranges::find(*options_.layers, index) != options_.layers->end();
  }

  void add_states() {
    const at::Tensor rows = long_tensor(out_.result.positions);
    at::Tensor first;
    pass_.visit_positions([&](std::int64_t index, const model::PositionState& state) {
      if (!state.z.defined()) return;
      if (index == 0) first = state.z;
      if (index > 0 && state.z.is_same(first)) {  // nothing updates it
        fixed_ = true;
        return;
      }
      if (wanted(index)) add_state(index, state.z, first, rows);
    });
  }

  void add_state(std::int64_t index, const at::Tensor& z, const at::Tensor& first,
                 const at::Tensor& rows) {
    const at::NoGradGuard no_gradients;
    const at::Tensor magnitude = z.square().sum(-2).sqrt();
    const at::Tensor moved = z - first;  // an initial state of one head meets all of them
    protocol::PatternsLayer layer;
    layer.layer = index;
    layer.mean_abs_z = magnitude.mean().item<double>();
    layer.sd_abs_z = magnitude.std(/*unbiased=*/false).item<double>();
    layer.drift = (moved.norm() / first.expand_as(moved).norm()).item<double>();
    const at::Tensor heads = position_products(z, rows);
    const at::Tensor mean = heads.mean(0);
    layer.mean_by_distance = mean_by_distance(z);
    const std::string suffix = "." + std::to_string(index);
    out_.tensors.push_back(tensor_ref("pe_dot" + suffix, mean.to(z.scalar_type())));
    if (heads.size(0) > 1) {
      out_.tensors.push_back(tensor_ref("pe_dot_heads" + suffix, heads.to(z.scalar_type())));
    }
    out_.result.layers.push_back(std::move(layer));
  }

  void add_frequencies() {
    const model::Model& model = pass_.model();
    const model::StartContext context = start_context(model.decoder, pass_.tokens(), at::kDouble);
    const at::Tensor frequencies = model.encoding().frequencies(context);
    if (frequencies.defined()) out_.result.frequencies = to_vector<double>(frequencies);
  }

  void add_bias(protocol::Progress& progress) {
    const model::Model& model = pass_.model();
    const std::int64_t query = std::clamp<std::int64_t>(options_.query.value_or(pass_.tokens() - 1),
                                                        0, pass_.tokens() - 1);
    const std::int64_t length = std::min(query + 1, kTableLength);
    bool any = false;
    for (std::int64_t l = 0; l < model.config().layers; ++l) {
      if (!wanted(l)) continue;
      const model::Weights& weights = model.decoder.weights();
      model::Parameters parameters = weights.layers[static_cast<std::size_t>(l)].encoding;
      parameters.insert(weights.encoding.begin(), weights.encoding.end());  // those of all layers
      const at::Tensor table = model.encoding().bias_table(parameters, length, at::kDouble);
      if (!table.defined()) continue;
      any = true;
      add_curves(l, table, corrects() ? "base" : "bias");
    }
    // A table that the encoding makes for some texts alone, as fire does, is read like a term.
    if (corrects() || (!any && kind() == Kind::table)) {
      add_term(query, length, any ? "corrected" : "term", progress);
      any = true;
    }
    for (std::int64_t d = 0; any && d < length; ++d) out_.result.bias_distances.push_back(d);
  }

  using Kind = model::AttentionProgram::Kind;

  Kind kind() {
    if (!kind_) kind_ = pass_.layer(0)->program().kind;
    return *kind_;
  }
  // Whether the positional term is no table of distances, or more than one.
  bool corrects() { return kind() == Kind::cape || kind() == Kind::term || kind() == Kind::fire; }

  void add_curves(std::int64_t layer, const at::Tensor& table, const std::string& what) {
    for (std::int64_t head = 0; head < table.size(0); ++head) {
      const std::string name = "L" + std::to_string(layer) + "H" + std::to_string(head);
      out_.result.bias.push_back({layer, head, name + " " + what, to_vector<double>(table[head])});
    }
  }

  // Positional term at distances 0..length-1 of one query, averaged over the texts that reach it.
  void add_term(std::int64_t query, std::int64_t length, const char* what,
                protocol::Progress& progress) {
    const at::NoGradGuard no_gradients;
    std::vector<at::Tensor> sums(static_cast<std::size_t>(pass_.model().config().layers));
    double texts = 0;
    for (const auto& pass : passes_) {
      progress.throw_if_cancelled();
      if (pass->tokens() <= query) continue;
      ++texts;
      pass->visit_layers([&](const AttentionPointer& attention) {
        if (!wanted(attention->layer())) return;
        const model::Region region{
            attention->whole().heads, {query, query + 1}, {query + 1 - length, query + 1}};
        const at::Tensor row = attention->scores(region).positional[0].select(1, 0);
        at::Tensor& sum = sums[static_cast<std::size_t>(attention->layer())];
        const at::Tensor by_distance = row.flip(-1).to(at::kDouble);
        sum = sum.defined() ? sum + by_distance : by_distance;
      });
    }
    for (std::size_t l = 0; l < sums.size(); ++l) {
      if (!sums[l].defined()) continue;
      add_curves(static_cast<std::int64_t>(l), sums[l] / texts, what);
    }
  }

  const Passes& passes_;
  const PatternsOptions& options_;
  TextPass& pass_;
  std::optional<Kind> kind_;
  bool fixed_ = false;  // later layers have the first one's state
  PatternsOutput out_;
};

}  // namespace

at::Tensor position_products(const at::Tensor& z, const at::Tensor& rows) {
  const at::Tensor chosen = z[0].index_select(1, rows).flatten(-2).to(at::kDouble);
  return at::matmul(chosen, chosen.transpose(-1, -2));
}

PatternsOutput analyse_patterns(const std::vector<std::shared_ptr<TextPass>>& passes,
                                const PatternsOptions& options, protocol::Progress& progress) {
  return PatternsAnalysis(passes, options).run(progress);
}

}  // namespace phasescope::analysis
