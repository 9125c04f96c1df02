#include "protocol/error_info.h"

#include <array>
#include <nlohmann/json.hpp>

namespace phasescope::protocol {

namespace {

struct CodeStatus {
  std::string_view code;
  int status;
};

// cli.md's list, the same for every program of ours.
constexpr std::array code_statuses = {
    CodeStatus{error_code::bad_usage, 2},      CodeStatus{error_code::bad_input, 2},
    CodeStatus{error_code::not_applicable, 1}, CodeStatus{error_code::device_unavailable, 3},
    CodeStatus{error_code::worker_died, 4},    CodeStatus{error_code::internal, 4},
    CodeStatus{error_code::out_of_memory, 5},  CodeStatus{error_code::cancelled, 130},
};

std::string text_field(const nlohmann::json& json, const char* key) {
  if (!json.is_object()) return {};
  auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

void to_json(nlohmann::json& json, const ErrorInfo& error) {
  json = {{"code", error.code},
          {"message", error.message},
          {"where", error.where},
          {"hint", error.hint}};
}

void from_json(const nlohmann::json& json, ErrorInfo& error) {
  error = {text_field(json, "code"), text_field(json, "message"), text_field(json, "where"),
           text_field(json, "hint")};
  if (error.code.empty()) error.code = error_code::internal;
}

nlohmann::json error_document(const ErrorInfo& error) { return {{"error", error}}; }

int exit_status(std::string_view code) {
  for (const auto& known : code_statuses) {
    if (known.code == code) return known.status;
  }
  return 4;
}

std::string describe(const ErrorInfo& error) {
  std::string text = error.message.empty() ? error.code : error.message;
  if (!error.where.empty()) text += " (" + error.where + ")";
  if (!error.hint.empty()) text += ". " + error.hint;
  return text;
}

}  // namespace phasescope::protocol
