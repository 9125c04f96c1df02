#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace phasescope::formats {

struct ListedEntry {
  std::string name;
  bool folder = false;
  bool operator==(const ListedEntry&) const = default;
};

// What of a folder one chooses from: folders first, each by name. Hidden ones and names that are no
// UTF-8 are left out. Throws FileError.
std::vector<ListedEntry> listed_entries(const std::filesystem::path& folder);

}  // namespace phasescope::formats
