#include "training/bundle.h"

#include <algorithm>
#include <map>

#include "analysis/distance.h"
#include "analysis/heads.h"
#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "formats/error.h"
#include "model/checkpoints/open_model.h"
#include "model/encodings/tapa.h"
#include "protocol/json_form.h"
#include "training/checkpoint.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/metrics_log.h"
#include "training/run_config.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kLogBytes = 60'000;
constexpr std::size_t kHistoryTexts = 24;
constexpr std::int64_t kPairs = 10'000;

using Passes = std::vector<std::shared_ptr<analysis::TextPass>>;

std::string thinned_log(const std::vector<protocol::MetricPoint>& points) {
  std::string text;
  for (std::size_t limit = points.size(); limit > 0; limit = limit * 4 / 5) {
    text.clear();
    for (const protocol::MetricPoint& point : thinned(points, limit)) text += metrics_line(point);
    if (text.size() <= kLogBytes) break;
  }
  return text;
}

Passes passes_of(const std::shared_ptr<const model::Model>& model) {
  const std::int64_t context = model->config().context;
  std::vector<formats::NamedText> texts =
      analysis::bundled_texts(analysis::counted_by(*model->tokenizer), context).texts;
  texts.resize(std::min(texts.size(), kHistoryTexts));
  Passes passes;
  for (const analysis::Text& text : analysis::tokenised(texts, *model->tokenizer, context).items) {
    passes.push_back(std::make_shared<analysis::TextPass>(model, analysis::ids_tensor(text.ids)));
  }
  return passes;
}

// {"entropy": [layer 0, layer 1, ...], ...}: means over a layer's heads.
json head_statistics(const Passes& passes, protocol::Progress& progress) {
  analysis::HeadsOptions options;
  options.draws = 16;  // as the bundled histories have them
  const auto output = analysis::analyse_heads(passes, options, progress);
  const auto layers = static_cast<std::size_t>(output.result.layers);
  std::map<std::string, std::vector<double>> sums;
  for (const protocol::HeadRow& row : output.result.rows) {
    for (const auto& [metric, value] : row.values) {
      auto& by_layer = sums.try_emplace(metric, layers, 0.0).first->second;
      by_layer[static_cast<std::size_t>(row.layer)] +=
          value.mean / static_cast<double>(output.result.heads);
    }
  }
  return protocol::to_json_form(sums);
}

json near_far_entry(const protocol::NearFar& histogram) {
  json form = protocol::to_json_form(histogram);
  form.erase("edges");
  form.erase("counts");
  return form;
}

// Score of a near key minus that of a far one: the nearest sixteenth of the trained length against
// its farthest quarter (0..15 and 192..255 of 256), [BOS] left out.
json near_far_statistics(const Passes& passes, std::int64_t context, protocol::Progress& progress) {
  analysis::DistanceOptions options;
  options.near = {0, context / 16};
  options.far = {context * 3 / 4, context};
  options.pairs = kPairs;
  options.leave_out_first = true;
  options.profile = options.intrinsic = false;
  const protocol::DistanceModel result = analysis::analyse_distance(passes, options, progress);
  json layers = json::array();
  for (const protocol::DistanceGroup& layer : result.layers) {
    if (layer.histogram) layers.push_back(near_far_entry(*layer.histogram));
  }
  json form{{"layers", std::move(layers)}};
  if (result.histogram) form["all"] = near_far_entry(*result.histogram);
  return form;
}

json statistics_of(const fs::path& checkpoint, const protocol::MetricPoint& point,
                   protocol::Progress& progress) {
  verify_checkpoint(formats::real_file_system(), checkpoint);
  const auto model = model::open_model(checkpoint.string());
  const Passes passes = passes_of(model);
  return {{"step", point.step},
          {"tokens", point.tokens},
          {"loss", point.loss},
          {"validation_bits", point.validation_bits.value_or(0)},
          {"texts", passes.size()},
          {"heads", head_statistics(passes, progress)},
          {"near_far", near_far_statistics(passes, model->config().context, progress)}};
}

const protocol::MetricPoint& point_at(const std::vector<protocol::MetricPoint>& points,
                                      int64_t step, const fs::path& job) {
  const auto found = std::find_if(points.begin(), points.end(),
                                  [step](const auto& point) { return point.step == step; });
  if (found != points.end()) return *found;
  throw formats::bad_input("metrics.jsonl has no step " + std::to_string(step), job.string());
}

}  // namespace

void bundle_model(formats::FileSystem& files, const fs::path& job, const fs::path& out,
                  protocol::Progress& progress) {
  const RunConfig config = run_config_from_file(job / job_file::config);
  const auto points = read_metrics(job / job_file::metrics);
  const fs::path checkpoints = job / job_file::checkpoints;
  const fs::path last = checkpoint_folder(checkpoints, config.train.steps);
  verify_checkpoint(files, last);

  json history = json::array();
  std::vector<int64_t> steps = config.train.keep_steps;
  steps.push_back(config.train.steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    progress.progress(static_cast<double>(i) / static_cast<double>(steps.size()),
                      "step " + std::to_string(steps[i]));
    history.push_back(statistics_of(checkpoint_folder(checkpoints, steps[i]),
                                    point_at(points, steps[i], job), progress));
  }
  const auto model = model::open_model(last.string());
  formats::make_directories(files, out);
  // What training needed as a gain on the phase is part of the weights from here on.
  model::ModelConfig folded = model->config();
  model::Weights weights = model->decoder.weights();
  model::fold_phase_gain(folded, weights);
  model::save_model(files, out, folded, *model::make_encoding(folded), weights, at::kBFloat16);
  formats::write_file_atomically(files, out / "run.json", to_json(config).dump(1) + "\n");
  formats::write_file_atomically(files, out / "training.jsonl", thinned_log(points));
  formats::write_file_atomically(files, out / "history.json",
                                 json{{"checkpoints", history}}.dump() + "\n");
}

}  // namespace phasescope::training
