// Makes the bundled models from finished jobs: bundle_models JOBS OUT NAME... writes OUT/NAME from
// the job JOBS/NAME (see training/bundle.h).
#include <iostream>

#include "formats/error.h"
#include "protocol/progress.h"
#include "training/bundle.h"

int main(int count, char** words) {
  using namespace phasescope;
  if (count < 4) {
    std::cerr << "usage: bundle_models JOBS OUT NAME...\n";
    return 2;
  }
  try {
    for (int i = 3; i < count; ++i) {
      protocol::NoProgress progress;
      training::bundle_model(formats::real_file_system(),
                             std::filesystem::path(words[1]) / words[i],
                             std::filesystem::path(words[2]) / words[i], progress);
      std::cout << words[i] << std::endl;
    }
    return 0;
  } catch (const formats::Error& error) {
    std::cerr << "bundle_models: " << error.full_text() << "\n";
    return 2;
  }
}
