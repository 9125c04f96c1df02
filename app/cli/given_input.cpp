#include "app/cli/given_input.h"

#include <cstdint>
#include <string_view>

#include "app/cli/output.h"
#include "formats/base64.h"
#include "formats/error.h"
#include "formats/json.h"
#include "formats/text_input.h"
#include "protocol/input_options.h"
#include "protocol/prompt_bytes.h"
#include "protocol/shell_word.h"
#include "tasks/named_sample.h"
#include "tasks/vocabulary.h"

namespace phasescope::app {

using nlohmann::json;

namespace {

// A request holds the text in memory, more than once.
constexpr std::uintmax_t kMostTextBytes = std::uintmax_t{256} << 20;

bool is_utf8(const std::string& text) { return formats::first_invalid_utf8(text) == text.size(); }

void put_back_command(std::string& command, const NameOfText& name) {
  const std::string told = protocol::shell_word(name.told);
  if (const auto at = command.find(told); at != command.npos) {
    command.replace(at, told.size(), protocol::shell_word(name.given));
  }
}

}  // namespace

json input_of_text(const char* key, const std::string& words, const std::string& name) {
  if (!is_utf8(words)) {
    return {{"base64", formats::base64_of(words)}, {"name", name}};
  }
  json input{{key, words}};
  if (key == std::string_view("text")) input["name"] = name;
  return input;
}

json input_of_file(const std::string& path) {
  return input_of_text("text", formats::read_text_file(path, kMostTextBytes), path);
}

json input_of_prompt(const std::string& words) {
  if (words.empty()) throw formats::bad_input("the text is empty", protocol::kPromptOption.name);
  return input_of_text("prompt", words, protocol::kNameOfPromptBytes);
}

json input_of_ids(const std::string& path) {
  return {{"ids", formats::json_from_file(path)}, {"name", path}};
}

json input_of_tensors(const std::string& path) { return {{"inputs", path}}; }

json input_of_sample(const std::string& words) {
  const tasks::NamedSample named = tasks::named_sample(words);
  const std::string name = "sample " + words;
  if (!tasks::has_own_ids(*named.task)) return {{"prompt", named.sample.prompt}, {"name", name}};
  // More than ids, which the worker puts together for the model.
  const tasks::Form form = named.task->info().form;
  if (form == tasks::Form::encoder_decoder || form == tasks::Form::image) {
    return {{"sample", words}, {"name", name}};
  }
  return {{"ids", named.task->read_by_model(named.sample)}, {"name", name}};
}

void require_utf8(const json& params) {
  if (params.is_structured()) {
    for (const json& item : params) require_utf8(item);
  }
  if (!params.is_string() || is_utf8(params.get_ref<const std::string&>())) return;
  throw formats::bad_input("the worker is asked in UTF-8, and this name is not",
                           for_terminal(params.get_ref<const std::string&>(), Breaks::escaped),
                           "rename it, or give a link to it that has another name");
}

NameOfText tell_name_of_text(json& params) {
  const auto input = params.find("input");
  if (input == params.end() || !input->is_object()) return {};
  const std::string name = input->value("name", "");
  if (is_utf8(name)) return {};
  const NameOfText both{name, for_terminal(name, Breaks::escaped)};
  (*input)["name"] = both.told;
  return both;
}

void put_back_name(json& answer, const NameOfText& name) {
  if (name.given.empty() || !answer.is_structured()) return;
  for (auto& [key, value] : answer.items()) {
    if (key == "command" && value.is_string()) {
      put_back_command(value.get_ref<std::string&>(), name);
    } else {
      put_back_name(value, name);
    }
  }
}

}  // namespace phasescope::app
