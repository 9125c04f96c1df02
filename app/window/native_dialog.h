#pragma once

#include <memory>
#include <optional>
#include <string>

namespace phasescope::app {

// The desktop's own file chooser, where there is one (zenity, kdialog and their like). It is a
// program of its own: the window goes on while it is open.
class NativeDialog {
 public:
  enum class Kind { file, folder };

  NativeDialog();
  ~NativeDialog();
  NativeDialog(const NativeDialog&) = delete;
  NativeDialog& operator=(const NativeDialog&) = delete;

  // Looked for once, when it is first asked for.
  static bool available();
  // Opens it; one that is open is closed.
  void open(Kind kind, const std::string& title, const std::string& folder);
  bool is_open() const;
  // Once a frame: what was chosen, when it was; an empty path where nothing was.
  std::optional<std::string> take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phasescope::app
