#include "app/cli/verbs_page.h"

#include <CLI/CLI.hpp>
#include <map>
#include <utility>
#include <vector>

namespace phasescope::app {

namespace {

// An option that so many verbs declare alike is told of once.
constexpr int kMany = 4;

std::string option_label(const CLI::Option& option) {
  if (option.get_lnames().empty()) return option.get_name(true);
  const std::string name = "--" + option.get_lnames().front();
  return option.get_items_expected_max() > 0 ? name + " " + option.get_type_name() : name;
}

// Plain text as Markdown: nothing in it is a tag or emphasis.
std::string in_markdown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '*') out += '\\';
    out += c;
  }
  return out;
}

std::string option_line(const std::string& label, const std::string& help) {
  return "- `" + label + "`: " + in_markdown(help) + "\n";
}

std::vector<const CLI::App*> verbs_declared(const CLI::App& parser) {
  return parser.get_subcommands([](const CLI::App*) { return true; });
}

// What most verbs say of each label, where many do.
std::map<std::string, std::string> said_often(const CLI::App& parser) {
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const CLI::App* verb : verbs_declared(parser)) {
    for (const CLI::Option* option : verb->get_options()) {
      ++counts[{option_label(*option), option->get_description()}];
    }
  }
  std::map<std::string, std::string> often;
  std::map<std::string, int> most;
  for (const auto& [said, count] : counts) {
    int& before = most[said.first];
    if (count < kMany || count <= before) continue;
    before = count, often[said.first] = said.second;
  }
  return often;
}

std::string verb_section(const CLI::App& verb, const std::map<std::string, std::string>& often) {
  std::string own, shared;
  for (const CLI::Option* option : verb.get_options()) {
    const std::string label = option_label(*option), help = option->get_description();
    const auto found = often.find(label);
    if (found == often.end() || found->second != help) {
      own += option_line(label, help);
    } else if (label != "--help") {
      shared += (shared.empty() ? "" : ", ") + ("`" + label.substr(0, label.find(' ')) + "`");
    }
  }
  const std::string footer = verb.get_footer();  // a line of words, then the commands
  std::string page = "\n## " + verb.get_name() + "\n\n" + in_markdown(verb.get_description()) +
                     "\n\n```\n" + footer.substr(footer.find('\n') + 1) + "\n```\n";
  if (!own.empty() || !shared.empty()) page += "\n";
  page += own;
  if (!shared.empty()) page += "- and " + shared + "\n";
  return page;
}

}  // namespace

std::string verbs_page(const CLI::App& parser) {
  const auto often = said_often(parser);
  std::string page;
  for (const CLI::App* verb : verbs_declared(parser)) page += verb_section(*verb, often);
  page += "\n## Options of many verbs\n\n";
  for (const auto& [label, help] : often) page += option_line(label, help);
  return page;
}

}  // namespace phasescope::app
