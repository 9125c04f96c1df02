// Makes the bundled models from finished jobs: bundle_models [--most KB] JOBS OUT NAME[=JOB]...
// writes OUT/NAME from the job JOBS/JOB, or JOBS/NAME, and the table of the models in
// OUT/../README.md (see training/bundle.h). --most: what a folder may take.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "formats/error.h"
#include "protocol/progress.h"
#include "training/bundle.h"

namespace {

namespace fs = std::filesystem;
using namespace phasescope;

void bundle(const fs::path& jobs, const fs::path& out, const std::string& word,
            std::uintmax_t most_bytes) {
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const std::string job = equals == word.npos ? name : word.substr(equals + 1);
  protocol::NoProgress progress;
  training::bundle_model(formats::real_file_system(), jobs / job, out / name, progress, most_bytes);
  std::cout << name << std::endl;
}

void renew_table(const fs::path& out) {
  formats::FileSystem& files = formats::real_file_system();
  const fs::path page = fs::absolute(out).lexically_normal().parent_path() / "README.md";
  if (!files.exists(page)) return;
  formats::write_file_atomically(
      files, page, training::with_models_table(files.read(page), training::models_table(out)));
}

}  // namespace

int main(int count, char** given) {
  std::vector<std::string> words(given + 1, given + count);
  std::uintmax_t most_bytes = 0;
  if (words.size() > 1 && words[0] == "--most") {
    most_bytes = 1000 * std::strtoull(words[1].c_str(), nullptr, 10);
    words.erase(words.begin(), words.begin() + 2);
    if (most_bytes == 0) words.clear();
  }
  if (words.size() < 3) {
    std::cerr << "usage: bundle_models [--most KB] JOBS OUT NAME[=JOB]...\n";
    return 2;
  }
  try {
    for (std::size_t n = 2; n < words.size(); ++n) bundle(words[0], words[1], words[n], most_bytes);
    renew_table(words[1]);
    return 0;
  } catch (const formats::Error& error) {
    std::cerr << "bundle_models: " << error.full_text() << "\n";
    return 2;
  }
}
