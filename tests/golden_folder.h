#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace phasescope {

// Reference files made with other people's code: in tests/data, in the folder that
// PHASESCOPE_GOLDEN names, or in ../shared/golden beside the project. `outside` leaves tests/data
// out, which holds smaller copies of some. Empty where nobody has it.
inline std::filesystem::path golden_path(const std::string& path, bool outside = false) {
  namespace fs = std::filesystem;
  const fs::path data(PHASESCOPE_TEST_DATA);
  const char* named = std::getenv("PHASESCOPE_GOLDEN");
  for (const fs::path& root : {outside ? fs::path() : data, fs::path(named ? named : ""),
                               data.parent_path().parent_path().parent_path() / "shared/golden"}) {
    if (!root.empty() && fs::exists(root / path)) return root / path;
  }
  return {};
}

}  // namespace phasescope
