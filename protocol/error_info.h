// Errors as they travel between threads and processes: four strings, one JSON form.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace phasescope::protocol {

// The codes, and the exit status the command line gives for each (docs/protocol.md, "Errors").
namespace error_code {
inline constexpr std::string_view bad_usage = "bad_usage";
inline constexpr std::string_view bad_input = "bad_input";
inline constexpr std::string_view not_applicable = "not_applicable";
inline constexpr std::string_view device_unavailable = "device_unavailable";
inline constexpr std::string_view worker_died = "worker_died";
inline constexpr std::string_view internal = "internal";
inline constexpr std::string_view out_of_memory = "out_of_memory";
inline constexpr std::string_view cancelled = "cancelled";
}  // namespace error_code

struct ErrorInfo {
  std::string code;     // one of error_code
  std::string message;  // one sentence: what was wrong and what to do
  std::string where;    // file, byte, key; empty when there is no place
  std::string hint;     // further help; may be empty

  bool operator==(const ErrorInfo&) const = default;
};

void to_json(nlohmann::json& json, const ErrorInfo& error);
// Missing fields become empty, a missing code becomes "internal": what comes from another process
// is shown, never refused.
void from_json(const nlohmann::json& json, ErrorInfo& error);

// {"error": {"code", "message", "where", "hint"}}, what --json prints.
nlohmann::json error_document(const ErrorInfo& error);

// Exit status of the command line for a code; 4 for one it does not know.
int exit_status(std::string_view code);

// "message (where). hint", for a terminal or a log line.
std::string describe(const ErrorInfo& error);

// An ErrorInfo as an exception: what WorkerClient::call throws, and what a handler may throw to
// give its own code.
class RequestError : public std::runtime_error {
 public:
  explicit RequestError(ErrorInfo info)
      : std::runtime_error(describe(info)), info_(std::move(info)) {}
  const ErrorInfo& info() const { return info_; }

 private:
  ErrorInfo info_;
};

}  // namespace phasescope::protocol
