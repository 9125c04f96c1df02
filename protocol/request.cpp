#include "protocol/request.h"

#include <algorithm>

#include "formats/near_names.h"
#include "protocol/error_info.h"
#include "protocol/input_options.h"
#include "protocol/shell_word.h"

namespace phasescope::protocol {

using nlohmann::json;

namespace {

const BoundField* named(const std::vector<BoundField>& fields, const std::string& key) {
  if (key.empty()) return nullptr;
  const auto found = std::ranges::find_if(fields, [&](const BoundField& field) {
    return field.key == key || (*field.about.alias && field.about.alias == key);
  });
  return found == fields.end() ? nullptr : &*found;
}

std::string list_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::vector<std::string> quoted(std::vector<std::string> words) {
  for (std::string& word : words) word = "\"" + word + "\"";
  return words;
}

// An option whose value begins with a dash takes it behind "=".
void add_option(std::string& line, const std::string& option, const std::string& word) {
  const bool dash = word.starts_with("-");
  line += " " + option + (dash ? "=" : " ") + shell_word(word);
}

void add_field(std::string& line, const BoundField& field) {
  const std::string option = option_name(field.key);
  const std::vector<std::string> words = field.words();
  if (field.kind == FieldKind::object) {  // its words begin with options of their own
    for (std::size_t n = 0; n < words.size(); n += 2) {
      if (n + 1 == words.size()) line += " " + words[n];
      if (n + 1 < words.size()) add_option(line, words[n], words[n + 1]);
    }
    return;
  }
  if (words.empty()) line += " " + option;
  for (const std::string& word : words) add_option(line, option, word);
}

// What the command line calls a field. An input has options of its own.
std::string named_option(const BoundField& field) {
  if (*field.about.argument) return field.about.argument;
  return field.kind == FieldKind::object ? in_words(names_of_input_options(choices_of(field.about)))
                                         : option_name(field.key);
}

std::string cell(const std::string& text) { return text.empty() ? " " : " " + text + " "; }

}  // namespace

std::string option_name(const std::string& key) {
  std::string option = "--" + key;
  std::ranges::replace(option, '_', '-');
  return option;
}

namespace detail {

json written(const std::vector<BoundField>& fields, const std::vector<BoundField>& defaults) {
  json params = json::object();
  for (std::size_t n = 0; n < fields.size(); ++n) {
    json value = fields[n].write();
    if (value != defaults[n].write()) params[fields[n].key] = std::move(value);
  }
  return params;
}

void read_into(const std::vector<BoundField>& fields, const json& params,
               const std::string& whose) {
  const auto refuse = [](const std::string& message, const std::string& where,
                         const std::string& hint) {
    throw RequestError({std::string(error_code::bad_usage), message, where, hint});
  };
  if (!params.is_object()) refuse(whose + " must be an object", whose, "");
  std::vector<std::string> known, unknown;
  for (const BoundField& field : fields) known.push_back(field.key);
  for (const auto& [key, value] : params.items()) {
    if (named(fields, key) == nullptr) unknown.push_back(key);
  }
  if (!unknown.empty()) {
    refuse(whose + " has no parameter " + list_of(quoted(unknown)), quoted(unknown).front(),
           known.empty() ? "it takes none" : formats::hint_of_names(unknown, known));
  }
  for (const auto& [key, value] : params.items()) {
    if (!value.is_null()) named(fields, key)->read(value);
  }
  for (const auto& [key, value] : params.items()) {
    if (!value.is_null()) require_belonging(*named(fields, key), fields);
  }
}

Owner owner_of(const About& about) {
  const std::string of = about.of;
  const std::size_t at = of.find('=');
  return at == std::string::npos ? Owner{}
                                 : Owner{of.substr(0, at), split_choices(of.substr(at + 1))};
}

bool belongs(const BoundField& field, const std::vector<BoundField>& fields) {
  const Owner owner = owner_of(field.about);
  const BoundField* by = named(fields, owner.key);
  if (by == nullptr) return true;
  const json value = by->write();
  return std::ranges::any_of(owner.values,
                             [&value](const std::string& one) { return value == json(one); });
}

void require_belonging(const BoundField& field, const std::vector<BoundField>& fields) {
  if (belongs(field, fields)) return;
  const Owner owner = owner_of(field.about);
  const json asked = named(fields, owner.key)->write();
  throw RequestError(
      {std::string(error_code::bad_usage),
       named_option(field) + " is of the " + owner.key + " " + in_words(owner.values) + " alone; " +
           (asked.is_string() ? asked.get<std::string>() : asked.dump()) + " has no such option",
       named_option(field), ""});
}

void check_together(const std::vector<BoundField>& fields,
                    const std::vector<BoundField>& defaults) {
  const auto given = [&](const BoundField& field) {
    return field.write() != defaults[std::size_t(&field - fields.data())].write();
  };
  for (const BoundField& field : fields) {
    if (!given(field)) continue;
    require_belonging(field, fields);
    const BoundField* needed = named(fields, field.about.needs);
    const BoundField* excluded = named(fields, field.about.excludes);
    if (needed != nullptr && !given(*needed)) {
      throw RequestError(
          {std::string(error_code::bad_usage),
           named_option(field) + " means something only with " + named_option(*needed),
           named_option(field), ""});
    }
    if (excluded != nullptr && given(*excluded)) {
      throw RequestError({std::string(error_code::bad_usage),
                          named_option(field) + " means nothing beside " + named_option(*excluded),
                          named_option(field), "give one of them"});
    }
  }
}

std::string command_line(const std::string& verb, const std::vector<BoundField>& fields,
                         const std::vector<BoundField>& defaults) {
  if (verb.empty()) return "";
  std::string line = "phasescope " + verb;
  for (const BoundField& field : fields) {
    if (!*field.about.argument || field.write() == json("")) continue;
    const json value = field.write();
    for (const json& word : value.is_array() ? value : json::array({value})) {
      line += " " + shell_word(word.get<std::string>());
    }
  }
  for (std::size_t n = 0; n < fields.size(); ++n) {
    if (*fields[n].about.argument || fields[n].about.wire_only) continue;
    if (fields[n].write() != defaults[n].write()) add_field(line, fields[n]);
  }
  return line;
}

}  // namespace detail

std::string page_of(const std::vector<MethodInfo>& methods) {
  std::string page;
  for (const MethodInfo& method : methods) {
    page += "### `" + method.name + "`: " + method.help + "\n\n";
    if (method.fields.empty()) {
      page += "No parameters.\n\n";
      continue;
    }
    page += "| parameter | type | default | what it does |\n|---|---|---|---|\n";
    for (const FieldInfo& field : method.fields) {
      std::string help = field.help;
      if (!field.choices.empty()) help += (help.empty() ? "" : ": ") + field.choices;
      if (!field.range.empty()) help += (help.empty() ? "" : ", ") + field.range;
      page += "| `" + field.key + "`" + (field.wire_only ? " \\*" : "") + " |" + cell(field.type) +
              "|" + cell(field.fallback.empty() ? "" : "`" + field.fallback + "`") + "|" +
              cell(help) + "|\n";
    }
    page += "\n";
  }
  return page;
}

}  // namespace phasescope::protocol
