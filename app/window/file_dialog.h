#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/window/native_dialog.h"
#include "app/window/view_context.h"
#include "formats/folder_listing.h"
#include "protocol/messages/worker.h"

namespace phasescope::app {

// Asked of a worker on another machine, where models are chosen from its own folders.
inline constexpr Asks<protocol::FolderResult> kFolder{"open", protocol::FolderRequest::method,
                                                      "reading the folder"};

// A file chooser of our own, so that one is always there and tests can drive it, with a way to that
// of the desktop. Shown while window.open_dialog is "model" or "text". A text is always read from
// this machine, a model by the worker, from its own.
class FileDialog {
 public:
  void draw(ViewContext& context);

 private:
  // Where one chooses: the folder and what is in it.
  struct Place {
    std::filesystem::path folder;
    std::vector<formats::ListedEntry> entries;
  };
  static bool is_far(const ViewContext& context);
  Place& place(const ViewContext& context) { return is_far(context) ? far_ : here_; }
  void enter(ViewContext& context, const std::filesystem::path& folder);
  void take_answer(ViewContext& context);
  void draw_entries(ViewContext& context);
  void draw_native(ViewContext& context, bool text);
  void choose(ViewContext& context, const std::filesystem::path& path);

  Place here_, far_;
  std::uint64_t far_serial_ = 0;  // of the answer that far_ was taken from
  std::string path_, trouble_;
  bool at_first_ = false;  // the keyboard goes to the first entry of the folder that was entered
  NativeDialog native_;
};

}  // namespace phasescope::app
