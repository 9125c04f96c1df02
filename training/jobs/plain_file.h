#pragma once
// What is read to its end must have one: a job's folder may be anybody's, with links to devices.
#include <filesystem>
#include <system_error>

#include "formats/error.h"
#include "formats/folder_listing.h"

namespace phasescope::training {

// Throws Error "bad_input" for a device, a pipe or a folder; what is not there may come yet.
inline void require_plain_file(const std::filesystem::path& path) {
  std::error_code none;
  if (formats::is_file(path) || !std::filesystem::exists(path, none)) return;
  throw formats::bad_input("a file is needed here, and this is none", path.string());
}

}  // namespace phasescope::training
