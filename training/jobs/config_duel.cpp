#include "training/jobs/config_duel.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <numbers>
#include <thread>
#include <utility>

#include "analysis/questions/duel.h"
#include "analysis/questions/seed_duel.h"
#include "formats/error.h"
#include "formats/json.h"
#include "model/checkpoints/open_model.h"
#include "protocol/json_form.h"
#include "training/evals/eval_samples.h"
#include "training/jobs/eval_rows.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/job_lock.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::JobStatus;

constexpr const char* kAboutFile = "duel.json";
constexpr const char* kUnitsFile = "units.jsonl";
constexpr std::int64_t kSamplesOfADuel = 256;
constexpr double kTrainingShare = 0.95;  // of a seed's time, for its progress

RunConfig of_seed(RunConfig config, std::int64_t seed) {
  config.train.seed = seed;
  config.train.init = "named";
  return config;
}

// What decides which windows or samples a step reads.
bool decides_batches(const std::string& key) {
  static const std::vector<std::string> whole = {"model.context", "train.steps",
                                                 "train.batch_tokens"};
  const bool listed = std::ranges::find(whole, key) != whole.end();
  return listed || key.starts_with("data.") || key.starts_with("task.") ||
         key.starts_with("train.curriculum");
}

void require_same_batches(const RunConfig& a, const RunConfig& b) {
  std::string list;
  for (const std::string& key : differing_keys(to_json(a), to_json(b))) {
    if (decides_batches(key)) list += (list.empty() ? "" : ", ") + key;
  }
  if (list.empty()) return;
  throw formats::bad_input(
      "the two would not be trained on the same batches: they differ in " + list, "A, B",
      "give both the same data, task, context and steps");
}

// ---- The folder ----------------------------------------------------------------------------------

json about(const ConfigDuel& duel) {
  return {{"a", to_json(of_seed(duel.a, 0))},
          {"b", to_json(of_seed(duel.b, 0))},
          {"read_with", duel.read_with}};
}

void require_this_duel(formats::FileSystem& files, const ConfigDuel& duel) {
  const fs::path path = duel.dir / kAboutFile;
  const json own = about(duel);
  if (!fs::exists(path)) {
    if (is_job(duel.dir)) {
      throw formats::bad_usage("the folder holds a job", duel.dir.string(), "name another folder");
    }
    formats::write_file_atomically(files, path, own.dump(1) + "\n");
    return;
  }
  std::string list;
  for (const std::string& key : differing_keys(formats::json_from_file(path), own)) {
    list += (list.empty() ? "" : ", ") + key;
  }
  if (list.empty()) return;
  throw formats::bad_usage("the folder holds another duel, which differs in: " + list,
                           duel.dir.string(), "name another folder");
}

// Tensors of one name that are equal at the start of every seed, and all others in words.
void tell_tensors(const ConfigDuel& duel, protocol::DuelResult& result) {
  const auto started = [](const RunConfig& config) {
    const model::Decoder decoder = start_decoder(of_seed(config, 1), opened_start(config).get());
    const model::NamedTensors list =
        model::named_tensors(decoder.config(), decoder.encoding(), decoder.weights());
    return std::map<std::string, at::Tensor>(list.begin(), list.end());
  };
  const auto a = started(duel.a), b = started(duel.b);
  const bool drawn = !duel.a.from_model() && !duel.b.from_model();
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end()) {
      result.not_shared.push_back(name + " (A alone)");
    } else if (tensor.sizes() != other->second.sizes()) {
      result.not_shared.push_back(name + " (other shapes)");
    } else if (!tensor.equal(other->second)) {
      result.not_shared.push_back(name + (drawn ? " (other deviations)" : " (other weights)"));
    } else {
      result.shared.push_back(name);
    }
  }
  for (const auto& [name, tensor] : b) {
    if (!a.contains(name)) result.not_shared.push_back(name + " (B alone)");
  }
}

// ---- Trainings -----------------------------------------------------------------------------------

// Both sides of a seed, trained beside each other.
class SeedTrainings {
 public:
  SeedTrainings(formats::FileSystem& files, const ConfigDuel& duel, std::int64_t seed)
      : files_(files), duel_(duel) {
    const std::string name = "seed-" + std::to_string(seed);
    dirs_ = {duel.dir / ("a-" + name), duel.dir / ("b-" + name)};
    configs_ = {of_seed(duel.a, seed), of_seed(duel.b, seed)};
  }

  const fs::path& dir(std::size_t side) const { return dirs_[side]; }

  void run(protocol::Progress& progress) {
    for (std::size_t side = 0; side < dirs_.size(); ++side) {
      start_training(files_, {.dir = dirs_[side],
                              .config = to_json(configs_[side]),
                              .existing = ExistingJob::resume,
                              .program = duel_.program});
    }
    while (!ended(progress)) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }

 private:
  bool ended(protocol::Progress& progress) {
    if (progress.cancelled()) {
      stop();
      throw protocol::Cancelled();
    }
    bool all = true;
    double done = 0;
    for (const fs::path& dir : dirs_) {
      const JobStatus job = read_job(dir, CurveDetail::none);
      done += job.steps > 0 ? static_cast<double>(job.step) / static_cast<double>(job.steps) : 0;
      if (protocol::is_live(job.state)) {
        all = false;
      } else if (job.state != "done") {
        stop();
        throw formats::bad_input("a training " + job.state + ": " + job.message, dir.string(),
                                 "mend what it says and give the same command again");
      }
    }
    progress.progress(
        done / static_cast<double>(dirs_.size()),
        "training " + dirs_[0].filename().string() + " and " + dirs_[1].filename().string());
    return all;
  }

  static bool is_live(const fs::path& dir) {
    return is_job(dir) && protocol::is_live(read_job(dir, CurveDetail::none).state);
  }

  // Each saves a checkpoint first; one whose process is yet to come leaves when it has.
  void stop() {
    for (const fs::path& dir : dirs_) {
      if (is_live(dir)) write_request(files_, dir, JobRequest::cancel);
    }
    for (const fs::path& dir : dirs_) {
      while (is_live(dir) || job_is_running(dir)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    }
  }

  formats::FileSystem& files_;
  const ConfigDuel& duel_;
  std::array<fs::path, 2> dirs_;
  std::array<RunConfig, 2> configs_;
};

// ---- Units ---------------------------------------------------------------------------------------

json row_of(const SeedMeasured& one) {
  using protocol::detail::write_one;
  return {{"per", one.per}, {"names", one.names}, {"a", write_one(one.a)}, {"b", write_one(one.b)}};
}

SeedMeasured measured_of(const json& row) {
  using protocol::detail::read_one;
  SeedMeasured one{.per = row.at("per").get<std::string>(),
                   .names = row.at("names").get<std::vector<std::string>>()};
  read_one(row.at("a"), one.a), read_one(row.at("b"), one.b);
  return one;
}

double mean_over(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Every seed that was measured, in the order of the duel.
class SeedUnits {
 public:
  void add(std::int64_t seed, const SeedMeasured& one) {
    if (!names_.empty() && names_ != one.names) {
      throw formats::bad_input("the seeds were measured on other texts than each other",
                               "seed " + std::to_string(seed), "name another folder");
    }
    names_ = one.names, per_ = one.per;
    analysis::SeedDifferences differences{.seed = seed};
    for (std::size_t t = 0; t < one.a.size(); ++t) {
      differences.by_text.push_back(one.a[t] - one.b[t]);
    }
    const double a = mean_over(one.a), b = mean_over(one.b);
    units_.push_back({"seed " + std::to_string(seed), a, b, mean_over(differences.by_text)});
    seeds_.push_back(std::move(differences));
  }

  bool decide(double margin) const { return analysis::seeds_decide(seeds_, margin); }

  void tell(double margin, protocol::DuelResult& result) const {
    result.per = per_;
    analysis::tell_of_seeds(seeds_, units_, margin, result);
  }

 private:
  std::vector<std::string> names_;
  std::string per_ = "token";
  std::vector<analysis::SeedDifferences> seeds_;
  std::vector<protocol::DuelUnit> units_;
};

SeedMeasured trained_and_measured(formats::FileSystem& files, const ConfigDuel& duel,
                                  std::int64_t seed, const MeasureSeed& measure,
                                  protocol::Progress& progress) {
  SeedTrainings trainings(files, duel, seed);
  protocol::PartOfProgress training(progress, 0, kTrainingShare),
      reading(progress, kTrainingShare, 1);
  trainings.run(training);
  return measure(trainings.dir(0), trainings.dir(1), reading);
}

std::vector<std::int64_t> in_order(std::vector<std::int64_t> seeds, std::uint64_t seed) {
  std::ranges::sort(seeds);
  seeds.erase(std::ranges::unique(seeds).begin(), seeds.end());
  std::vector<std::int64_t> order;
  for (const std::size_t n : analysis::duel_order(seeds.size(), seed)) order.push_back(seeds[n]);
  return order;
}

std::vector<double> bits_of(const std::vector<SampleScore>& scores) {
  std::vector<double> bits;
  for (const SampleScore& one : scores) {
    bits.push_back(one.nats / static_cast<double>(std::max<std::int64_t>(one.counted, 1)) /
                   std::numbers::ln2);
  }
  return bits;
}

}  // namespace

MeasureSeed on_samples(const ConfigDuel& duel, std::int64_t length, model::Backend backend) {
  const tasks::Task& task = tasks::task_named(duel.a.task.name);
  const std::int64_t asked = length > 0 ? length : duel.a.task.longest;
  const tasks::Ids lengths(static_cast<std::size_t>(task.info().dimensions), asked);
  task.check_length(lengths);
  return [&task, lengths, backend, seed = duel.seed](const fs::path& a, const fs::path& b,
                                                     protocol::Progress& progress) {
    std::vector<tasks::Sample> samples;
    SeedMeasured measured{.per = "answer"};
    for (std::int64_t n = 0; n < kSamplesOfADuel; ++n) {
      samples.push_back(task.draw(seed, lengths, static_cast<std::uint64_t>(n)));
      measured.names.push_back("sample " + std::to_string(n));
    }
    model::ForwardOptions options;
    options.backend = backend;
    options.cancelled = [&progress] { return progress.cancelled(); };
    const auto asked_of = [&](const fs::path& dir) {
      const EvalModel entry{dir.string(), model::open_model(dir.string())};
      return bits_of(answered_samples(entry, task, samples, options));
    };
    measured.a = asked_of(a), measured.b = asked_of(b);
    return measured;
  };
}

protocol::DuelResult duel_of_configs(formats::FileSystem& files, const ConfigDuel& duel,
                                     const MeasureSeed& measure, protocol::Progress& progress) {
  require_same_batches(duel.a, duel.b);
  formats::make_directories(files, duel.dir);
  const std::optional<JobLock> lock = JobLock::try_take(duel.dir);
  if (!lock) throw folder_in_use(duel.dir);
  require_this_duel(files, duel);
  EvalRows kept(files, duel.dir / kUnitsFile);
  SeedUnits units;
  const std::vector<std::int64_t> order = in_order(duel.seeds, duel.seed);
  const auto count = static_cast<double>(order.size());
  for (std::size_t n = 0; n < order.size(); ++n) {
    const std::string key = "seed " + std::to_string(order[n]);
    protocol::PartOfProgress part(progress, static_cast<double>(n) / count,
                                  static_cast<double>(n + 1) / count);
    if (kept.found(key) == nullptr) {
      kept.add(key, row_of(trained_and_measured(files, duel, order[n], measure, part)));
    }
    units.add(order[n], measured_of(*kept.found(key)));
    if (units.decide(duel.margin)) break;
  }
  protocol::DuelResult result;
  units.tell(duel.margin, result);
  tell_tensors(duel, result);
  return result;
}

}  // namespace phasescope::training
