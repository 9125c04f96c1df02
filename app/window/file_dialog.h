#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/window/desk.h"

namespace phasescope::app {

// A file chooser of our own, so that one is always there and tests can drive it. Shown while
// shell.open_dialog is "model" or "text".
class FileDialog {
 public:
  void draw(Desk& desk);

 private:
  struct Entry {
    std::string name;
    bool folder = false;
  };
  void enter(const std::filesystem::path& folder);
  void draw_entries(Desk& desk);
  void choose(Desk& desk, const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::vector<Entry> entries_;
  std::string path_, trouble_;
};

}  // namespace phasescope::app
