// Bytes from anywhere as a session of the window, of this version or the one before, or as the file
// beside a figure. What opens is written and read again as the same; all else leaves the default,
// with the old file kept.

#include <filesystem>
#include <fstream>
#include <iterator>

#include "app/window/session_file.h"
#include "formats/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temporary_folder.h"

namespace {

using namespace phasescope;
using namespace phasescope::app;
using phasescope::fuzz::allow_bad_input;
using phasescope::fuzz::require;

void read_as_named(const std::filesystem::path& path) {
  allow_bad_input([&] { read_session(formats::real_file_system(), path); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const TemporaryFolder folder;
  const auto path =
      folder.file("session.json", std::string_view(reinterpret_cast<const char*>(data), size));
  read_as_named(path);
  formats::FileSystem& files = formats::real_file_system();
  const LoadedSession first = load_session(files, path);
  require(!first.occupied && first.warning.empty() == std::filesystem::exists(path));
  save_session(files, path, first.session);
  const LoadedSession again = load_session(files, path);
  require(again.warning.empty() && again.session == first.session);
  return 0;
}

std::string phasescope::fuzz::seed(std::mt19937& random) {
  if (const auto kept = case_of_tests(random, "session.json")) return *kept;
  static const std::string kBefore = [] {
    std::ifstream file(PHASESCOPE_TEST_DATA "/window/session_1.json", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  static const std::string kDefault = [] {
    const TemporaryFolder folder;
    formats::FileSystem& files = formats::real_file_system();
    save_session(files, folder / "session.json", default_session());
    return files.read(folder / "session.json");
  }();
  return random() % 2 ? kBefore : kDefault;
}
