// A folder of its own for a test, and where the fuzz targets have their seeds from.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace phasescope {

// What a test gives a reader. Where PHASESCOPE_KEEP_CASES names a folder it is kept there under its
// hash and this name, unless it is large: so are the good and the bad cases of the tests the seeds
// of the fuzz targets, which choose theirs by the name's end (tests/fuzz).
inline void keep_case(const std::string& name, std::string_view content) {
  static const char* const folder = std::getenv("PHASESCOPE_KEEP_CASES");
  constexpr std::size_t kLargest = 64 << 10;
  if (!folder || content.size() > kLargest) return;
  const auto hash = std::to_string(std::hash<std::string_view>()(content));
  std::ofstream(std::filesystem::path(folder) / (hash + "-" + name), std::ios::binary) << content;
}

// Gone with all that is in it at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "phasescope.XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed");
    path_ = std::filesystem::canonical(name);
  }
  ~TemporaryFolder() {
    keep_what_is_in_it();
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  // Writes a file in it and returns its path.
  std::filesystem::path file(const std::string& name, std::string_view content) const {
    keep_case(std::filesystem::path(name).filename().string(), content);
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

 private:
  // What others wrote into it: the files of jobs, checkpoints, sessions.
  void keep_what_is_in_it() const {
    if (!std::getenv("PHASESCOPE_KEEP_CASES")) return;
    std::error_code ignored;
    constexpr auto kReadable = std::filesystem::directory_options::skip_permission_denied;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path_, kReadable, ignored)) {
      if (!entry.is_regular_file(ignored)) continue;
      std::ifstream stream(entry.path(), std::ios::binary);
      keep_case(entry.path().filename().string(),
                std::string(std::istreambuf_iterator<char>(stream), {}));
    }
  }

  std::filesystem::path path_;
};

}  // namespace phasescope
