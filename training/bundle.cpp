#include "training/bundle.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analysis/distance.h"
#include "analysis/heads.h"
#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "formats/error.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/weights.h"
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
// The log's share of a folder whose size is limited.
constexpr std::uintmax_t kLogShare = 8;
constexpr const char* kTableHead =
    "| model | encoding | trained on | kB | licence | SHA-256 of `model.safetensors` |\n";
constexpr std::size_t kHistoryTexts = 24;
constexpr std::int64_t kPairs = 10'000;

using Passes = std::vector<std::shared_ptr<analysis::TextPass>>;

std::string thinned_log(const std::vector<protocol::MetricPoint>& points, std::size_t bytes) {
  std::string text;
  for (std::size_t limit = points.size(); limit > 0; limit = limit * 4 / 5) {
    text.clear();
    for (const protocol::MetricPoint& point : thinned(points, limit)) text += metrics_line(point);
    if (text.size() <= bytes) break;
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

json statistics_of(const fs::path& checkpoint, const protocol::MetricPoint& point, bool of_text,
                   protocol::Progress& progress) {
  verify_checkpoint(formats::real_file_system(), checkpoint);
  json statistics = {{"step", point.step},
                     {"tokens", point.tokens},
                     {"loss", point.loss},
                     {"validation_bits", point.validation_bits.value_or(0)}};
  if (!of_text) return statistics;
  const auto model = model::open_model(checkpoint.string());
  const Passes passes = passes_of(model);
  statistics["texts"] = passes.size();
  statistics["heads"] = head_statistics(passes, progress);
  statistics["near_far"] = near_far_statistics(passes, model->config().context, progress);
  return statistics;
}

const protocol::MetricPoint& point_at(const std::vector<protocol::MetricPoint>& points,
                                      std::int64_t step, const fs::path& job) {
  const auto found = std::find_if(points.begin(), points.end(),
                                  [step](const auto& point) { return point.step == step; });
  if (found != points.end()) return *found;
  throw formats::bad_input("metrics.jsonl has no step " + std::to_string(step), job.string());
}

// The bytes of the weights in bfloat16.
std::uintmax_t narrow_bytes_of(const model::ModelConfig& config, const model::Weights& weights) {
  std::uintmax_t bytes = 0;
  for (const auto& [name, tensor] :
       model::named_tensors(config, *model::make_encoding(config), weights)) {
    bytes += 2 * static_cast<std::uintmax_t>(tensor.numel());
  }
  return bytes;
}

std::string in_kilobytes(std::uintmax_t bytes) { return std::to_string((bytes + 500) / 1000); }

// "tapa, phase_norm 0.3"
std::string encoding_words(const json& encoding) {
  std::string words = encoding.value("key", "");
  for (const auto& [name, value] : encoding.items()) {
    if (name == "key") continue;
    words += ", " + name + " " + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return words;
}

std::string table_row(const fs::path& model) {
  const json run = formats::json_from_file(model / "run.json");
  const std::string task = run.value("/task/name"_json_pointer, "");
  std::uintmax_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(model)) bytes += entry.file_size();
  return "| `" + model.filename().string() + "` | " + encoding_words(run.at("encoding")) + " | " +
         (task.empty() ? "the training text" : "samples of " + task) + " | " + in_kilobytes(bytes) +
         " | Apache-2.0 | `" + formats::sha256_of_file(model / "model.safetensors") + "` |\n";
}

}  // namespace

void bundle_model(formats::FileSystem& files, const fs::path& job, const fs::path& out,
                  protocol::Progress& progress, std::uintmax_t most_bytes) {
  const RunConfig config = run_config_from_file(job / job_file::config);
  const auto points = read_metrics(job / job_file::metrics);
  const fs::path checkpoints = job / job_file::checkpoints;
  const fs::path last = checkpoint_folder(checkpoints, config.train.steps);
  verify_checkpoint(files, last);

  // What training needed as a gain on the phase is part of the weights from here on.
  const auto model = model::open_model(last.string());
  model::ModelConfig folded = model->config();
  model::Weights weights = model->decoder.weights();
  model::fold_phase_gain(folded, weights);
  const std::uintmax_t bytes = narrow_bytes_of(folded, weights);
  if (most_bytes > 0 && bytes + most_bytes / kLogShare > most_bytes) {
    throw formats::bad_input("its weights take " + in_kilobytes(bytes) +
                                 " kB in bfloat16, and the "
                                 "folder may take " +
                                 in_kilobytes(most_bytes) + " kB with its log",
                             job.string(), "bundle a smaller model, or allow more");
  }

  json history = json::array();
  std::vector<std::int64_t> steps = config.train.keep_steps;
  steps.push_back(config.train.steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    progress.progress(static_cast<double>(i) / static_cast<double>(steps.size()),
                      "step " + std::to_string(steps[i]));
    history.push_back(statistics_of(checkpoint_folder(checkpoints, steps[i]),
                                    point_at(points, steps[i], job), config.of_text(), progress));
  }
  formats::make_directories(files, out);
  model::save_model(files, out, folded, *model::make_encoding(folded), weights, at::kBFloat16);
  const std::size_t log_bytes =
      most_bytes == 0
          ? kLogBytes
          : static_cast<std::size_t>(std::min<std::uintmax_t>(kLogBytes, most_bytes / kLogShare));
  formats::write_file_atomically(files, out / "run.json", to_json(config).dump(1) + "\n");
  formats::write_file_atomically(files, out / "training.jsonl", thinned_log(points, log_bytes));
  formats::write_file_atomically(files, out / "history.json",
                                 json{{"checkpoints", history}}.dump() + "\n");
}

std::string models_table(const fs::path& models) {
  std::set<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(models)) {
    if (fs::exists(entry.path() / "run.json")) folders.insert(entry.path());
  }
  std::string table = std::string(kTableHead) + "|---|---|---|--:|---|---|\n";
  for (const fs::path& model : folders) table += table_row(model);
  return table;
}

std::string with_models_table(std::string page, const std::string& table) {
  const std::size_t begin = page.find(kTableHead);
  if (begin == page.npos) {
    throw formats::bad_input("the page has no table of models", "README.md",
                             std::string("give it the line ") + kTableHead);
  }
  const std::size_t end = std::min(page.find("\n\n", begin), page.size() - 1) + 1;
  return page.replace(begin, end - begin, table);
}

}  // namespace phasescope::training
