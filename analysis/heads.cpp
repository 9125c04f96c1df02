#include "analysis/heads.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "analysis/divergence.h"
#include "analysis/head_grid.h"
#include "analysis/intervals/intervals.h"
#include "analysis/metrics/registry.h"
#include "analysis/metrics/repeated.h"
#include "analysis/model_sides.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "model/loss.h"

namespace phasescope::analysis {
namespace {

constexpr double kSinkShare = 0.3;  // arXiv 2410.10781
constexpr double kRounding64 = 2e-15;

// Values of one text: [layer * heads + head][metric]; NaN for heads that a layer has not.
using TextValues = std::vector<std::vector<double>>;

TextValues no_values(const model::ModelConfig& config, Stack stack, std::size_t metrics) {
  const auto heads = static_cast<std::size_t>(layers_of(stack, config) * config.heads);
  return TextValues(heads, std::vector<double>(metrics, std::nan("")));
}

std::size_t place_of(const model::ModelConfig& config, std::int64_t layer, std::size_t head) {
  return static_cast<std::size_t>(layer * config.heads) + head;
}

std::vector<double> row_of(const at::Tensor& values, std::int64_t head) {
  return to_vector<double>(values[0][head]);
}

DistanceSums sums_of(const model::ProbeResult& probe, std::int64_t head,
                     const std::vector<std::int64_t>& edges) {
  DistanceSums sums(edges);
  sums.pairs = to_vector<std::int64_t>(probe.bucket_pairs[0][head]);
  sums.weight = to_vector<double>(probe.bucket_weight[0][head]);
  sums.score = to_vector<double>(probe.bucket_score[0][head]);
  sums.score_square = to_vector<double>(probe.bucket_score_square[0][head]);
  return sums;
}

// The layers whose heads are measured; none for all.
class ChosenLayers {
 public:
  explicit ChosenLayers(std::vector<std::int64_t> list) : list_(std::move(list)) {}
  bool all() const { return list_.empty(); }
  bool has(std::int64_t layer) const { return all() || std::ranges::count(list_, layer) > 0; }
  // Behind which no layer need run.
  std::optional<std::int64_t> last() const {
    if (all()) return std::nullopt;
    return std::ranges::max(list_);
  }

 private:
  std::vector<std::int64_t> list_;
};

TextValues values_of(TextPass& pass, Stack stack, const ChosenLayers& layers,
                     const std::vector<HeadMetric>& metrics, std::span<const std::int64_t> windows,
                     std::vector<DistanceSums>* profile, model::AllRan* kernels) {
  const model::ModelConfig& config = pass.model().config();
  const model::ProbeRequest probes = head_probes(
      profile != nullptr ? distance_edges(pass.tokens(stack)) : std::vector<std::int64_t>{0, 1, 2},
      windows);
  TextValues values = no_values(config, stack, metrics.size());
  if (profile != nullptr) profile->assign(values.size(), DistanceSums(probes.bucket_edges));
  const auto read = [&](const AttentionPointer& attention) {
    if (!layers.has(attention->layer())) return;
    std::vector<HeadReading> readings = read_heads(*attention, probes, kernels);
    for (std::size_t head = 0; head < readings.size(); ++head) {
      MetricInput input{&readings[head], nullptr, 0};
      const std::size_t place = place_of(config, attention->layer(), head);
      for (std::size_t m = 0; m < metrics.size(); ++m) {
        if (metrics[m].source == MetricSource::text) values[place][m] = metrics[m].value(input);
      }
      if (profile != nullptr) (*profile)[place] = std::move(readings[head].by_distance);
    }
  };
  pass.visit_layers_with_maps(read, &probes, stack, layers.last());
  kernels->insert(pass.kernels().begin(), pass.kernels().end());
  return values;
}

// Those that say something of a stack.
std::vector<HeadMetric> metrics_of(const model::Model& model, bool causal,
                                   std::vector<HeadMetric> list) {
  const bool sinks = !model.config().attention.sink_layers.empty();
  // Attention that was imported never saw the repeated tokens.
  if (model.encoding().info().of_one_text) {
    std::erase_if(list, [](const HeadMetric& m) { return m.source == MetricSource::repeated; });
  }
  if (!sinks) std::erase_if(list, [](const HeadMetric& metric) { return metric.sinks_alone; });
  if (!causal) {
    std::erase_if(list, [](const HeadMetric& metric) { return metric.causal_alone; });
  }
  return list;
}

// The numbers on repeated random tokens, a few draws of them, and where there is a loss, that on
// the second copy.
struct RepeatedValues {
  std::vector<TextValues> draws;
  std::vector<double> losses;
};

std::int64_t default_period(const TextPass& pass) {
  const std::int64_t context = pass.model().config().context;
  return std::clamp<std::int64_t>(context / 2, 2, 128);
}

// Draw by draw; nothing of a draw is kept but its numbers.
RepeatedValues repeated_values(const TextPass& like, const ChosenLayers& layers,
                               const std::vector<HeadMetric>& metrics, const HeadsOptions& options,
                               model::AllRan* kernels, protocol::Progress& progress) {
  const std::int64_t period = options.period > 0 ? options.period : default_period(like);
  const auto& tokenizer = like.model().tokenizer;
  const std::optional<std::int64_t> bos = tokenizer ? tokenizer->bos_id() : std::nullopt;
  const model::ProbeRequest probes = head_probes({period - 1, period, period + 1});
  RepeatedValues out;
  for (std::int64_t draw = 0; draw < options.draws; ++draw) {
    progress.throw_if_cancelled();
    const auto draws = static_cast<double>(options.draws);
    protocol::PartOfProgress part(progress, static_cast<double>(draw) / draws,
                                  static_cast<double>(draw + 1) / draws);
    part.progress(0, "reading repeated random tokens");
    const auto ids = repeated_tokens(period, bos, tokens_with_logits(like.model().config()),
                                     options.seed + static_cast<std::uint64_t>(draw));
    TextPass pass(like.shared_model(), ids_tensor(ids),
                  with_inputs_of({.ids = ids}, like.options()), 0);
    const Watching watching(pass, part);
    const model::ModelConfig& config = like.model().config();
    TextValues& values = out.draws.emplace_back(no_values(config, Stack::main, metrics.size()));
    const auto read = [&](const AttentionPointer& attention) {
      if (!layers.has(attention->layer())) return;
      const std::vector<HeadReading> readings = read_heads(*attention, probes, kernels);
      for (std::size_t head = 0; head < readings.size(); ++head) {
        const MetricInput input{nullptr, &readings[head], period};
        std::vector<double>& row = values[place_of(config, attention->layer(), head)];
        for (std::size_t m = 0; m < metrics.size(); ++m) {
          if (metrics[m].source == MetricSource::repeated) row[m] = metrics[m].value(input);
        }
      }
    };
    pass.visit_layers_with_maps(read, &probes, Stack::main, layers.last());
    kernels->insert(pass.kernels().begin(), pass.kernels().end());
    if (!layers.all() || !loss_obstacle(like.model().config()).empty()) continue;
    // Entry n is the loss of token n + 1.
    out.losses.push_back(pass.losses().slice(1, period - 1).mean().item<double>());
  }
  return out;
}

// One value a text, those left out that are too short for the statistic.
Interval interval_of(const std::vector<TextValues>& texts, std::size_t head, std::size_t metric,
                     const ValueRange& range, const Draws& draws) {
  std::vector<double> values;
  for (const TextValues& text : texts) {
    if (std::isfinite(text[head][metric])) values.push_back(text[head][metric]);
  }
  return bounded(range, mean_interval(values, draws));
}

// Weight by distance of every head: all texts add to one profile, and each has its part in wider
// bands, from which the intervals are made.
class Profiles {
 public:
  explicit Profiles(std::int64_t longest) {
    // Distances up to 16 one by one, then four bands an octave.
    const std::vector<std::int64_t> wide = distance_edges(longest, 17, 4);
    std::size_t next = 0;
    for (const std::int64_t edge : distance_edges(longest)) {
      if (edge < wide[next]) continue;
      bands_.push_back(edge);
      while (next < wide.size() && wide[next] <= edge) ++next;
      if (next == wide.size()) break;
    }
  }

  void add(std::vector<DistanceSums>&& text) {
    parts_.resize(text.size());
    for (std::size_t h = 0; h < text.size(); ++h) add_parts(text[h], parts_[h]);
    if (total_.empty()) {
      total_ = std::move(text);
      return;
    }
    for (std::size_t h = 0; h < total_.size(); ++h) {
      if (text[h].edges.size() > total_[h].edges.size()) std::swap(total_[h], text[h]);
      for (std::size_t b = 0; b < text[h].size(); ++b) {
        total_[h].pairs[b] += text[h].pairs[b];
        total_[h].weight[b] += text[h].weight[b];
      }
    }
  }

  bool empty() const { return total_.empty(); }

  protocol::DistanceProfile of(std::size_t head, const Draws& draws) const {
    protocol::DistanceProfile profile;
    const DistanceSums& sums = total_[head];
    for (std::size_t b = 0; b < sums.size(); ++b) {
      if (sums.pairs[b] == 0) continue;
      profile.distance.push_back(sums.edges[b]);
      profile.count.push_back(sums.pairs[b]);
      profile.weight.push_back(sums.weight[b] / static_cast<double>(sums.pairs[b]));
    }
    for (std::size_t band = 0; band + 1 < bands_.size(); ++band) {
      const std::vector<Part>& parts = parts_[head][band];
      if (parts.empty()) continue;
      profile.bands.push_back(
          {bands_[band], bands_[band + 1], bounded(kShare, ratio_interval(parts, draws))});
    }
    return profile;
  }

 private:
  using Bands = std::vector<std::vector<Part>>;  // [band][text]

  void add_parts(const DistanceSums& sums, Bands& parts) const {
    parts.resize(bands_.size() - 1);
    std::vector<Part> here(parts.size());
    std::size_t band = 0;
    for (std::size_t b = 0; b < sums.size(); ++b) {
      while (band + 1 < here.size() && sums.edges[b] >= bands_[band + 1]) ++band;
      here[band].sum += sums.weight[b];
      here[band].weight += static_cast<double>(sums.pairs[b]);
    }
    for (std::size_t n = 0; n < here.size(); ++n) {
      if (here[n].weight > 0) parts[n].push_back(here[n]);
    }
  }

  std::vector<std::int64_t> bands_;  // edges
  std::vector<DistanceSums> total_;
  std::vector<Bands> parts_;
};

void add_thumbnails(TextPass& pass, Stack stack, const ChosenLayers& layers, std::int64_t side,
                    model::AllRan* kernels, HeadsOutput& out) {
  const model::ModelConfig& config = pass.model().config();
  at::Tensor all;  // (L, H, S, S); nothing is seen in the pictures of heads that a layer has not
  const auto picture = [&](const AttentionPointer& attention) {
    if (!layers.has(attention->layer())) return;
    const at::Tensor layer = layer_thumbnails(*attention, side, kernels);
    if (!all.defined()) {
      all = at::full({layers_of(stack, config), config.heads, layer.size(1), layer.size(2)},
                     -std::numeric_limits<double>::infinity(), layer.options());
    }
    all[attention->layer()].narrow(0, 0, layer.size(0)).copy_(layer);
  };
  pass.visit_layers_with_maps(picture, nullptr, stack, layers.last());
  if (all.defined()) out.tensors.push_back(tensor_ref("thumbnails", all));
}

}  // namespace

model::ProbeRequest head_probes(std::vector<std::int64_t> bucket_edges,
                                std::span<const std::int64_t> windows) {
  model::ProbeRequest request;
  request.entropy = request.top1_mass = true;
  request.first_key_weight = request.mean_distance = request.sink_weight = true;
  request.windows.assign(windows.begin(), windows.end());
  request.bucket_edges = std::move(bucket_edges);
  return request;
}

std::vector<HeadReading> read_heads(const model::LayerAttention& attention,
                                    const model::ProbeRequest& probes, model::AllRan* kernels) {
  const model::ProbeResult probe = attention.probe(probes);
  if (kernels != nullptr) kernels->insert(probe.ran);
  std::vector<HeadReading> readings;
  for (std::int64_t head = 0; head < attention.heads(); ++head) {
    HeadReading& reading = readings.emplace_back();
    reading.tokens = attention.length();
    reading.causal = attention.program().causal;
    if (attention.q().scalar_type() == at::kDouble) reading.rounding = kRounding64;
    reading.entropy = row_of(probe.entropy, head);
    reading.top1_mass = row_of(probe.top1_mass, head);
    reading.first_key_weight = row_of(probe.first_key_weight, head);
    reading.mean_distance = row_of(probe.mean_distance, head);
    if (attention.program().sinks.defined()) reading.sink_weight = row_of(probe.sink_weight, head);
    reading.windows = probes.windows;
    reading.window_mass.resize(probes.windows.size());
    for (std::size_t w = 0; w < probes.windows.size(); ++w) {
      reading.window_mass[w] = row_of(probe.window_mass[w], head);
    }
    reading.by_distance = sums_of(probe, head, probes.bucket_edges);
  }
  return readings;
}

at::Tensor layer_thumbnails(const model::LayerAttention& attention, std::int64_t side,
                            model::AllRan* kernels) {
  model::MapRequest request;
  request.region = attention.whole();
  request.height = request.width = side;
  request.maximum = true;
  const model::MapResult map = attention.map(request);
  if (kernels != nullptr) kernels->insert(map.ran);
  return map.maximum.to(at::kFloat);
}

namespace {

// What a request for statistics measures, and everything it gathers on the way.
class HeadsAnalysis {
 public:
  HeadsAnalysis(const std::vector<std::shared_ptr<TextPass>>& passes, const HeadsOptions& options)
      : passes_(passes),
        options_(options),
        stack_(stack_named(options.stack, passes[0]->model().config())),
        layers_(layers_to_measure()),
        causal_(is_causal(stack_, passes[0]->model().config())),
        windows_(windows_of(options.windows)),
        metrics_(
            metrics_of(passes[0]->model(), causal_, select_metrics(options.metrics, windows_))),
        profiles_(longest_of(passes, stack_)),
        draws_(options.seed) {}

  HeadsOutput run(protocol::Progress& progress) {
    start_result();
    read_texts(progress);
    read_repeated(progress);
    fill_rows();
    fill_extras();
    out_.result.provenance.set_ran(protocol::listed(kernels_));
    add_note_of_missing_heads();
    add_note_of_empty_metrics();
    return std::move(out_);
  }

 private:
  static std::vector<std::int64_t> windows_of(std::vector<std::int64_t> windows) {
    if (windows.empty()) windows.assign(kWindows.begin(), kWindows.end());
    std::ranges::sort(windows);
    const bool twice = std::ranges::adjacent_find(windows) != windows.end();
    if (windows.size() <= kWindows.size() && windows.front() >= 1 && !twice) return windows;
    throw formats::bad_usage("window_mass is measured in one to three windows of at least one key",
                             "windows", "give three at most, e.g. 16,64,256");
  }

  ChosenLayers layers_to_measure() const {
    const std::int64_t count = layers_of(stack_, passes_[0]->model().config());
    for (const std::int64_t layer : options_.layers) {
      if (layer >= 0 && layer < count) continue;
      throw formats::bad_usage("there is no layer " + std::to_string(layer) + "; " +
                                   passes_[0]->model().report.name + " has " +
                                   std::to_string(count) + ", counted from 0",
                               "layers");
    }
    for (const char* key : {"js_divergence", "induction_loss", "sink_rate"}) {
      if (options_.layers.empty() || std::ranges::count(options_.metrics, key) == 0) continue;
      throw formats::bad_usage(std::string(key) + " is measured over all layers", "layers",
                               "leave out the layers, or this statistic");
    }
    return ChosenLayers(options_.layers);
  }

  static std::int64_t longest_of(const std::vector<std::shared_ptr<TextPass>>& passes,
                                 Stack stack) {
    std::int64_t longest = 0;
    for (const auto& pass : passes) longest = std::max(longest, pass->tokens(stack));
    return longest;
  }

  bool wants(std::string_view key) const { return asks_for(options_.metrics, key); }
  bool wants_repeated() const {
    const auto repeated = [](const HeadMetric& m) { return m.source == MetricSource::repeated; };
    return std::ranges::any_of(metrics_, repeated) || wants_loss();
  }
  // On repeated random tokens, of the whole model.
  bool wants_loss() const { return causal_ && layers_.all() && wants("induction_loss"); }

  void start_result() {
    protocol::HeadsResult& result = out_.result;
    const model::ModelConfig& config = passes_[0]->model().config();
    result.model = passes_[0]->model().report.name;
    result.corpus = passes_.size() > 1;
    result.stack = name_of(stack_, config);
    result.layers = layers_of(stack_, config);
    result.heads = config.heads;
    for (const HeadMetric& metric : metrics_) result.metrics.push_back(metric.info);
    for (const protocol::MetricInfo& info : extra_metrics()) {
      if (wants(info.key)) result.metrics.push_back(info);
    }
  }

  void read_texts(protocol::Progress& progress) {
    for (std::size_t n = 0; n < passes_.size(); ++n) {
      progress.throw_if_cancelled();
      const double texts = static_cast<double>(passes_.size());
      protocol::PartOfProgress part(progress, 0.9 * static_cast<double>(n) / texts,
                                    0.9 * static_cast<double>(n + 1) / texts);
      part.progress(0, "reading heads");
      read_text(*passes_[n], part);
    }
  }

  void read_text(TextPass& pass, protocol::Progress& progress) {
    const bool compares = wants("js_divergence");
    // Comparing every two heads takes longer than the passes it reads.
    protocol::PartOfProgress values(progress, 0, compares ? 0.2 : 1), again(progress, 0.2, 0.3),
        rows(progress, 0.3, 1);
    std::vector<DistanceSums> profile;
    {
      const Watching watching(pass, values);
      texts_.push_back(values_of(pass, stack_, layers_, metrics_, windows_,
                                 wants("distance_profile") ? &profile : nullptr, &kernels_));
    }
    if (!profile.empty()) profiles_.add(std::move(profile));
    if (compares) {
      const Watching watching(pass, again);
      divergences_.push_back(divergence_within(pass, stack_, &rows));
    }
    pass.release();
  }

  void read_repeated(protocol::Progress& progress) {
    if (!wants_repeated()) return;
    progress.throw_if_cancelled();
    protocol::PartOfProgress part(progress, 0.9, 1);
    repeated_ = repeated_values(*passes_[0], layers_, metrics_, options_, &kernels_, part);
  }

  void fill_rows() {
    const std::int64_t heads = out_.result.heads;
    for (std::int64_t n = 0; n < out_.result.layers * heads; ++n) {
      if (!layers_.has(n / heads)) continue;
      protocol::HeadRow row{n / heads, n % heads, {}, {}};
      const auto at = static_cast<std::size_t>(n);
      for (std::size_t m = 0; m < metrics_.size(); ++m) {
        const bool repeated = metrics_[m].source == MetricSource::repeated;
        Interval& value = row.values[metrics_[m].info.key];
        value = interval_of(repeated ? repeated_.draws : texts_, at, m, metrics_[m].range, draws_);
        if (repeated) value.unit = "draws";
      }
      if (!profiles_.empty()) row.distance_profile = profiles_.of(at, draws_);
      out_.result.rows.push_back(std::move(row));
    }
  }

  void fill_extras() {
    add_sink_rate();
    if (layers_.all() && (wants_repeated() || wants("induction_loss"))) add_induction_loss();
    if (options_.thumbnails > 0) {
      add_thumbnails(*passes_[0], stack_, layers_, options_.thumbnails, &kernels_, out_);
    }
    if (wants("js_divergence")) add_divergence();
  }

  // All texts have the same heads, so that there is no interval over heads: the rate is one of each
  // text.
  void add_sink_rate() {
    out_.result.sink_rate = std::nan("");
    const auto sink = std::ranges::find(metrics_, "sink", [](const auto& m) { return m.info.key; });
    if (sink == metrics_.end() || !layers_.all()) return;
    const auto m = static_cast<std::size_t>(sink - metrics_.begin());
    std::vector<double> rates;
    for (const TextValues& text : texts_) {
      const auto count =
          std::ranges::count_if(text, [m](const auto& head) { return head[m] > kSinkShare; });
      rates.push_back(static_cast<double>(count) / static_cast<double>(present_heads()));
    }
    const Interval rate = bounded(kShare, mean_interval(rates, draws_));
    out_.result.sink_rate = rate.mean;
    out_.result.model_values["sink_rate"] = rate;
  }

  void add_note(const std::string& words) {
    std::string& note = out_.result.provenance.note;
    note += (note.empty() ? "" : "; ") + words;
  }

  void add_note_of_missing_heads() {
    const std::string why = missing_heads(passes_[0]->model().config());
    if (!why.empty()) add_note(out_.result.model + ": " + why + ", whose rows are empty");
  }

  // A text of one token has no neighbours, for one.
  void add_note_of_empty_metrics() {
    std::string names;
    for (std::size_t m = 0; m < metrics_.size(); ++m) {
      if (metrics_[m].source != MetricSource::text || metrics_[m].sinks_alone) continue;
      const auto has_value = [m](const TextValues& text) {
        return std::ranges::any_of(text, [m](const auto& head) { return std::isfinite(head[m]); });
      };
      if (std::ranges::any_of(texts_, has_value)) continue;
      names += (names.empty() ? "" : ", ") + metrics_[m].info.key;
    }
    if (!names.empty()) add_note("on texts like this no head has a value of " + names);
  }

  std::int64_t present_heads() const {
    const model::ModelConfig& config = passes_[0]->model().config();
    const std::int64_t all = out_.result.layers * out_.result.heads;
    if (missing_heads(config).empty()) return all;
    std::int64_t count = 0;
    for (std::int64_t n = 0; n < all; ++n) {
      count += has_head(config, n / config.heads, n % config.heads) ? 1 : 0;
    }
    return count;
  }

  void add_induction_loss() {
    protocol::HeadsResult& result = out_.result;
    Interval& value = result.model_values["induction_loss"];
    const std::string obstacle = loss_obstacle(passes_[0]->model().config());
    if (obstacle.empty()) {
      value = counted_in("draws", bounded(kFromZero, mean_interval(repeated_.losses, draws_)));
      return;
    }
    value.mean = std::nan("");
    result.provenance.note = result.model + " has no induction loss: " + obstacle;
  }

  // Each text is one unit, as it is of every other statistic.
  void add_divergence() {
    const model::ModelConfig& config = passes_[0]->model().config();
    const HeadGrid grid(stack_ == Stack::encoder ? config.encoder() : config);
    const at::Tensor texts = at::stack(divergences_);  // (texts, heads, heads)
    out_.tensors.push_back(tensor_ref("js_divergence", on_grid(texts.mean(0), grid, grid)));
    const std::int64_t count = texts.size(1);
    if (count < 2) return;
    const at::Tensor means = texts.sum(2) / static_cast<double>(count - 1);
    for (protocol::HeadRow& row : out_.result.rows) {
      const LayerHead head{row.layer, row.head};
      const auto n = static_cast<std::int64_t>(grid.index_of(head));
      row.values["js_divergence"] =
          grid.has(head) ? divergence_of_texts(means.select(1, n)) : mean_interval({}, draws_);
    }
    if (texts.size(0) > 1 && count <= kMostHeadsWithEnds) add_divergence_ends(texts, grid);
  }

  Interval divergence_of_texts(const at::Tensor& texts) const {
    return bounded(kDivergence, mean_interval(to_vector<double>(texts), draws_));
  }

  void add_divergence_ends(const at::Tensor& texts, const HeadGrid& grid) {
    const std::int64_t count = texts.size(1);
    at::Tensor low = at::full({count, count}, std::nan(""), at::kDouble), high = low.clone();
    auto lows = low.accessor<double, 2>(), highs = high.accessor<double, 2>();
    for (std::int64_t a = 0; a < count; ++a) {
      for (std::int64_t b = a + 1; b < count; ++b) {
        const Interval one = divergence_of_texts(texts.select(1, a).select(1, b));
        if (one.low) lows[a][b] = lows[b][a] = *one.low;
        if (one.high) highs[a][b] = highs[b][a] = *one.high;
      }
    }
    out_.tensors.push_back(tensor_ref("js_divergence_low", on_grid(low, grid, grid)));
    out_.tensors.push_back(tensor_ref("js_divergence_high", on_grid(high, grid, grid)));
  }

  const std::vector<std::shared_ptr<TextPass>>& passes_;
  const HeadsOptions& options_;
  Stack stack_;
  ChosenLayers layers_;
  bool causal_;
  std::vector<std::int64_t> windows_;
  std::vector<HeadMetric> metrics_;
  std::vector<TextValues> texts_;
  std::vector<at::Tensor> divergences_;  // (heads, heads) of each text, of those that there are
  Profiles profiles_;
  RepeatedValues repeated_;
  Draws draws_;
  model::AllRan kernels_;
  HeadsOutput out_;
};

}  // namespace

HeadsOutput analyse_heads(const std::vector<std::shared_ptr<TextPass>>& passes,
                          const HeadsOptions& options, protocol::Progress& progress) {
  return HeadsAnalysis(passes, options).run(progress);
}

}  // namespace phasescope::analysis
