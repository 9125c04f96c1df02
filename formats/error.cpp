#include "formats/error.h"

#include <utility>

namespace phasescope::formats {

Error::Error(std::string code, const std::string& message, std::string where, std::string hint)
    : std::runtime_error(message),
      code_(std::move(code)),
      where_(std::move(where)),
      hint_(std::move(hint)) {}

std::string Error::full_text() const {
  std::string text = message();
  if (!where_.empty()) text += " (" + where_ + ")";
  if (!hint_.empty()) text += "; " + hint_;
  return text;
}

Error bad_input(const std::string& message, std::string where, std::string hint) {
  return Error("bad_input", message, std::move(where), std::move(hint));
}

Error bad_usage(const std::string& message, std::string where, std::string hint) {
  return Error("bad_usage", message, std::move(where), std::move(hint));
}

Error internal_error(const std::string& message, std::string where, std::string hint) {
  return Error("internal", message, std::move(where), std::move(hint));
}

Error cancelled(const std::string& message) { return Error("cancelled", message); }

}  // namespace phasescope::formats
