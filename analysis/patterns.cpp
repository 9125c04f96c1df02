#include "analysis/patterns.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "analysis/tensors.h"
#include "formats/error.h"

namespace phasescope::analysis {
namespace {

using Passes = std::vector<std::shared_ptr<TextPass>>;

// Numbers of all curves of a kind: what a result can carry. More distances are thinned out, which
// the result says.
constexpr std::int64_t kMostValues = std::int64_t{1} << 20;
constexpr std::int64_t kFewestOfACurve = 512;

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

// 0..length-1 where `curves` so long fit into a result; every one of the near half and as many
// evenly over the rest where they do not.
std::vector<std::int64_t> shown_distances(std::int64_t length, std::int64_t curves) {
  const std::int64_t most =
      std::max(kFewestOfACurve, kMostValues / std::max<std::int64_t>(curves, 1));
  std::vector<std::int64_t> distances;
  const std::int64_t near = length <= most ? length : most / 2, far = most - near;
  for (std::int64_t d = 0; d < near; ++d) distances.push_back(d);
  for (std::int64_t n = 1; near < length && n <= far; ++n) {
    distances.push_back(near - 1 + (length - near) * n / far);
  }
  return distances;
}

// Mean of G over heads and all pairs of tokens at each distance; z as in position_products. The
// sums over pairs are an autocorrelation, which the transform gives without N x N products.
std::vector<double> mean_by_distance(const at::Tensor& z, const at::Tensor& distances) {
  const at::Tensor heads = z[0].flatten(-2).to(at::kDouble).transpose(1, 2);  // (H, 2 planes, N)
  const std::int64_t tokens = heads.size(2);
  at::Tensor power = at::zeros({tokens + 1}, at::kDouble);
  for (const at::Tensor& channels : heads.flatten(0, 1).split(64)) {
    power += at::fft_rfft(channels, 2 * tokens).abs().square().sum(0);
  }
  const at::Tensor pairs = at::arange(tokens, 0, -1, at::kDouble) * heads.size(0);
  const at::Tensor means = at::fft_irfft(power, 2 * tokens).slice(0, 0, tokens) / pairs;
  return to_vector<double>(means.index_select(0, distances));
}

// What the model adds to the embeddings of tokens 0..count-1, (count, C) in float64; undefined
// where its encoding adds nothing.
at::Tensor added_positions(const model::Model& model, std::int64_t count) {
  const at::NoGradGuard no_gradients;
  model::StartContext context = start_context(model.decoder, count, at::kDouble);
  const auto& how = model.config().positions;
  if (how.map == "shift") context.positions.shift = how.shift;
  const at::Tensor nothing = at::zeros({1, count, model.config().width}, at::kDouble);
  const at::Tensor added = model.encoding().embed(nothing, context);
  return added.is_same(nothing) ? at::Tensor() : added[0];
}

// Positions of a stored table; of a computed one those of the context, or of a longer text.
std::int64_t positions_of_table(const model::Model& model, std::int64_t tokens) {
  const auto& options = model.encoding().options();
  if (!options.contains("max_positions")) return std::max(tokens, model.config().context);
  const std::int64_t stored = options.value("max_positions", std::int64_t{0});
  const auto& how = model.config().positions;
  const std::int64_t before = how.map == "shift" ? how.shift : 0;
  return (stored > 0 ? stored : model.config().context) - before;
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
    progress.progress(0.1, "reading the position states");
    if (info.has_state) {
      add_states();
    } else {
      add_table();
    }
    add_frequencies();
    progress.throw_if_cancelled();
    progress.progress(0.5, "reading the bias curves");
    add_bias(progress);
    if (out_.result.layers.empty() && out_.result.bias.empty()) {
      out_.result.why_empty =
          fixed_ ? "nothing updates the state of " + info.title + ", so that it is shown as layer 0"
                 : info.title +
                       ": there is neither a position state nor a bias by distance to show; the "
                       "distance view measures what it does";
    }
    return std::move(out_);
  }

 private:
  void check_options() const {
    if (options_.positions < 1) {
      throw formats::bad_usage("the number of positions must be above 0", "--positions");
    }
    const std::int64_t query = options_.query.value_or(0);
    if (query < 0 || query >= pass_.tokens()) {
      throw formats::bad_usage("there is no query " + std::to_string(query) + " in a text of " +
                                   std::to_string(pass_.tokens()) + " tokens",
                               "--query");
    }
    const std::int64_t distances = options_.distances.value_or(1);
    if (distances < 1 || distances > protocol::kMostDistances) {
      throw formats::bad_usage("the number of distances must be from 1 to " +
                                   std::to_string(protocol::kMostDistances) + ", not " +
                                   std::to_string(distances),
                               "--distances");
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

  // Which positions G is of, and which distances its means are at.
  at::Tensor choose_positions(std::int64_t count, std::int64_t states) {
    out_.result.position_count = count;
    out_.result.positions = sampled_positions(count, options_.positions);
    out_.result.distances = shown_distances(count, states);
    return long_tensor(out_.result.positions);
  }

  void add_table() {
    const std::int64_t count = positions_of_table(pass_.model(), pass_.tokens());
    const at::Tensor table = added_positions(pass_.model(), count);
    if (!table.defined()) return;
    out_.result.products = "G_ij = P_i . P_j, P_i what is added to the embedding at position i";
    const at::Tensor rows = choose_positions(count, 1);
    const at::Tensor z = table.unsqueeze(-1).unsqueeze(0).unsqueeze(0);
    fixed_ = true;
    if (wanted(0)) add_state(0, z, z, rows);
  }

  void add_states() {
    out_.result.products = "G_ij = sum_m Re(z_i conj z_j), mean over heads";
    const at::Tensor rows = choose_positions(pass_.tokens(), pass_.model().config().layers + 1);
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
    layer.mean_by_distance = mean_by_distance(z, long_tensor(out_.result.distances));
    const std::string suffix = "." + std::to_string(index);
    const at::ScalarType dtype = at::promote_types(pass_.model().decoder.dtype(), at::kFloat);
    out_.tensors.push_back(tensor_ref("pe_dot" + suffix, mean.to(dtype)));
    if (heads.size(0) > 1) {
      out_.tensors.push_back(tensor_ref("pe_dot_heads" + suffix, heads.to(dtype)));
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
    const std::int64_t query = options_.query.value_or(pass_.tokens() - 1);
    const std::int64_t length = options_.distances.value_or(query + 1);
    const auto tables = tables_by_layer(length);
    const bool any = !tables.empty();
    // A table that the encoding makes for some texts alone, as fire does, is read like a term.
    const bool measures = corrects() || (!any && kind() == Kind::table);
    if (!any && !measures) return;
    const std::int64_t farthest = any && measures ? std::max(length, query + 1)
                                  : any           ? length
                                                  : query + 1;
    choose_distances(farthest, any && measures);
    for (const auto& [layer, table] : tables) add_curves(layer, table, measures ? "base" : "bias");
    if (any) say("tables by distance, the same of every query");
    if (measures) add_term(query, any ? "corrected" : "term", progress);
  }

  void say(const std::string& words) {
    out_.result.bias_note += (out_.result.bias_note.empty() ? "" : "; ") + words;
  }

  // (H, length) of the layers that are wanted, of encodings that add one.
  std::vector<std::pair<std::int64_t, at::Tensor>> tables_by_layer(std::int64_t length) const {
    const at::NoGradGuard no_gradients;
    const model::Model& model = pass_.model();
    const model::Weights& weights = model.decoder.weights();
    std::vector<std::pair<std::int64_t, at::Tensor>> tables;
    for (std::int64_t l = 0; l < model.config().layers; ++l) {
      if (!wanted(l)) continue;
      model::Parameters parameters = weights.layers[static_cast<std::size_t>(l)].encoding;
      parameters.insert(weights.encoding.begin(), weights.encoding.end());  // those of all layers
      const at::Tensor table = model.encoding().bias_table(parameters, length, at::kDouble);
      if (table.defined()) tables.emplace_back(l, table);
    }
    return tables;
  }

  void choose_distances(std::int64_t length, bool twice) {
    const model::ModelConfig& config = pass_.model().config();
    const auto layers =
        options_.layers ? static_cast<std::int64_t>(options_.layers->size()) : config.layers;
    std::vector<std::int64_t>& shown = out_.result.bias_distances;
    shown = shown_distances(length, layers * config.heads * (twice ? 2 : 1));
    const auto count = static_cast<std::int64_t>(shown.size());
    if (count == length) return;
    say(std::to_string(count) + " of " + std::to_string(length) +
        " distances are shown, every one below " + std::to_string(count / 2) +
        "; fewer --layers show more");
  }

  using Kind = model::AttentionProgram::Kind;

  Kind kind() {
    if (!kind_) kind_ = pass_.layer(0)->program().kind;
    return *kind_;
  }
  // Whether the positional term is no table of distances, or more than one.
  bool corrects() { return kind() == Kind::cape || kind() == Kind::term || kind() == Kind::fire; }

  // The chosen ones of a table's distances 0, 1, ..
  void add_curves(std::int64_t layer, const at::Tensor& table, const std::string& what) {
    std::vector<std::int64_t> distances = out_.result.bias_distances;
    std::erase_if(distances, [&](std::int64_t d) { return d >= table.size(1); });
    const at::Tensor shown = table.index_select(1, long_tensor(distances));
    for (std::int64_t head = 0; head < table.size(0); ++head) {
      const std::string name = "L" + std::to_string(layer) + "H" + std::to_string(head);
      out_.result.bias.push_back({layer, head, name + " " + what, to_vector<double>(shown[head])});
    }
  }

  // Positional term of one query's keys by distance, averaged over the texts that reach it.
  void add_term(std::int64_t query, const char* what, protocol::Progress& progress) {
    const at::NoGradGuard no_gradients;
    std::vector<at::Tensor> sums(static_cast<std::size_t>(pass_.model().config().layers));
    std::int64_t texts = 0;
    for (const auto& pass : passes_) {
      progress.throw_if_cancelled();
      if (pass->tokens() <= query) continue;
      ++texts;
      pass->visit_layers([&](const AttentionPointer& attention) {
        if (!wanted(attention->layer())) return;
        const model::Region region{attention->whole().heads, {query, query + 1}, {0, query + 1}};
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
    say(std::string(what) + ": the positional term of query " + std::to_string(query) +
        (passes_.size() == 1 ? ""
                             : ", mean over the " + std::to_string(texts) + " of " +
                                   std::to_string(passes_.size()) + " texts that reach it"));
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
