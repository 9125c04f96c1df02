// One of several ranks that train tests/training/small_run.h and exchange by the stand-in for NCCL,
// in processes of their own that the test kills. Their tensors lie in the host's memory, which is
// the stand-in's GPU.
#include <dlfcn.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "formats/error.h"
#include "formats/file_system.h"
#include "tests/training/small_run.h"
#include "training/trainer.h"

namespace {

using namespace phasescope;
namespace fs = std::filesystem;

void train(const fs::path& folder, std::int64_t steps) {
  training::Ranks ranks(training::rank_place());
  const training::RunConfig config = training::small_run(folder, steps);
  auto corpus = std::make_shared<const training::Corpus>(
      training::Corpus::open(config.data.corpus, config.data, config.model.context));
  training::Trainer trainer(
      config, corpus,
      training::read_validation_texts(config.data.validation, config.model.context));
  ranks.meet_on(at::kCPU);
  trainer.join(&ranks);
  const std::string number = std::to_string(ranks.rank());
  std::ofstream losses(folder / ("losses-" + number));
  while (!trainer.done()) losses << nlohmann::json(trainer.step().loss) << std::endl;
  const fs::path weights = folder / ("weights-" + number);
  fs::create_directory(weights);
  trainer.write_files(formats::real_file_system(), weights);
}

}  // namespace

int main(int count, char** words) {
  if (count != 3 || ::dlopen(PHASESCOPE_STAND_IN_NCCL, RTLD_NOW) == nullptr) return 2;
  const fs::path folder = words[1];
  try {
    train(folder, std::stoll(words[2]));
    return 0;
  } catch (const formats::Error& error) {
    std::cerr << error.code() << ": " << error.full_text() << "\n";
    return error.code() == "worker_died" ? 4 : 3;
  }
}
