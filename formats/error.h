#pragma once

#include <stdexcept>
#include <string>

namespace phasescope::formats {

// The exception of every library folder from formats/ upwards. It carries what a user needs to mend
// the matter: one sentence, the place, and a hint. Across processes the same four fields travel as
// protocol::ErrorInfo.
//
// Codes: "bad_usage", "bad_input", "not_applicable", "device_unavailable", "worker_died",
// "internal", "out_of_memory", "cancelled".
class Error : public std::runtime_error {
 public:
  Error(std::string code, const std::string& message, std::string where = {},
        std::string hint = {});

  const std::string& code() const { return code_; }
  // One sentence: what was wrong (and what to do, where no hint says it). what() is the same.
  std::string message() const { return what(); }
  // File, byte offset or key; may be empty.
  const std::string& where() const { return where_; }
  const std::string& hint() const { return hint_; }

  // "message (where); hint", for logs and for terminals.
  std::string full_text() const;

 private:
  std::string code_;
  std::string where_;
  std::string hint_;
};

// Shorthands; use as `throw bad_input(...)`.
Error bad_input(const std::string& message, std::string where = {}, std::string hint = {});
Error bad_usage(const std::string& message, std::string where = {}, std::string hint = {});
Error internal_error(const std::string& message, std::string where = {}, std::string hint = {});
Error cancelled(const std::string& message = "cancelled");

}  // namespace phasescope::formats
