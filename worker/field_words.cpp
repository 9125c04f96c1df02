#include "worker/field_words.h"

#include <algorithm>
#include <utility>

#include "formats/error.h"
#include "protocol/error_info.h"

namespace phasescope::worker {

namespace {

using Fields = std::vector<protocol::FieldInfo>;

bool has(const Fields& fields, const std::string& option, std::string* key) {
  const auto found = std::ranges::find_if(fields, [&](const protocol::FieldInfo& field) {
    return protocol::option_name(field.key) == option;
  });
  if (found != fields.end()) *key = found->key;
  return found != fields.end();
}

// The key of the field that `option` stands for; empty where it is none of the request's.
std::string key_of(const std::string& option, const Fields& fields) {
  static const Fields of_input = protocol::fields_of<protocol::Input>();
  std::string key, input;
  if (has(fields, option, &key)) return key;
  return has(fields, "--input", &input) && has(of_input, option, &key) ? input + "." + key : "";
}

std::string where_of(const std::string& where, const Fields& fields) {
  const std::string key = key_of(where, fields);
  return key.empty() ? with_keys_for_options(where, fields) : key;
}

}  // namespace

std::string with_keys_for_options(const std::string& words, const Fields& fields) {
  const std::size_t command = words.find("phasescope ");
  std::string out;
  std::size_t copied = 0;
  for (std::size_t at = words.find("--"); at < command && at != words.npos;
       at = words.find("--", at + 2)) {
    // What a user wrote stands in quotes, or is a part of a path.
    if (at > 0 && words[at - 1] != ' ' && words[at - 1] != '(') continue;
    const std::size_t end =
        std::min(words.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at), words.size());
    const std::string key = key_of(words.substr(at, end - at), fields);
    if (key.empty() || words.substr(end, 1) == "/") continue;
    out += words.substr(copied, at - copied) + "`" + key + "`";
    copied = end;
  }
  return out + words.substr(copied);
}

Handler with_named_fields(Handler handler) {
  handler.run = [run = std::move(handler.run), fields = handler.fields](
                    const nlohmann::json& params, RequestContext& context) {
    const auto named = [&](const std::string& words) {
      return with_keys_for_options(words, fields);
    };
    try {
      return run(params, context);
    } catch (const formats::Error& error) {
      throw formats::Error(error.code(), named(error.message()), where_of(error.where(), fields),
                           named(error.hint()));
    } catch (const protocol::RequestError& error) {
      const protocol::ErrorInfo& info = error.info();
      throw protocol::RequestError(
          {info.code, named(info.message), where_of(info.where, fields), named(info.hint)});
    }
  };
  return handler;
}

}  // namespace phasescope::worker
