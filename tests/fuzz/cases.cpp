// What the tests gave their readers, as seeds: see keep_case() in tests/temporary_folder.h.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace phasescope::fuzz {
namespace {

namespace fs = std::filesystem;

// In the order of their names, so that a seed of the random numbers repeats a run.
std::vector<std::string> kept_with(std::string_view ending) {
  const char* const folder = std::getenv("PHASESCOPE_FUZZ_CASES");
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder ? folder : PHASESCOPE_FUZZ_CASES, none)) {
    if (entry.path().filename().string().ends_with(ending)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> contents;
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    contents.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return contents;
}

}  // namespace

std::optional<std::string> case_of_tests(std::mt19937& random, std::string_view ending) {
  static std::map<std::string, std::vector<std::string>, std::less<>> read;
  auto kept = read.find(ending);
  if (kept == read.end()) kept = read.emplace(ending, kept_with(ending)).first;
  if (random() % 2 == 0 || kept->second.empty()) return std::nullopt;
  return kept->second[random() % kept->second.size()];
}

}  // namespace phasescope::fuzz
