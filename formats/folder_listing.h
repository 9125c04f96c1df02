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

// Names that are no UTF-8 are bytes: they cannot be told to another process.
enum class ListedNames { of_text, of_bytes_too };

// Whether a regular file, or a link to one, is there; where it cannot be looked at there is none.
bool is_file(const std::filesystem::path& path);

// What of a folder one chooses from: folders first, each by name. Hidden ones are left out. Throws
// FileError.
std::vector<ListedEntry> listed_entries(const std::filesystem::path& folder,
                                        ListedNames names = ListedNames::of_text);

}  // namespace phasescope::formats
