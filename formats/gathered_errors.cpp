#include "formats/gathered_errors.h"

#include <algorithm>

namespace phasescope::formats {

bool GatheredErrors::run(const std::function<void()>& step) {
  try {
    step();
    return true;
  } catch (const Error& error) {
    if (error.code() != "bad_usage" && error.code() != "bad_input") throw;
    errors_.push_back(error);
    return false;
  }
}

void GatheredErrors::throw_if_any(const std::string& what) const {
  if (errors_.empty()) return;
  if (errors_.size() == 1) throw errors_.front();
  const std::string& place = errors_.front().where();
  const bool one_place =
      std::ranges::all_of(errors_, [&](const Error& error) { return error.where() == place; });
  std::string message = std::to_string(errors_.size()) + " " + what + " cannot be used: ";
  for (const Error& error : errors_) {
    if (&error != &errors_.front()) message += "; ";
    message += error.message();
    if (!one_place && !error.where().empty()) message += " (" + error.where() + ")";
  }
  throw Error(errors_.front().code(), message, one_place ? place : "");
}

}  // namespace phasescope::formats
