#include "app/cli/given_input.h"

#include <cstdint>
#include <string_view>

#include "formats/base64.h"
#include "formats/error.h"
#include "formats/json.h"
#include "formats/text_input.h"
#include "protocol/prompt_bytes.h"
#include "tasks/named_sample.h"
#include "tasks/vocabulary.h"

namespace phasescope::app {

using nlohmann::json;

namespace {

// A request holds the text in memory, more than once.
constexpr std::uintmax_t kMostTextBytes = std::uintmax_t{256} << 20;

}  // namespace

json input_of_text(const char* key, const std::string& words, const std::string& name) {
  if (formats::first_invalid_utf8(words) < words.size()) {
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
  if (words.empty()) throw formats::bad_input("the text is empty", "--prompt");
  return input_of_text("prompt", words, protocol::kNameOfPromptBytes);
}

json input_of_ids(const std::string& path) {
  return {{"ids", formats::json_from_file(path)}, {"name", path}};
}

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

}  // namespace phasescope::app
