#include "app/cli/shell_pages.h"

#include <CLI/CLI.hpp>

#include "app/figures/eval_names.h"
#include "formats/error.h"
#include "protocol/request.h"
#include "tasks/task.h"

namespace phasescope::app {

namespace {

using Strings = std::vector<std::string>;

// What the program takes in place of a verb, beside what the parser declares.
const Strings kShells = {"bash", "zsh", "fish"};
constexpr const char *kCompletionHelp = "print what completes the program's words in a shell",
                     *kManHelp = "print this page for man";

std::string joined(const Strings& words, const char* between = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

// "--rows" of an option, empty for an argument.
std::string long_name(const CLI::Option& option) {
  const Strings& names = option.get_lnames();
  return names.empty() ? "" : "--" + names.front();
}

Strings long_names(const CLI::App& verb) {
  Strings names;
  for (const CLI::Option* option : verb.get_options()) {
    if (const std::string name = long_name(*option); !name.empty()) names.push_back(name);
  }
  return names;
}

std::vector<const CLI::App*> verbs_of(const CLI::App& parser) {
  return parser.get_subcommands([](const CLI::App*) { return true; });
}

Strings names_of(const std::vector<const CLI::App*>& verbs) {
  Strings names;
  for (const CLI::App* verb : verbs) names.push_back(verb->get_name());
  return names;
}

// "--rows", or "TASK" of an argument.
std::string label(const CLI::Option& option) {
  const std::string name = long_name(option);
  return name.empty() ? option.get_name(true) : name;
}

Strings names_of_tasks() {
  Strings names;
  for (const auto& task : tasks::all_tasks()) names.push_back(task->info().key);
  return names;
}

// Names that the worker alone knows: a verb that lists them, and the key that they have in its
// JSON. They are asked for when somebody completes one.
struct Listed {
  const char *verb, *option, *command, *key;
};
constexpr Listed kListed[] = {{"theory", "--check", "theory --list", "id"},
                              {"jobs", "JOB", "jobs list", "name"}};

const Listed* listed(const std::string& verb, const CLI::Option& option) {
  for (const Listed& one : kListed) {
    if (verb == one.verb && label(option) == one.option) return &one;
  }
  return nullptr;
}

// The words that an option or argument may be; none where it takes anything.
Strings values_of(const CLI::Option& option, const CompletedWords& completed) {
  const auto found = completed.values.find(&option);
  if (found != completed.values.end()) return found->second;
  return label(option) == "TASK" || label(option) == "--sample" ? names_of_tasks() : Strings{};
}

// The list of a verb's own arguments, beside models and files.
Strings values_of_arguments(const CLI::App& verb, const CompletedWords& completed) {
  Strings all;
  if (verb.get_name() == "eval") all.emplace_back(kPerplexity);  // reads texts, and is no task
  for (const CLI::Option* option : verb.get_options()) {
    const Strings values = long_name(*option).empty() ? values_of(*option, completed) : Strings{};
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// "    map:--of) values="..." ;;" for each option that has values.
std::string bash_cases(const CLI::App& verb, const CompletedWords& completed) {
  std::string cases;
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = long_name(*option);
    const Strings values = values_of(*option, completed);
    const Listed* asked = listed(verb.get_name(), *option);
    if (name.empty() || (values.empty() && !asked)) continue;
    const std::string words =
        asked ? std::string("$(_phasescope_listed '") + asked->command + "' " + asked->key + ")"
              : joined(values);
    cases += "    " + verb.get_name() + ":" + name + ") values=\"" + words + "\" ;;\n";
  }
  return cases;
}

// What the verb's arguments are beside models and files, in bash.
std::string bash_arguments(const CLI::App& verb, const CompletedWords& completed) {
  std::string words = joined(values_of_arguments(verb, completed));
  for (const CLI::Option* option : verb.get_options()) {
    const Listed* asked = listed(verb.get_name(), *option);
    if (!asked || !long_name(*option).empty()) continue;
    words += std::string("$(_phasescope_listed '") + asked->command + "' " + asked->key + ")";
  }
  return words;
}

std::string bash_script(const CLI::App& parser, const CompletedWords& completed) {
  const auto verbs = verbs_of(parser);
  const Strings& models = completed.models;
  std::string cases, values;
  for (const CLI::App* verb : verbs) {
    cases += "    " + verb->get_name() + ") options=\"" + joined(long_names(*verb)) + "\"";
    const std::string arguments = bash_arguments(*verb, completed);
    if (!arguments.empty()) cases += "; [[ $word == -* ]] || arguments=\"" + arguments + "\"";
    cases += " ;;\n";
    values += bash_cases(*verb, completed);
  }
  return "# bash completion of phasescope: source <(phasescope --completion bash)\n"
         "_phasescope_listed() {\n"
         "  phasescope $1 --json 2>/dev/null | sed -n "
         "\"s/^ *\\\"$2\\\": \\\"\\(.*\\)\\\",*\\$/\\1/p\"\n"
         "}\n"
         "_phasescope() {\n"
         "  local word=\"${COMP_WORDS[COMP_CWORD]}\" verb=\"${COMP_WORDS[1]}\" before=\"\" "
         "options=\"--help --version --completion --man\" arguments=\"\" values=\"\" listed=\"\"\n"
         "  [ \"$word\" = \"=\" ] && word=\"\" && COMP_CWORD=$((COMP_CWORD + 1))\n"
         "  [ \"$COMP_CWORD\" -gt 1 ] && before=\"${COMP_WORDS[COMP_CWORD - 1]}\"\n"
         "  [ \"$before\" = \"=\" ] && before=\"${COMP_WORDS[COMP_CWORD - 2]}\"\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         joined(names_of(verbs)) + " " + joined(models) +
         " $options\" -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  case \"$verb\" in\n"
         "    --completion) COMPREPLY=($(compgen -W \"" +
         joined(kShells) + "\" -- \"$word\")); return ;;\n    " + joined(names_of(verbs), "|") +
         ") ;;\n"
         "    *) verb=view ;;\n"  // models of the window
         "  esac\n"
         "  case \"$verb:$before\" in\n" +
         values +
         "  esac\n"
         // The last of a list with commas.
         "  if [ -n \"$values\" ]; then\n"
         "    [[ $word == *,* ]] && listed=\"${word%,*},\"\n"
         "    COMPREPLY=($(compgen -P \"$listed\" -W \"$values\" -- \"${word##*,}\"))\n"
         "    return\n"
         "  fi\n"
         "  case \"$verb\" in\n" +
         cases +
         "  esac\n"
         "  case \"$word\" in\n"
         "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
         "    *)\n"
         // Names of files have spaces, those of models none: each line is one of them.
         "      local names=\"$(compgen -W \"" +
         joined(models) +
         " $arguments\" -- \"$word\")\" IFS=$'\\n'\n"
         "      COMPREPLY=($(printf '%s\\n' \"$names\" \"$(compgen -f -- \"$word\")\")) ;;\n"
         "  esac\n"
         "}\n"
         "complete -o filenames -F _phasescope phasescope\n";
}

std::string zsh_script(const CLI::App& parser, const CompletedWords& completed) {
  return "#compdef phasescope\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_script(parser, completed);
}

// In single quotes, where fish knows of a backslash and a quote alone.
std::string fish_word(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

// " -x -a 'mean max'" of what has values, " -r" of what takes any word, nothing of a flag.
std::string fish_values(const CLI::App& verb, const CLI::Option& option,
                        const CompletedWords& completed) {
  if (const Listed* asked = listed(verb.get_name(), option)) {
    return " -x -a " + fish_word(std::string("(__phasescope_listed '") + asked->command + "' " +
                                 asked->key + ")");
  }
  const Strings values = values_of(option, completed);
  if (!values.empty()) return " -x -a " + fish_word(joined(values));
  return option.get_items_expected_max() > 0 ? " -r" : "";
}

// The options of a verb, and the lists of its arguments, where `when` holds.
std::string fish_verb(const CLI::App& verb, const std::string& when,
                      const CompletedWords& completed) {
  std::string text;
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = long_name(*option), values = fish_values(verb, *option, completed);
    const std::size_t list = values.find(" -a ");
    if (name.empty() && list == std::string::npos) continue;
    text += "complete -c phasescope -n '" + when + "'" +
            (name.empty() ? values.substr(list) : " -l " + name.substr(2) + values) + " -d " +
            fish_word(option->get_description()) + "\n";
  }
  return text;
}

std::string fish_script(const CLI::App& parser, const CompletedWords& completed) {
  std::string text =
      "# fish completion of phasescope: phasescope --completion fish | source\n"
      "function __phasescope_listed\n"
      "  eval phasescope $argv[1] --json 2>/dev/null | "
      "string replace -rf '^ *\"'$argv[2]'\": \"(.*)\",?$' '$1'\n"
      "end\n"
      "complete -c phasescope -n 'not __fish_use_subcommand' -a " +
      fish_word(joined(completed.models)) + "\n";
  const std::string first = "complete -c phasescope -n __fish_use_subcommand ";
  for (const CLI::Option* option : parser.get_options()) {
    text += first + "-l " + long_name(*option).substr(2) + " -d " +
            fish_word(option->get_description()) + "\n";
  }
  text += first + "-l completion -x -a " + fish_word(joined(kShells)) + " -d " +
          fish_word(kCompletionHelp) + "\n" + first + "-l man -d " + fish_word(kManHelp) + "\n";
  Strings others = names_of(verbs_of(parser));
  std::erase(others, "view");
  for (const CLI::App* verb : verbs_of(parser)) {
    const std::string& name = verb->get_name();
    // The window is the verb of a line that has models alone.
    const std::string when = name == "view" ? "not __fish_use_subcommand; and not "
                                              "__fish_seen_subcommand_from " +
                                                  joined(others)
                                            : "__fish_seen_subcommand_from " + name;
    text += first + "-a " + name + " -d " + fish_word(verb->get_description()) + "\n" +
            fish_verb(*verb, when, completed);
  }
  return text;
}

// Text of a roff page: no line is a request, hyphens are those that are typed.
std::string roff(const std::string& text) {
  std::string out = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  for (const char* first : {"\n.", "\n'"}) {
    out = replaced(out, first, std::string("\n\\&") + first[1]);
  }
  if (out.starts_with('.') || out.starts_with('\'')) out = "\\&" + out;
  return out;
}

std::string roff_option(const CLI::Option& option) {
  const bool argument = option.get_lnames().empty();
  const bool takes = option.get_items_expected_max() > 0;
  std::string text = ".TP\n.B " + roff(argument ? option.get_name(true) : long_name(option));
  if (!argument && takes) text += " \\fI" + roff(option.get_type_name()) + "\\fR";
  return text + "\n" + roff(option.get_description()) + "\n";
}

std::string man_page(const CLI::App& parser) {
  std::string text =
      ".TH PHASESCOPE 1 \"\" \"phasescope " PHASESCOPE_VERSION "\"\n.SH NAME\nphasescope \\- " +
      roff("oscilloscope for attention") +
      "\n.SH SYNOPSIS\n.B phasescope\n[\\fIVERB\\fR] [\\fIOPTIONS\\fR] ...\n.SH DESCRIPTION\n" +
      roff(
          "Opens trained transformers, runs the whole model with instrumented kernels, and shows "
          "what its positional encoding does. Without a verb, or with names of models, the window "
          "opens.") +
      "\n.SH OPTIONS\n";
  for (const CLI::Option* option : parser.get_options()) text += roff_option(*option);
  text += ".TP\n.B " + roff("--completion") + " \\fI" + joined(kShells, "|") + "\\fR\n" +
          roff(kCompletionHelp) + "\n.TP\n.B " + roff("--man") + "\n" + roff(kManHelp) +
          "\n.SH VERBS\n";
  for (const CLI::App* verb : verbs_of(parser)) {
    text += ".SS " + roff(verb->get_name()) + "\n" + roff(verb->get_description()) + "\n";
    for (const CLI::Option* option : verb->get_options()) text += roff_option(*option);
    text += ".PP\n.nf\n" + roff(verb->get_footer()) + "\n.fi\n";
  }
  return text +
         ".SH EXIT STATUS\n"
         "0 done; 1 done, and a check or verdict failed, or there is no such thing in this model; "
         "2 "
         "wrong usage or input; 3 the device or host asked for is not there; 4 the worker died, or "
         "a "
         "fault of the program; 5 out of memory; 130 cancelled.\n"
         ".SH ENVIRONMENT\n"
         ".TP\n.B PHASESCOPE_TORCH\nfolder of LibTorch, which holds lib/libtorch_cpu.so\n"
         ".TP\n.B PHASESCOPE_ASSETS\nfolder of bundled models and texts\n"
         ".TP\n.B PHASESCOPE_WORKER\nprogram that is started as the worker\n";
}

}  // namespace

std::optional<std::string> shell_page(const CLI::App& parser, const Strings& words,
                                      const CompletedWords& completed) {
  if (words.empty() || (words[0] != "--completion" && words[0] != "--man")) return {};
  if (words == Strings{"--man"}) return man_page(parser);
  if (words[0] == "--man") throw formats::bad_usage("--man stands alone");
  const std::string shell = words.size() == 2 ? words[1] : "";
  if (shell == "bash") return bash_script(parser, completed);
  if (shell == "zsh") return zsh_script(parser, completed);
  if (shell == "fish") return fish_script(parser, completed);
  throw formats::bad_usage("--completion wants a shell: " + protocol::in_words(kShells));
}

}  // namespace phasescope::app
