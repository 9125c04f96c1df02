#include "app/window/native_dialog.h"

#include <portable_file_dialogs.h>

#include <utility>

namespace phasescope::app {

// One of the two while it is open.
struct NativeDialog::Impl {
  std::unique_ptr<pfd::open_file> file;
  std::unique_ptr<pfd::select_folder> folder;
};

NativeDialog::NativeDialog() : impl_(std::make_unique<Impl>()) {}

NativeDialog::~NativeDialog() {
  if (impl_->file) impl_->file->kill();
  if (impl_->folder) impl_->folder->kill();
}

bool NativeDialog::available() {
  static const bool found = pfd::settings::available();
  return found;
}

void NativeDialog::open(Kind kind, const std::string& title, const std::string& folder) {
  if (impl_->file) impl_->file->kill();
  if (impl_->folder) impl_->folder->kill();
  impl_->file.reset(), impl_->folder.reset();
  if (kind == Kind::file) {
    impl_->file = std::make_unique<pfd::open_file>(title, folder);
  } else {
    impl_->folder = std::make_unique<pfd::select_folder>(title, folder);
  }
}

bool NativeDialog::is_open() const { return impl_->file || impl_->folder; }

std::optional<std::string> NativeDialog::take() {
  if (impl_->file && impl_->file->ready(0)) {
    const std::vector<std::string> chosen = std::exchange(impl_->file, nullptr)->result();
    return chosen.empty() ? "" : chosen.front();
  }
  if (impl_->folder && impl_->folder->ready(0)) {
    return std::exchange(impl_->folder, nullptr)->result();
  }
  return std::nullopt;
}

}  // namespace phasescope::app
