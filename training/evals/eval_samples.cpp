#include "training/evals/eval_samples.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "formats/error.h"
#include "model/checkpoints/tensor_io.h"
#include "tasks/named_sample.h"
#include "tasks/vocabulary.h"
#include "training/evals/task_answers.h"
#include "training/evals/written_answers.h"
#include "training/task_data.h"

namespace phasescope::training {
namespace {

using nlohmann::json;
using tasks::Form;
using tasks::Ids;
using tasks::Sample;
using tasks::Task;

constexpr std::size_t kTokensAtOnce = 8192;
constexpr std::int64_t kTrials = 512, kTrialsOfACell = 100, kTrialsOfATextTask = 20;
constexpr double kDepths = 10;

// ---- Models that a task can be asked of ----------------------------------------------------------

formats::Error unfit(const std::string& name, const Task& task, const std::string& why) {
  return formats::bad_input(task.info().key + " cannot be asked of " + name + ": " + why, "task",
                            tasks::has_own_ids(task) ? "train one with a task section" : "");
}

// The symbols of a model's ids; empty where they are a text's.
std::vector<std::string> symbols_in(const model::ModelConfig& config) {
  const json& tokenizer = config.tokenizer;
  if (!tokenizer.is_object() || !tokenizer.contains("symbols")) return {};
  return tokenizer.at("symbols").get<std::vector<std::string>>();
}

void require_fit(const std::string& name, const model::ModelConfig& config, const Task& task) {
  const Form form = task.info().form;
  if (tasks::has_own_ids(task) && symbols_in(config) != tasks::symbols_of(task)) {
    throw unfit(name, task, "its vocabulary is another");
  }
  if (!config.head.present) throw unfit(name, task, "it has no head");
  if ((config.encoder_layers > 0) != (form == Form::encoder_decoder)) {
    throw unfit(
        name, task,
        form == Form::encoder_decoder ? "it is no encoder-decoder" : "it is an encoder-decoder");
  }
  if ((config.patches.side > 0) != (form == Form::image)) {
    throw unfit(name, task, form == Form::image ? "it reads no images" : "it reads images");
  }
  if (config.attention.causal == tasks::sees_both_ways(task)) {
    throw unfit(name, task,
                config.attention.causal ? "it sees no token that comes later"
                                        : "it sees the tokens that it is to answer");
  }
}

void require_fit(const EvalModel& entry, const Task& task) {
  if (!tasks::has_own_ids(task) && !entry.model->tokenizer) {
    throw unfit(entry.name, task, "it has no tokenizer to read texts with");
  }
  require_fit(entry.name, entry.model->config(), task);
}

// The longest length that a model of the task was trained at; 0 where it does not say.
std::int64_t trained_length(const model::ModelConfig& config) {
  const json& tokenizer = config.tokenizer;
  if (!tokenizer.is_object() || !tokenizer.contains("trained")) return 0;
  const json& range = tokenizer.at("trained");
  return range.is_array() && range.size() == 2 && range[1].is_number_integer()
             ? range[1].get<std::int64_t>()
             : 0;
}

// ---- What was asked for --------------------------------------------------------------------------

struct SampleRequest {
  std::vector<std::int64_t> lengths;  // rising
  std::int64_t trials = 0;
  std::uint64_t seed = 0;
  model::Backend backend = model::Backend::fused;
  bool written = false;  // answers are looked for in what a model writes
  std::string metric;
};

// What needs no model.
void check_samples(const protocol::EvalRequest& asked) {
  const Task& task = tasks::task_named(asked.task);
  const protocol::TaskOptions& options = asked.perplexity;
  for (const std::int64_t length : options.lengths) {
    const auto dimensions = static_cast<std::size_t>(task.info().dimensions);
    tasks::check_given_length(task, Ids(dimensions, length), "lengths");
  }
  if (asked.needle.generate && task.info().written == 0) {
    throw formats::bad_usage("the answers of " + task.info().key + " are decided by one pass",
                             "generate");
  }
  model::backend_named(asked.running.backend);
}

// `longest` is that which a model was trained at, 0 where none says.
std::vector<std::int64_t> rising_lengths(std::vector<std::int64_t> lengths, const Task& task,
                                         std::int64_t longest) {
  if (lengths.empty()) {
    if (longest == 0) {
      throw formats::bad_usage(
          "no model says at which lengths of " + task.info().key + " it was trained", "lengths",
          "name some, in " + task.info().length_unit);
    }
    lengths = {longest, std::min(2 * longest, task.info().longest)};
  }
  std::ranges::sort(lengths);
  lengths.erase(std::ranges::unique(lengths).begin(), lengths.end());
  return lengths;
}

void check_models_of_samples(const protocol::EvalRequest& asked,
                             const std::vector<AskedModel>& models) {
  const Task& task = tasks::task_named(asked.task);
  std::int64_t longest = 0;
  for (const AskedModel& one : models) {
    require_fit(one.name, one.config, task);
    longest = std::max(longest, trained_length(one.config));
  }
  rising_lengths(asked.perplexity.lengths, task, longest);
}

std::int64_t usual_trials(const tasks::TaskInfo& info) {
  if (info.form == Form::text) return kTrialsOfATextTask;
  return info.dimensions > 1 ? kTrialsOfACell : kTrials;
}

SampleRequest sample_request(const protocol::EvalRequest& asked, const Task& task,
                             const std::vector<EvalModel>& models) {
  const protocol::TaskOptions& options =
      asked.perplexity;  // the others are refused with the request
  const std::int64_t trials = options.trials;
  const bool written = asked.needle.generate;
  check_samples(asked);
  std::int64_t longest = 0;
  for (const EvalModel& entry : models) {
    longest = std::max(longest, trained_length(entry.model->config()));
  }
  return {.lengths = rising_lengths(options.lengths, task, longest),
          .trials = trials > 0 ? trials : usual_trials(task.info()),
          .seed = static_cast<std::uint64_t>(asked.seed),
          .backend = model::backend_named(asked.running.backend),
          .written = written,
          .metric = written ? "contained" : task.info().metric};
}

// Every length that samples are drawn at: those asked for, or all cells up to the longest.
std::vector<Ids> drawn_lengths(const Task& task, const std::vector<std::int64_t>& lengths) {
  std::vector<Ids> drawn;
  if (task.info().dimensions == 1) {
    for (const std::int64_t length : lengths) drawn.push_back({length});
    return drawn;
  }
  for (std::int64_t a = task.info().shortest; a <= lengths.back(); ++a) {
    for (std::int64_t b = task.info().shortest; b <= lengths.back(); ++b) drawn.push_back({a, b});
  }
  return drawn;
}

std::string words_of(const Ids& length) {
  std::string words;
  for (const std::int64_t part : length) words += (words.empty() ? "" : ",") + std::to_string(part);
  return words;
}

// ---- Answers -------------------------------------------------------------------------------------

SampleScore score_of_answers(const Task& task, const Sample& sample, const Answers& answers) {
  SampleScore score{.correct = answers.score.correct,
                    .counted = answers.score.counted,
                    .nats = answers.nats,
                    .depth = task.depth(sample)};
  for (std::size_t t = 0; t < sample.target.size(); ++t) {
    if (sample.counts[t] == 0 || sample.target[t] != 1) continue;
    ++score.yes;
    score.found += answers.ids[t] == 1 ? 1 : 0;
  }
  return score;
}

// One model over all lengths.
class ModelSamples {
 public:
  ModelSamples(const EvalModel& entry, const Task& task, const SampleRequest& request,
               protocol::Progress& progress, EvalLog& log)
      : entry_(entry),
        task_(task),
        request_(request),
        progress_(progress),
        log_(log),
        draws_(request.seed) {
    options_.backend = request.backend;
    options_.kernels = &kernels_;
    options_.cancelled = [this] { return progress_.cancelled(); };
  }

  void run(const std::map<std::int64_t, tasks::Chance>& chances, protocol::EvalResult& result) {
    const std::vector<Ids> lengths = drawn_lengths(task_, request_.lengths);
    lengths_ = static_cast<double>(lengths.size());
    for (std::size_t n = 0; n < lengths.size(); ++n) {
      done_ = static_cast<double>(n) / lengths_;
      progress_.progress(done_, entry_.name + " at " + words_of(lengths[n]));
      measure(lengths[n]);
    }
    if (cells_.empty()) std::rethrow_exception(refused_);
    for (const std::int64_t length : request_.lengths) add_row(length, chances.at(length), result);
    add_map(result);
    result.provenance.push_back(provenance());
  }

  // The samples of all cells up to a length; none where a cell is missing.
  std::vector<SampleScore> samples_of(std::int64_t length) const {
    std::vector<SampleScore> samples;
    for (const auto& [drawn, scores] : cells_) {
      const bool own = drawn.size() == 1 ? drawn[0] == length : std::ranges::max(drawn) <= length;
      if (own) samples.insert(samples.end(), scores.begin(), scores.end());
    }
    const std::int64_t sides = length - task_.info().shortest + 1;
    const std::int64_t cells = task_.info().dimensions == 1 ? 1 : sides * sides;
    const bool whole = static_cast<std::int64_t>(samples.size()) == cells * request_.trials;
    return whole ? samples : std::vector<SampleScore>();
  }

 private:
  // What was drawn and who answered, so that nothing else is taken for it.
  std::string key_of(const Ids& length) const {
    return task_.info().key + " " + words_of(length) + ", seed " + std::to_string(request_.seed) +
           ", " + std::to_string(request_.trials) + " samples, " + entry_.name + " " +
           entry_.model->report.sha256 + " " + model::name_of_dtype(entry_.model->decoder.dtype()) +
           (request_.written ? ", written" : "");
  }

  void measure(const Ids& length) {
    const std::string key = key_of(length);
    if (const json* known = log_.found(key)) {
      for (const json& row : *known) cells_[length].push_back(score_of_row(row));
      return;
    }
    std::vector<Sample> samples;
    for (std::int64_t n = 0; n < request_.trials; ++n) {
      samples.push_back(task_.draw(request_.seed, length, static_cast<std::uint64_t>(n)));
    }
    try {
      cells_[length] = scores_of(samples);
    } catch (const formats::Error& error) {
      if (error.code() != "bad_input") throw;
      // Its positions do not reach so far; shorter ones may do.
      if (!refused_) refused_ = std::current_exception();
      notes_ += "; a length of " + words_of(length) + " is left out: " + error.what();
      cells_.erase(length);
      return;
    }
    json rows = json::array();
    for (const SampleScore& one : cells_.at(length)) rows.push_back(written(one));
    log_.add(key, std::move(rows));
  }

  std::vector<SampleScore> scores_of(const std::vector<Sample>& samples) {
    if (!request_.written) return answered_samples(entry_, task_, samples, options_);
    protocol::PartOfProgress part(progress_, done_, done_ + 1.0 / lengths_);
    return written_samples(*entry_.model, task_, samples, kernels_, request_.backend, part);
  }

  void add_row(std::int64_t length, const tasks::Chance& chance,
               protocol::EvalResult& result) const {
    const std::vector<SampleScore> samples = samples_of(length);
    if (samples.empty()) return;
    const analysis::Interval interval = metric_of(request_.metric, samples, draws_);
    protocol::EvalRow row;
    row.model = entry_.name;
    row.encoding = entry_.model->encoding().info().key;
    row.metric = request_.metric;
    row.length = length;
    row.value = interval.mean;
    row.low = interval.low, row.high = interval.high;
    row.n = interval.n, row.method = interval.method;
    for (const SampleScore& one : samples) row.tokens += one.counted;
    row.seed = static_cast<std::int64_t>(request_.seed);
    row.exact = exact_share(samples);
    row.uniform = chance.uniform, row.blind = chance.blind;
    if (const std::int64_t trained = trained_length(entry_.model->config()); trained > 0) {
      row.trained = trained;
    }
    result.rows.push_back(std::move(row));
  }

  void add_map(protocol::EvalResult& result) const {
    if (task_.info().columns.empty()) return;
    for (const auto& [length, scores] : cells_) {
      for (const auto& [column, part] : columns_of(length, scores)) {
        protocol::EvalCell cell{
            .model = entry_.name, .row = static_cast<double>(length[0]), .column = column};
        cell.value = metric_of(request_.metric, part, draws_).mean;
        cell.n = static_cast<std::int64_t>(part.size());
        result.cells.push_back(std::move(cell));
      }
    }
  }

  // A cell of two lengths is one column; a length's samples are told apart by the tenth of them in
  // which the answer stands.
  static std::map<double, std::vector<SampleScore>> columns_of(
      const Ids& length, const std::vector<SampleScore>& scores) {
    if (length.size() > 1) return {{static_cast<double>(length[1]), scores}};
    std::map<double, std::vector<SampleScore>> columns;
    for (const SampleScore& one : scores) {
      columns[std::min(std::floor(one.depth * kDepths), kDepths - 1) / kDepths].push_back(one);
    }
    return columns;
  }

  protocol::Provenance provenance() const {
    protocol::Provenance provenance;
    provenance.models = {entry_.name};
    provenance.model_hashes = {entry_.model->report.sha256};
    provenance.dtype = model::name_of_dtype(entry_.model->decoder.dtype());
    provenance.set_ran(protocol::listed(kernels_));
    provenance.seed = static_cast<std::int64_t>(request_.seed);
    provenance.note =
        std::to_string(request_.trials) + " samples at each length" +
        (task_.info().dimensions > 1
             ? " of every pair, a row's length standing for all pairs up to it"
             : "") +
        "; intervals by sample; " +
        (request_.written ? "the answer anywhere in " + std::to_string(task_.info().written) +
                                " tokens that are written, greedy"
                          : std::string("one pass, greedy")) +
        notes_;
    const std::string& from = entry_.model->report.weights_from;
    if (!from.empty()) provenance.note += "; weights " + from;
    return provenance;
  }

  const EvalModel& entry_;
  const Task& task_;
  const SampleRequest& request_;
  protocol::Progress& progress_;
  EvalLog& log_;
  analysis::Draws draws_;
  model::ForwardOptions options_;
  model::AllRan kernels_;
  double lengths_ = 1, done_ = 0;  // how many there are, and which share of them is measured
  std::exception_ptr refused_;
  std::map<Ids, std::vector<SampleScore>> cells_;
  std::string notes_;
};

// ---- The task ------------------------------------------------------------------------------------

// What guessing gets at every length of a row; of two parts the mean over all cells.
std::map<std::int64_t, tasks::Chance> chances_of(const Task& task, const SampleRequest& request) {
  std::map<std::int64_t, tasks::Chance> chances;
  for (const std::int64_t length : request.lengths) {
    if (request.written) {
      chances[length] = task.chance_written();
      continue;
    }
    if (task.info().dimensions == 1) {
      chances[length] = task.chance({length});
      continue;
    }
    const std::vector<Ids> cells = drawn_lengths(task, {length});
    tasks::Chance& mean = chances[length];
    for (const Ids& cell : cells) {
      const tasks::Chance one = task.chance(cell);
      mean.uniform += one.uniform / static_cast<double>(cells.size());
      mean.blind += one.blind / static_cast<double>(cells.size());
      mean.formula = one.formula;
    }
  }
  return chances;
}

using SamplesByLength = std::map<std::int64_t, std::vector<SampleScore>>;

// What `other` is above `first` at each length that both have whole.
void add_differences(const std::string& metric, const std::vector<EvalModel>& models,
                     std::size_t other, const SamplesByLength& of_first,
                     const SamplesByLength& of_other, const analysis::Draws& draws,
                     protocol::EvalResult& result) {
  const bool loss = metric == "perplexity";
  for (const auto& [length, samples] : of_other) {
    const auto found = of_first.find(length);
    if (samples.empty() || found == of_first.end() || found->second.empty()) continue;
    result.differences.push_back(
        {.model = models[other].name,
         .against = models.front().name,
         .metric = loss ? "loss" : metric,
         .per = loss ? "answer" : "",
         .length = length,
         .difference = metric_difference(metric, found->second, samples, draws)});
  }
}

protocol::EvalResult evaluate_samples(const std::vector<EvalModel>& models,
                                      const protocol::EvalRequest& asked,
                                      protocol::Progress& progress, EvalLog& log) {
  const Task& task = tasks::task_named(asked.task);
  for (const EvalModel& entry : models) require_fit(entry, task);
  const SampleRequest request = sample_request(asked, task, models);
  const tasks::TaskInfo& info = task.info();
  protocol::EvalResult result;
  result.task = info.key, result.metric = request.metric;
  result.length_unit = info.length_unit, result.counted = "samples";
  if (!info.columns.empty()) result.rows_of = info.rows, result.columns_of = info.columns;
  const auto chances = chances_of(task, request);
  const auto count = static_cast<double>(models.size());
  SamplesByLength first;
  for (std::size_t m = 0; m < models.size(); ++m) {
    const auto index = static_cast<double>(m);
    protocol::PartOfProgress part(progress, index / count, (index + 1) / count);
    ModelSamples own(models[m], task, request, part, log);
    own.run(chances, result);
    SamplesByLength samples;
    for (const std::int64_t length : request.lengths) samples[length] = own.samples_of(length);
    if (m == 0) {
      first = std::move(samples);
    } else {
      add_differences(request.metric, models, m, first, samples, analysis::Draws(request.seed),
                      result);
    }
  }
  const double blind = chances.begin()->second.blind;
  const bool alike =
      std::ranges::all_of(chances, [&](const auto& one) { return one.second.blind == blind; });
  result.chance = alike ? blind : std::nan("");
  if (!result.provenance.empty()) {
    result.provenance.front().note +=
        "; blind guesser: " + chances.begin()->second.formula +
        (info.differs.empty() ? "" : "; code and paper: " + info.differs);
  }
  return result;
}

}  // namespace

std::vector<SampleScore> answered_samples(const EvalModel& entry, const Task& task,
                                          const std::vector<Sample>& samples,
                                          const model::ForwardOptions& options) {
  require_fit(entry, task);
  std::vector<Sample> read;
  for (const Sample& one : samples) read.push_back(as_ids(task, one, entry.model->tokenizer.get()));
  std::vector<SampleScore> scores;
  for (std::size_t begin = 0; begin < read.size();) {
    std::size_t end = begin, longest = 0;
    for (; end < read.size(); ++end) {
      longest = std::max(longest, read[end].input.size() + read[end].target.size());
      if (end > begin && longest * (end + 1 - begin) > 2 * kTokensAtOnce) break;
    }
    const auto part = std::span(read).subspan(begin, end - begin);
    const std::vector<Answers> answers = answers_of(entry.model->decoder, task, part, options);
    for (std::size_t n = 0; n < part.size(); ++n) {
      scores.push_back(score_of_answers(task, part[n], answers[n]));
    }
    begin = end;
  }
  return scores;
}

std::vector<EvalTask> sample_tasks() {
  std::vector<EvalTask> list;
  for (const auto& task : tasks::all_tasks()) {
    const tasks::TaskInfo& info = task->info();
    list.push_back({{info.key, info.title,
                     info.help + "; " + info.metric + " against " + info.length_unit, info.source,
                     info.written > 0 ? protocol::options_of<protocol::NeedleOptions>()
                                      : protocol::options_of<protocol::TaskOptions>()},
                    evaluate_samples,
                    check_samples,
                    check_models_of_samples});
  }
  return list;
}

}  // namespace phasescope::training
