#include "formats/folder_listing.h"

#include <algorithm>

#include "formats/file_system.h"
#include "formats/text_input.h"

namespace phasescope::formats {

bool is_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

std::vector<ListedEntry> listed_entries(const std::filesystem::path& folder, ListedNames names) {
  const FileSystem& files = real_file_system();
  std::vector<ListedEntry> entries;
  for (std::string& name : files.list(folder)) {
    const bool is_text = first_invalid_utf8(name) == name.size();
    if (name.starts_with('.') || (!is_text && names == ListedNames::of_text)) continue;
    const bool is_folder = files.is_directory(folder / name);
    entries.push_back({std::move(name), is_folder});
  }
  std::ranges::stable_partition(entries, &ListedEntry::folder);
  return entries;
}

}  // namespace phasescope::formats
