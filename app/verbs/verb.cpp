#include "app/verbs/verb.h"

#include <cstdint>

#include "app/figures/figures.h"
#include "formats/error.h"
#include "formats/json.h"
#include "formats/limits.h"
#include "formats/text_input.h"
#include "formats/tokenizers/base64.h"
#include "protocol/model_reading.h"

namespace phasescope::app {

using nlohmann::json;

namespace {

// A request holds the text in memory, more than once.
constexpr std::uintmax_t kMostTextBytes = std::uintmax_t{256} << 20;

void collect_provenance(const json& value, json& found) {
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      if (key != "provenance") {
        collect_provenance(item, found);
      } else if (item.is_array()) {
        for (const json& one : item) found.push_back(one);
      } else {
        found.push_back(item);
      }
    }
  } else if (value.is_array()) {
    for (const json& item : value) collect_provenance(item, found);
  }
}

// The protocol's headers are JSON, which holds UTF-8 alone. What reads bytes reads others too.
json text_input(const char* key, const std::string& words, const std::string& name) {
  if (formats::first_invalid_utf8(words) < words.size()) {
    return {{"base64", formats::base64_of(words)}, {"name", name}};
  }
  json input{{key, words}};
  if (key == std::string_view("text")) input["name"] = name;
  return input;
}

}  // namespace

json Run::sidecar(const json& result) const {
  json found = json::array();
  collect_provenance(result, found);
  return {{"command", command()}, {"program", "phasescope"}, {"provenance", std::move(found)}};
}

void InputOptions::declare(Options& options) {
  options.option("--text", text, "file to read (- is standard input)");
  options.option("--prompt", prompt, "the text itself");
  options.option("--ids", ids, "JSON file: a list of token ids, or lists of equal length");
  options.option("--inputs", inputs,
                 "safetensors file: input_ids (B, N), masks, positions, token types");
  options.option("--length", length, "tokens read (default: the model's trained context)", 1,
                 formats::kMostTokens);
}

void InputOptions::add_to(json& params) const {
  const int given = text.has_value() + prompt.has_value() + ids.has_value() + inputs.has_value();
  if (given > 1) {
    throw formats::bad_usage("give one of --text, --prompt, --ids, --inputs, not several");
  }
  if (text)
    params["input"] = text_input("text", formats::read_text_file(*text, kMostTextBytes), *text);
  if (prompt && prompt->empty()) throw formats::bad_input("the text is empty", "--prompt");
  if (prompt) params["input"] = text_input("prompt", *prompt, "prompt");
  if (ids) params["input"] = {{"ids", formats::json_from_file(*ids)}, {"name", *ids}};
  if (inputs) params["input"] = {{"inputs", *inputs}};
  if (length > 0) params["length"] = length;
}

void SetOptions::declare(Options& options) {
  options.repeated("--set", assignments, "override, e.g. encoding.base=1e6 (may be repeated)");
}

void SetOptions::add_to(json& params) const {
  if (!assignments.empty()) params["set"] = assignments;
}

std::string SetOptions::applied_to(const std::string& model) const {
  protocol::ModelReading reading = protocol::model_reading(model);
  for (const std::string& assignment : assignments) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw formats::bad_usage("\"" + assignment + "\" sets nothing", "--set",
                               "write it as key=value");
    }
    reading.settings.emplace_back(assignment.substr(0, equals), assignment.substr(equals + 1));
  }
  return protocol::name_of(reading);
}

Grid grid_of(const protocol::TensorRef& tensor) {
  Grid grid{.shape = tensor.shape};
  if (tensor.dtype == "F64") {
    const auto values = tensor.values<double>();
    grid.values.assign(values.begin(), values.end());
  } else {
    const auto values = tensor.values<float>();
    grid.values.assign(values.begin(), values.end());
  }
  return grid;
}

}  // namespace phasescope::app
