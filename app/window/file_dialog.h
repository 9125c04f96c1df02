#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/window/native_dialog.h"
#include "app/window/view_context.h"

namespace phasescope::app {

// A file chooser of our own, so that one is always there and tests can drive it, with a way to that
// of the desktop. Shown while window.open_dialog is "model" or "text".
class FileDialog {
 public:
  void draw(ViewContext& context);

 private:
  struct Entry {
    std::string name;
    bool folder = false;
  };
  void enter(const std::filesystem::path& folder);
  void draw_entries(ViewContext& context);
  void draw_native(ViewContext& context, bool text);
  void choose(ViewContext& context, const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::vector<Entry> entries_;
  std::string path_, trouble_;
  NativeDialog native_;
};

}  // namespace phasescope::app
