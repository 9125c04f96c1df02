#include "app/views/config_form.h"

#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/views/field_form.h"
#include "app/views/view.h"
#include "app/window/session.h"
#include "protocol/error_info.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::ConfigField;

std::string section_of(const std::string& key) { return key.substr(0, key.find('.')); }

// Its key, which is its id, in words.
std::string label_of(const ConfigField& field) {
  const std::string key = field.key.substr(field.key.find('.') + 1);
  return title_of_key(key) + "###" + key;
}

std::string range_of_field(const ConfigField& field) {
  const auto words = [](double end) { return widgets::short_number(end); };
  if (field.low && field.high) return words(*field.low) + " to " + words(*field.high);
  if (field.low) return words(*field.low) + " or more";
  if (field.high) return words(*field.high) + " or less";
  return "";
}

std::string help_of(const ConfigField& field) {
  std::string help = field.help;
  const std::string range = range_of_field(field);
  if (!range.empty()) help += "\n" + range;
  help += "\ndefault: " + words_of_value(field.fallback);
  return help + "\n" + field.key;
}

[[noreturn]] void refuse(const std::string& expected, const std::string& typed) {
  throw protocol::RequestError({std::string(protocol::error_code::bad_usage),
                                "expected " + expected + " but got \"" + typed + "\"", "", ""});
}

}  // namespace

fs::path config_folder() {
  const fs::path beside = assets_folder().parent_path() / "sample_configs";
  std::error_code error;
  return fs::is_directory(beside, error) ? beside : assets_folder() / "sample_configs";
}

std::vector<std::string> config_names() {
  std::vector<std::string> names;
  for (const char* kind : {"desk", "paper"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(config_folder() / kind, error)) {
      if (entry.path().extension() == ".json") {
        names.push_back(std::string(kind) + "/" + entry.path().stem().string());
      }
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

void set_in_config(json& config, const std::string& key, json value) {
  if (!config.is_object()) config = json::object();
  const std::size_t dot = key.find('.');
  json& section = config[key.substr(0, dot)];
  if (key == "encoding.key" || !section.is_object()) section = json::object();
  section[key.substr(dot + 1)] = std::move(value);
}

json config_to_clone(json config) {
  if (config.contains("data") && config["data"].is_object()) {
    for (const char* key : {"corpus_sha256", "tokenizer_sha256"}) config["data"].erase(key);
  }
  return config;
}

json typed_value(const ConfigField& field, const std::string& typed) {
  if (field.fallback.is_string()) return typed;
  const json value = json::parse(typed, nullptr, /*allow_exceptions=*/false);
  if (field.fallback.is_number()) {
    if (!value.is_number()) refuse("a number", typed);
    const auto number = value.get<double>();
    const bool whole = field.fallback.is_number_integer();
    if (whole && std::floor(number) != number) refuse("a whole number", typed);
    if ((field.low && number < *field.low) || (field.high && number > *field.high)) {
      refuse("a number, " + range_of_field(field), typed);
    }
    return whole ? json(static_cast<std::int64_t>(number)) : value;
  }
  if (value.is_discarded() || value.type() != field.fallback.type()) {
    refuse(field.fallback.is_array() ? "a list as [..]" : "JSON", typed);
  }
  return value;
}

std::string words_of_value(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

// What is typed becomes the field's value; true where it was another one.
bool ConfigLines::enter(const ConfigField& field, Line& line, json& config) {
  try {
    line.fault.clear();
    json value = line.typed.empty() ? field.fallback : typed_value(field, line.typed);
    if (value == field.value) return false;
    set_in_config(config, field.key, std::move(value));
    return true;
  } catch (const protocol::RequestError& error) {
    line.fault = error.info().message;
    return false;
  }
}

bool ConfigLines::draw_words(const ConfigField& field, json& config, Typed& typed) {
  Line& line = lines_[field.key];
  const auto kept = typed.find(field.key);
  const bool left = !std::exchange(line.drawn, true) && kept != typed.end();
  if (left) line.typed = kept->second;
  if (ImGui::InputText(label_of(field).c_str(), &line.typed)) typed[field.key] = line.typed;
  const bool entered = ImGui::IsItemDeactivatedAfterEdit(), active = ImGui::IsItemActive();
  tooltip(help_of(field));
  bool changed = false;
  if (entered || left) {
    changed = enter(field, line, config);
  } else if (!active && line.fault.empty()) {
    line.typed = words_of_value(field.value);
  }
  if (!active && line.fault.empty()) typed.erase(field.key);
  if (!line.fault.empty()) ImGui::TextColored(widgets::palette().bad, "%s", line.fault.c_str());
  return changed;
}

bool ConfigLines::draw_field(const ConfigField& field, json& config, Typed& typed) {
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 13);
  const std::string label = label_of(field);
  if (field.fallback.is_boolean()) {
    bool set = field.value == json(true);
    const bool changed = ImGui::Checkbox(label.c_str(), &set);
    tooltip(help_of(field));
    if (changed) set_in_config(config, field.key, set);
    return changed;
  }
  if (field.choices.empty()) return draw_words(field, config, typed);
  std::string word = words_of_value(field.value);
  const bool changed = draw_choice(label.c_str(), word, field.choices, ImGui::GetFontSize() * 13);
  tooltip(help_of(field));
  if (changed) set_in_config(config, field.key, word);
  return changed;
}

// A section a header; what differs from its default is said behind it.
bool ConfigLines::draw(const protocol::ConfigForm& form, json& config, Typed& typed) {
  bool changed = false;
  std::vector<std::string> sections;
  for (const ConfigField& field : form.fields_of) {
    if (std::ranges::find(sections, section_of(field.key)) == sections.end()) {
      sections.push_back(section_of(field.key));
    }
  }
  for (const std::string& section : sections) {
    const bool open = section == "train" || section == "encoding" ||
                      std::ranges::any_of(typed, [&](const auto& line) {
                        return section_of(line.first) == section;
                      });
    const ImGuiTreeNodeFlags flags = open ? ImGuiTreeNodeFlags_DefaultOpen : 0;
    if (!ImGui::CollapsingHeader((title_of_key(section) + "###" + section).c_str(), flags)) {
      continue;
    }
    ImGui::PushID(section.c_str());
    for (const ConfigField& field : form.fields_of) {
      if (section_of(field.key) == section) changed |= draw_field(field, config, typed);
    }
    ImGui::PopID();
  }
  return changed;
}

}  // namespace phasescope::app
