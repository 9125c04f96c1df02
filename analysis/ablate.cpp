#include "analysis/ablate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "analysis/divergence.h"
#include "analysis/model_sides.h"
#include "analysis/paired_rows.h"
#include "analysis/questions/common.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "model/attention/repairs.h"
#include "model/host_memory.h"
#include "protocol/head_name.h"

namespace phasescope::analysis {
namespace {

using model::Repairs;
using HeadPlace = std::pair<std::int64_t, std::int64_t>;  // layer, head

constexpr std::size_t kFewChanges = 4;  // whose maps are measured without being asked for
constexpr std::int64_t kLogitsHeld = std::int64_t{4} << 20;

// One reading, before it is opened.
struct Change {
  std::string words;
  std::vector<HeadPlace> heads;  // none: settings alone
  std::string named;             // the heads as the options of a reading name them
};

// What a way of changing heads needs beside them.
struct Way {
  const char* option;    // of the encoding
  bool limited = false;  // by a number
  bool whole = false;    // which is one of tokens
  double lowest = 0, highest = 1e12;
  bool plain = false;  // runs plain
};

Way way_named(const std::string& how) {
  constexpr double any = 1e9;
  if (how == "window") return {"encoding.head_windows", true, true, 1};
  if (how == "clamp") return {"encoding.head_clamps", true, true, 0, 1e12, true};
  if (how == "sink") return {"encoding.head_sink_caps", true, false, 0, 1, true};
  if (how == "bias") return {"encoding.head_bias_scales", true, false, -any, any};
  if (how == "zero" || how == "mean" || how == "resample") return {"encoding.head_ablations"};
  throw formats::bad_usage("'" + how + "' is no way to change a head", "how",
                           "zero, mean, resample, window, clamp, sink or bias");
}

void check_limit(const std::string& how, const Way& way, const std::optional<double>& limit) {
  if (!way.limited && limit) {
    throw formats::bad_usage("a limit says nothing where heads are replaced by " + how, "limit",
                             "leave it out, or change heads by window, clamp, sink or bias");
  }
  if (!way.limited) return;
  if (!limit) throw formats::bad_usage(how + " needs a limit", "limit", "give a number");
  const bool whole = std::floor(*limit) == *limit;
  if (*limit >= way.lowest && *limit <= way.highest && (whole || !way.whole)) return;
  throw formats::bad_usage(nlohmann::json(*limit).dump() + " is no limit of " + how, "limit",
                           way.whole ? "give a number of tokens"
                                     : "give one from " + nlohmann::json(way.lowest).dump() +
                                           " to " + nlohmann::json(way.highest).dump());
}

std::string place_name(const HeadPlace& place) {
  return protocol::name_of_head(place.first, place.second);
}

// Sums of every head's output over the rows of all texts.
class OutputSums final : public model::AttentionHook {
 public:
  explicit OutputSums(const model::ModelConfig& config)
      : config_(config), sums_(static_cast<std::size_t>(config.layers)) {}
  void after(std::int64_t layer, const model::AttentionProgram&, const at::Tensor&,
             model::AttentionResult& result) override {
    at::Tensor& sum = sums_[static_cast<std::size_t>(layer)];
    const at::Tensor here = result.out.to(at::kDouble).sum(at::IntArrayRef({0, 2}));  // (H, d)
    sum = sum.defined() ? sum + here : here;
    if (layer == first_layer_with_maps(config_)) rows_ += result.out.size(0) * result.out.size(2);
  }
  // (layers, H, d); zeros of heads that a layer has not.
  at::Tensor means() const {
    at::Tensor all;
    for (std::size_t n = 0; n < sums_.size(); ++n) {
      const at::Tensor& sum = sums_[n];
      if (!sum.defined()) continue;
      const std::int64_t width = sum.size(1);
      if (!all.defined()) all = at::zeros({config_.layers, config_.heads, width}, sum.options());
      if (all.size(2) != width) {
        throw formats::Error("not_applicable",
                             "mean outputs are of heads of one width, and layers of this model "
                             "have heads of several",
                             "how");
      }
      all[static_cast<std::int64_t>(n)].narrow(0, 0, sum.size(0)).copy_(sum);
    }
    return all / static_cast<double>(rows_);
  }

 private:
  const model::ModelConfig& config_;
  std::vector<at::Tensor> sums_;
  std::int64_t rows_ = 0;
};

// Puts what repairs say in place of heads' outputs.
class Replacing final : public model::AttentionHook {
 public:
  explicit Replacing(Repairs repairs) : repairs_(std::move(repairs)) {}
  void after(std::int64_t layer, const model::AttentionProgram&, const at::Tensor&,
             model::AttentionResult& result) override {
    result.out = model::ablated(repairs_, layer, result.out);
  }

 private:
  Repairs repairs_;
};

// One change and all that is gathered of it.
struct Measured {
  Change change;
  protocol::ModelReading reading;
  std::shared_ptr<const model::Model> model;
  std::shared_ptr<Replacing> hook;  // of means, which a reading takes from a file
  RowMean loss, loss_change, logits, guesses;
  RowBlocks positions{1};
  std::vector<RowMean> maps;
};

// The divergence of the guesses of `other` from those of `pass`, and where the first one differs,
// each (N).
struct GuessChange {
  at::Tensor divergence, differs;
};
GuessChange guess_change(TextPass& pass, TextPass& other) {
  const model::Decoder& decoder = pass.model().decoder;
  const at::Tensor before = pass.hidden(), after = other.hidden();
  const std::int64_t rows = before.size(1);
  const std::int64_t step =
      std::max<std::int64_t>(1, kLogitsHeld / pass.model().config().vocab_size);
  std::vector<at::Tensor> divergence, differs;
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const auto guesses = [&](const at::Tensor& hidden) {
      const at::Tensor some = hidden.slice(1, begin, std::min(begin + step, rows));
      return decoder.logits(some, pass.options())[0].to(at::kDouble);
    };
    const at::Tensor x = guesses(before), y = guesses(after);
    const at::Tensor p = x.log_softmax(-1), q = y.log_softmax(-1);
    divergence.push_back((p.exp() * (p - q)).sum(-1).clamp_min(0));
    // Logits that are no numbers guess nothing.
    differs.push_back((x.argmax(-1) != y.argmax(-1))
                          .to(at::kDouble)
                          .masked_fill_(at::isnan(x.sum(-1) + y.sum(-1)), std::nan("")));
  }
  return {model::on_host(at::cat(divergence)), model::on_host(at::cat(differs))};
}

class Ablation {
 public:
  Ablation(const std::shared_ptr<const model::Model>& model, const Texts& texts,
           const AblateOptions& options, protocol::Progress& progress)
      : model_(model),
        texts_(texts),
        options_(options),
        way_(way_named(options.how)),
        progress_(progress),
        draws_(options.seed) {
    require_causal(*model, "ablation");
    require_losses(*model, texts);
    check_limit(options.how, way_, options.limit);
  }

  AblateOutput run() {
    const at::NoGradGuard no_gradients;
    for (Change& change : changes()) measured_.push_back({.change = std::move(change)});
    maps_ = options_.maps == "yes" || (options_.maps != "no" && measured_.size() <= kFewChanges);
    const bool means = options_.how == "mean" && !settings_alone();
    steps_ = static_cast<double>(texts_.items.size()) *
             static_cast<double>(measured_.size() + (means ? 2 : 1));
    if (means) read_means();
    for (Measured& one : measured_) open(one);
    for (const Text& text : texts_.items) read(text);
    return told();
  }

 private:
  // ---- What is changed ----

  bool settings_alone() const {
    return options_.heads.empty() && !options_.set.empty() && options_.by.empty() &&
           options_.how == "zero";
  }

  std::vector<HeadPlace> places_of(const std::string& words) const {
    const std::int64_t layers = model_->config().layers, heads = model_->config().heads;
    const model::HeadsNamed named = model::heads_named(words, layers, heads);
    std::vector<HeadPlace> places;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      if (named.layer >= 0 && named.layer != layer) continue;
      for (std::int64_t head = 0; head < heads; ++head) {
        if (!has_head(model_->config(), layer, head)) continue;
        if (named.head < 0 || named.head == head) places.emplace_back(layer, head);
      }
    }
    if (!places.empty()) return places;
    throw formats::bad_usage("there are no heads " + words + ": of " + model_->report.name + " " +
                                 missing_heads(model_->config()),
                             "head");
  }

  std::vector<Change> changes() const {
    if (settings_alone()) return {{}};
    const bool named = !options_.heads.empty();
    const std::vector<std::string> words = named ? options_.heads : std::vector<std::string>{"all"};
    std::vector<HeadPlace> all;
    for (const std::string& one : words) {
      for (const HeadPlace& place : places_of(one)) {
        if (std::ranges::find(all, place) == all.end()) all.push_back(place);
      }
    }
    std::ranges::sort(all);
    const std::string by = !options_.by.empty() ? options_.by : named ? "together" : "head";
    if (by == "together") return {together(words, std::move(all))};
    std::vector<Change> changes;
    for (const HeadPlace& place : all) {
      const bool more =
          by == "layer" && !changes.empty() && changes.back().heads.back().first == place.first;
      if (!more) changes.emplace_back();
      changes.back().heads.push_back(place);
    }
    for (Change& change : changes) name(change);
    return changes;
  }

  Change together(const std::vector<std::string>& words, std::vector<HeadPlace> all) const {
    Change change{.heads = std::move(all)};
    for (const std::string& one : words) {
      change.named += (change.named.empty() ? "" : " ") + one;
    }
    change.words = change.named == "all" ? "all heads" : change.named;
    // "all" and "L0" name heads that a layer may not have.
    if (!missing_heads(model_->config()).empty()) change.named = names_of(change.heads);
    return change;
  }

  static std::string names_of(const std::vector<HeadPlace>& heads) {
    std::string names;
    for (const HeadPlace& place : heads) names += (names.empty() ? "" : " ") + place_name(place);
    return names;
  }

  void name(Change& change) const {
    const std::int64_t layer = change.heads.front().first;
    const bool whole = static_cast<std::int64_t>(change.heads.size()) == model_->config().heads;
    if (whole && change.heads.size() > 1) {
      change.named = "L" + std::to_string(layer);
    } else {
      change.named = names_of(change.heads);
    }
    change.words = change.named;
  }

  // What stands behind the colon of a head.
  std::string value() const {
    if (!way_.limited) return options_.how;
    if (way_.whole) return std::to_string(static_cast<std::int64_t>(*options_.limit));
    return nlohmann::json(*options_.limit).dump();
  }

  // "L3H1:zero L2:zero"
  std::string setting_of(const Change& change) const {
    std::string list = change.named + " ", out;
    for (std::size_t end = 0; (end = list.find(' ')) != list.npos; list.erase(0, end + 1)) {
      out += (out.empty() ? "" : " ") + list.substr(0, end) + ":" + value();
    }
    return out;
  }

  void open(Measured& one) const {
    protocol::ModelReading before = protocol::model_reading(model_->report.name);
    protocol::Settings settings = options_.set;
    one.reading = {before.model, before.settings};
    for (const auto& setting : options_.set) one.reading.settings.push_back(setting);
    if (!one.change.heads.empty()) add_heads(one, before.settings, settings);
    describe(one);
    one.model = model::with_overrides(model_, settings, protocol::name_of(one.reading));
    one.positions = RowBlocks(texts_.longest() - 1);
    const model::ModelConfig& config = model_->config();
    if (maps_) one.maps.resize(static_cast<std::size_t>(config.layers * config.heads));
  }

  // What a reading has of the option already stays there.
  void add_heads(Measured& one, const protocol::Settings& before,
                 protocol::Settings& settings) const {
    std::string list = setting_of(one.change);
    for (const auto& [key, text] : before) {
      if (key == way_.option) list = text + " " + list;
    }
    std::erase_if(one.reading.settings, [&](const auto& s) { return s.first == way_.option; });
    one.reading.settings.emplace_back(way_.option, list);
    if (options_.how == "resample" && options_.seed != 0) {
      const std::pair<std::string, std::string> seed{"encoding.ablation_seed",
                                                     std::to_string(options_.seed)};
      one.reading.settings.push_back(seed), settings.push_back(seed);
    }
    if (options_.how != "mean") {
      settings.emplace_back(way_.option, list);
      return;
    }
    one.reading.settings.emplace_back("encoding.ablation_means", "FILE.safetensors");
    Repairs repairs;
    repairs.means = means_;
    for (const auto& [layer, head] : one.change.heads) {
      repairs.ablations.push_back({layer, head, Repairs::How::mean});
    }
    one.hook = std::make_shared<Replacing>(std::move(repairs));
  }

  void describe(Measured& one) const {
    std::string& words = one.change.words;
    if (!words.empty()) {
      words += " " + options_.how;
      if (way_.limited) words += " " + value();
    }
    for (const auto& [key, text] : options_.set) {
      words += (words.empty() ? "" : ", ") + key + "=" + text;
    }
  }

  // ---- What is read ----

  model::Backend backend() const {
    return way_.plain && !settings_alone() ? model::Backend::plain : options_.backend;
  }

  std::shared_ptr<TextPass> pass_of(const std::shared_ptr<const model::Model>& model,
                                    const Text& text, model::AttentionHook* hook) {
    model::ForwardOptions options;
    options.backend = backend();
    options.kernels = &kernels_;
    options.hook = hook;
    options.cancelled = [this] { return progress_.cancelled(); };
    options.progress = [this](double done) { tell(done); };
    return std::make_shared<TextPass>(model, ids_tensor(text.ids), options, 0);
  }

  void step(const std::string& words) {
    progress_.throw_if_cancelled();
    doing_ = words;
    ++passes_;
    tell(0);
  }

  // How much of the pass that runs is done.
  void tell(double done) {
    const double before = static_cast<double>(passes_ - 1);
    progress_.progress(std::min(1.0, (before + done) / steps_), doing_);
  }

  void read_means() {
    OutputSums sums(model_->config());
    for (const Text& text : texts_.items) {
      step("reading mean outputs");
      pass_of(model_, text, &sums)->run();
    }
    means_ = sums.means().to(at::kFloat).to(at::kDouble);  // as a file has them
  }

  void read(const Text& text) {
    step("reading the model as it is");
    const auto before = pass_of(model_, text, nullptr);
    std::map<std::int64_t, AttentionPointer> layers;
    if (maps_) {
      before->visit_layers_with_maps([&](const auto& one) { layers.emplace(one->layer(), one); });
    }
    const at::Tensor losses = before->losses()[0].to(at::kDouble);
    loss_.add(losses);
    for (Measured& one : measured_) {
      step(one.change.words);
      const auto after = pass_of(one.model, text, one.hook.get());
      if (maps_) add_maps(layers, *after, one);
      const at::Tensor changed = after->losses()[0].to(at::kDouble);
      one.loss.add(changed), one.loss_change.add(changed - losses);
      one.positions.add(changed - losses);
      const GuessChange guesses = guess_change(*before, *after);
      one.logits.add(guesses.divergence), one.guesses.add(guesses.differs);
    }
  }

  void add_maps(const std::map<std::int64_t, AttentionPointer>& before, TextPass& after,
                Measured& one) {
    const std::int64_t in_layer = model_->config().heads;
    const double end = static_cast<double>(passes_) / steps_;
    protocol::PartOfProgress part(progress_, end - 1 / steps_, end);
    const auto layers = static_cast<double>(model_->config().layers);
    after.visit_layers_with_maps([&](const AttentionPointer& layer) {
      const auto n = static_cast<double>(layer->layer());
      protocol::PartOfProgress of_layer(part, n / layers, (n + 1) / layers);
      const at::Tensor rows = divergence_of(*before.at(layer->layer()), *layer, &of_layer);
      for (std::int64_t head = 0; head < layer->heads(); ++head) {
        one.maps[static_cast<std::size_t>(layer->layer() * in_layer + head)].add(rows[head]);
      }
    });
  }

  // ---- What is told ----

  AblateOutput told() {
    AblateOutput out;
    protocol::AblateResult& result = out.result;
    result.model = model_->report.name;
    result.formula =
        "loss_change = loss after - loss before, of the same rows; logits_divergence = mean over "
        "rows of KL(guesses before || after); maps = mean over rows of JS(weights before, after)";
    result.layers = model_->config().layers, result.heads = model_->config().heads;
    result.loss = bounded(kFromZero, loss_.interval(draws_));
    result.passes = passes_;
    for (const Measured& one : measured_) result.rows.push_back(row_of(one));
    result.provenance.ran = protocol::listed(kernels_);
    if (means_.defined()) out.tensors.push_back(tensor_ref("mean", means_.to(at::kFloat)));
    return out;
  }

  protocol::AblateRow row_of(const Measured& one) const {
    protocol::AblateRow row;
    row.change = one.change.words, row.reading = protocol::name_of(one.reading);
    const std::vector<HeadPlace>& heads = one.change.heads;
    if (heads.size() == 1) row.head = heads[0].second;
    const auto same = [&](const HeadPlace& place) { return place.first == heads[0].first; };
    if (!heads.empty() && std::ranges::all_of(heads, same)) row.layer = heads[0].first;
    row.loss = bounded(kFromZero, one.loss.interval(draws_));
    row.loss_change = one.loss_change.interval(draws_);
    row.logits_divergence = bounded(kFromZero, one.logits.interval(draws_));
    row.guesses_changed = one.guesses.share(draws_);
    for (const RowBlocks::Block& block : one.positions.blocks(draws_)) {
      row.positions.push_back({block.begin, block.end, block.mean});
    }
    const std::int64_t count = model_->config().heads;
    for (std::size_t n = 0; n < one.maps.size(); ++n) {
      const auto place = static_cast<std::int64_t>(n);
      if (!has_head(model_->config(), place / count, place % count)) continue;
      row.maps.push_back(
          {place / count, place % count, bounded(kDivergence, one.maps[n].interval(draws_))});
    }
    return row;
  }

  const std::shared_ptr<const model::Model>& model_;
  const Texts& texts_;
  const AblateOptions& options_;
  const Way way_;
  protocol::Progress& progress_;
  const Draws draws_;
  std::vector<Measured> measured_;
  at::Tensor means_;  // (layers, heads, d) float64
  RowMean loss_;
  bool maps_ = false;
  double steps_ = 1;
  std::int64_t passes_ = 0;
  std::string doing_;
  model::AllRan kernels_;
};

}  // namespace

AblateOutput analyse_ablate(const std::shared_ptr<const model::Model>& model, const Texts& texts,
                            const AblateOptions& options, protocol::Progress& progress) {
  return Ablation(model, texts, options, progress).run();
}

}  // namespace phasescope::analysis
