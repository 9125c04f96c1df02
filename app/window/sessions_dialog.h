#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/window/view_context.h"

namespace phasescope::app {

// Sessions by name: opens one, or keeps the present one. Shown after window.sessions_open is set.
class SessionsDialog {
 public:
  explicit SessionsDialog(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // `session` is the present one as it is to be saved.
  void draw(ViewContext& context, const std::function<Session()>& session);

 private:
  void draw_list(ViewContext& context);
  void save(ViewContext& context, const Session& session);

  std::filesystem::path folder_;
  std::vector<std::string> names_;
  std::string name_, trouble_;
};

}  // namespace phasescope::app
