#pragma once
// A duel of two run configurations: both are trained with one seed after the other, as jobs, and
// their models read the same texts, until the seeds decide.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/file_system.h"
#include "model/decoder.h"
#include "protocol/messages/duel.h"
#include "protocol/progress.h"
#include "training/run_config.h"

namespace phasescope::training {

struct ConfigDuel {
  // Holds duel.json (what it is about), units.jsonl (a line for each seed that was measured) and
  // the jobs a-seed-N and b-seed-N.
  std::filesystem::path dir;
  RunConfig a, b;  // without regard to their seeds and starts: the duel sets train.seed and .init
  std::vector<std::int64_t> seeds;
  double margin = 0;
  std::uint64_t seed = 0;    // of the order of the seeds
  nlohmann::json read_with;  // what else the units depend on: length, corpus, dtype
  std::filesystem::path program = "/proc/self/exe";  // as JobStart has it
};

// What both models of a seed lose on each of the same texts or samples.
struct SeedMeasured {
  std::string per = "token";
  std::vector<std::string> names;  // of the texts; the same for every seed
  std::vector<double> a, b;        // bits, in the mean over what `per` names
};
using MeasureSeed = std::function<SeedMeasured(
    const std::filesystem::path& a, const std::filesystem::path& b, protocol::Progress& progress)>;

// On samples of the task that both learn, `length` in the task's unit (0: the longest trained one):
// bits an answer that counts.
MeasureSeed on_samples(const ConfigDuel& duel, std::int64_t length, model::Backend backend);

// Goes on with what the folder holds. All but names and provenance. Throws Error "bad_usage" where
// the folder is about another duel or somebody else works in it, "bad_input" where the two would
// not be trained on the same batches, and where a training fails; Cancelled, with the trainings
// saved and stopped.
protocol::DuelResult duel_of_configs(formats::FileSystem& files, const ConfigDuel& duel,
                                     const MeasureSeed& measure, protocol::Progress& progress);

}  // namespace phasescope::training
