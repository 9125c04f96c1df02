#include "app/cli/cli.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>
#include <optional>
#include <sstream>
#include <utility>

#include "app/cli/doctor_facts.h"
#include "app/cli/output.h"
#include "app/cli/shell_pages.h"
#include "app/cli/verbs_page.h"
#include "app/cli/worker_run.h"
#include "app/verbs/verb.h"
#include "app/window/commands.h"
#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/near_names.h"
#include "protocol/error_info.h"
#include "protocol/model_reading.h"
#include "protocol/shell_word.h"

namespace phasescope::app {

using protocol::ErrorInfo;

namespace {

std::string command_line(const std::vector<std::string>& words) {
  std::string line = "phasescope";
  for (const std::string& word : words) line += " " + protocol::shell_word(word);
  return line;
}

void declare_common(Options& options, const Verb::Takes& takes, CommonOptions& common) {
  if (takes.out) {
    options.option("--out", common.out,
                   "file (.json .csv .md .svg .pdf .png .npy .safetensors) or folder to write");
  }
  if (takes.json) options.flag("--json", common.json, "one JSON document on standard output");
  if (takes.quiet) options.flag("--quiet", common.quiet, "nothing but results and errors");
  if (takes.remote) {
    options.option("--remote", common.remote, "host whose worker is used, over ssh");
  }
}

// The command line may hold bytes that are not UTF-8; they become U+FFFD.
std::string document(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

int report_error(const ErrorInfo& error, bool json) {
  bool told = false;
  if (json) {
    std::printf("%s\n", document(protocol::error_document(error), -1).c_str());
    told = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  }
  // This is said where standard output is what could not be written to, too.
  if (!told) {
    std::fprintf(stderr, "phasescope: %s\n", for_terminal(protocol::describe(error)).c_str());
  }
  return protocol::exit_status(error.code);
}

ErrorInfo info_of(const formats::Error& error) {
  return {error.code(), error.message(), error.where(), error.hint()};
}

// A descriptor that the shell closed would be the next file or socket that is opened, and what is
// printed would go there. In its place stands one that nothing can be written to, or read from.
void hold_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
  }
}

// What was not written may be lost in any of the writes, of which the last tells nothing.
void print(const std::string& text) {
  const bool lost = std::fwrite(text.data(), 1, text.size(), stdout) < text.size();
  if (!lost && std::fflush(stdout) == 0) return;
  throw formats::bad_input("the result could not be written: " + std::string(std::strerror(errno)),
                           "standard output");
}

std::string printed(const Output& output, const CommonOptions& common) {
  if (common.json) return document(output.result, 1) + "\n";
  // What a model has written goes into a file or another program byte by byte.
  std::string text = ::isatty(STDOUT_FILENO) ? for_terminal(output.text) : output.text;
  for (const Table& table : output.tables) {
    if (table.for_files) continue;
    text += (text.empty() ? "" : "\n") + text_of(table);
  }
  return text;
}

// Help and version: what the parser prints.
int print_help(const CLI::App& parser, const CLI::Success& done) {
  std::ostringstream text;
  const int status = parser.exit(done, text, std::cerr);
  print(text.str());
  return status;
}

// Exports and files of an output, and a line about each.
void write_files(const Output& output, const CommonOptions& common, bool exports, WorkerRun& run) {
  for (const TextFile& file : output.files) {
    if (file.path.has_parent_path()) {
      formats::make_directories(formats::real_file_system(), file.path.parent_path());
    }
    formats::write_file_atomically(formats::real_file_system(), file.path, file.text);
    run.say("wrote " + file.path.string());
  }
  if (!exports) return;
  export_output(output, common.out, run.sidecar(output.provenance));
  run.say("wrote " + common.out + what_else(output, common.out));
}

// Files first: a reader of standard output who goes away must not cost them. What cannot be written
// is printed all the same, with --json in one document with the error.
int deliver(Output& output, const CommonOptions& common, bool exports, WorkerRun& run) {
  std::optional<ErrorInfo> failed;
  try {
    write_files(output, common, exports, run);
  } catch (const formats::Error& error) {
    failed = info_of(error);
    if (common.json) output.result.update(protocol::error_document(*failed));
  }
  print(printed(output, common));
  if (!failed) return output.status;
  return common.json ? protocol::exit_status(failed->code) : report_error(*failed, false);
}

// The option of the field with this key; empty where the verb has none. Keys of an input, which has
// options of its own, are "input.prompt". Any other word with a dot, such as the path "x.json", is
// no key.
std::string option_of(const std::string& key, const CLI::App& verb) {
  const std::string of_input = "input.";
  const std::string own = key.starts_with(of_input) ? key.substr(of_input.size()) : key;
  const std::string option = protocol::option_name(own);
  return verb.get_option_no_throw(option) == nullptr ? "" : option;
}

// `words` with the keys that stand in `backticks` as the options that they are here.
std::string with_options(const std::string& words, const CLI::App& verb) {
  std::string out;
  std::size_t copied = 0;
  for (std::size_t begin = words.find('`'); begin != words.npos;) {
    const std::size_t end = words.find('`', begin + 1);
    if (end == words.npos) break;
    const std::string option = option_of(words.substr(begin + 1, end - begin - 1), verb);
    if (!option.empty()) {
      out += words.substr(copied, begin - copied) + option;
      copied = end + 1;
    }
    begin = option.empty() ? end : words.find('`', copied);
  }
  return out + words.substr(copied);
}

// Notes of answers name fields, as refusals do; in `result`, which is the request's JSON too, they
// stay.
void name_options(Output& output, const CLI::App& verb) {
  const auto name = [&verb](std::vector<std::string>& notes) {
    for (std::string& note : notes) note = with_options(note, verb);
  };
  for (Table& table : output.tables) name(table.notes);
  for (widgets::PlotSpec& figure : output.figures) name(figure.notes);
  for (widgets::GridSpec& grid : output.grids) name(grid.notes);
}

// Whether a file of a model's folder is the model's by its name: results may lie there, too.
bool belongs_to_model(const std::filesystem::path& file) {
  const std::string name = file.filename().string(), form = file.extension().string();
  if (form != ".json" && form != ".safetensors") return false;
  constexpr std::array kBegins{"config.",  "generation_config.", "model.", "model-",
                               "adapter_", "tokenizer",          "vocab.", "special_tokens_map."};
  return std::ranges::any_of(kBegins, [&](const char* begin) { return name.starts_with(begin); });
}

// Neither a file that the command names to be read nor one of a model is written over. Texts are
// read here for a worker on another host, too.
void refuse_what_is_read(const std::filesystem::path& out, const CLI::App& parser) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (!fs::is_regular_file(out, none)) return;
  const fs::path folder = fs::absolute(out).parent_path();
  for (const CLI::Option* option : parser.get_options()) {
    // These two say where to write.
    if (option->get_name() == "--out" || option->get_name() == "OUT") continue;
    for (const std::string& word : option->results()) {
      const std::string read = protocol::model_reading(word).model;
      const bool inside = belongs_to_model(out) && fs::equivalent(read, folder, none);
      if (!inside && !fs::equivalent(read, out, none)) continue;
      throw formats::bad_usage("what is read here would be written over", out.string(),
                               "name another file");
    }
  }
}

int run_verb(Verb& verb, CommonOptions common, const std::string& command, const CLI::App& parser) {
  const std::string argument = verb.out_argument();
  if (!argument.empty() && !common.out.empty()) {
    throw formats::bad_usage("two places are named to write to", argument, "give one of them");
  }
  if (!argument.empty()) common.out = argument;
  refuse_what_is_read(common.out, parser);
  const bool exports = !common.out.empty() && verb.exports();
  if (exports) require_writable_form(common.out, verb.missing_forms());
  WorkerRun run(common, command);
  Output output = verb.run(run);
  name_options(output, parser);
  return deliver(output, common, exports, run);
}

// CLI11 speaks of itself in its messages; ours is one sentence.
ErrorInfo usage_error(const CLI::ParseError& error, const std::string& verb,
                      const std::vector<std::string>& unknown) {
  std::string message = error.what();
  while (!message.empty() && (message.back() == '\n' || message.back() == '.')) message.pop_back();
  if (const auto many = message.find(": At Most 1 required"); many != message.npos) {
    message = message.substr(0, many) + " was given more than once";
  }
  if (!unknown.empty()) {
    message = verb + " takes no";
    for (const std::string& word : unknown) message += " \"" + word + "\"";
  }
  return {std::string(protocol::error_code::bad_usage), message, "",
          "phasescope " + verb + " --help lists its options"};
}

// The worker names fields of its requests; who typed a command knows options.
ErrorInfo in_options(ErrorInfo error, const CLI::App& verb) {
  const bool field = error.code == protocol::error_code::bad_usage ||
                     error.code == protocol::error_code::device_unavailable;
  const std::string option = field ? option_of(error.where, verb) : "";
  error.where = option.empty() ? with_options(error.where, verb) : option;
  error.message = with_options(error.message, verb);
  error.hint = with_options(error.hint, verb);
  return error;
}

// A word that names no verb is a model, unless it is almost a verb and no such file exists.
void refuse_misspelt_verb(const std::string& word, const Verbs& verbs) {
  if (word.size() < 4 || word[0] == '-' || std::filesystem::exists(word)) return;
  std::vector<std::string> names;
  for (const auto& verb : verbs) names.push_back(verb->name());
  const std::vector<std::string> near = formats::names_near(word, names);
  if (near.empty()) return;
  throw formats::bad_usage("there is no verb and no file \"" + word + "\"", "",
                           "did you mean " + near.front() + "? phasescope --help lists the verbs");
}

// What other programs take for these two options, unless it is there as a model.
std::string as_option(const std::string& word) {
  const bool help = word == "help", version = word == "version" || word == "-V";
  if ((!help && !version) || std::filesystem::exists(word)) return word;
  return help ? "--help" : "--version";
}

// A word that names no verb is a model for the window: `phasescope rope tapa`.
std::vector<std::string> with_view(std::vector<std::string> words, const Verbs& verbs) {
  const auto known = [&](const std::string& word) {
    if (word == "--help" || word == "-h" || word == "--version") return true;
    return std::any_of(verbs.begin(), verbs.end(),
                       [&](const auto& verb) { return verb->name() == word; });
  };
  if (!words.empty()) words[0] = as_option(words[0]);
  if (!words.empty() && known(words[0])) return words;
  if (!words.empty()) refuse_misspelt_verb(words[0], verbs);
  words.insert(words.begin(), "view");
  return words;
}

// "--corpus=" as an option and an empty word, which is refused: the parser would take the next word
// for its value, or have it left out.
std::vector<std::string> with_empty_values(const std::vector<std::string>& words) {
  std::vector<std::string> apart;
  const auto arguments = std::ranges::find(words, "--");  // no options behind it
  for (auto word = words.begin(); word != arguments; ++word) {
    const bool empty = word->starts_with("--") && word->find('=') + 1 == word->size();
    apart.push_back(empty ? word->substr(0, word->size() - 1) : *word);
    if (empty) apart.emplace_back();
  }
  apart.insert(apart.end(), arguments, words.end());
  return apart;
}

// A parser for each verb, in their order.
std::vector<CLI::App*> declare_verbs(CLI::App& parser, const Verbs& verbs, CommonOptions& common,
                                     OptionValues* values = nullptr) {
  std::vector<CLI::App*> parsers;
  for (const auto& verb : verbs) {
    CLI::App* sub = parser.add_subcommand(verb->name(), verb->help());
    sub->footer("Example, in the project's folder:\n" + verb->example());
    Options options(*sub, values);
    verb->declare(options);
    declare_common(options, verb->takes(), common);
    parsers.push_back(sub);
  }
  return parsers;
}

}  // namespace

Output output_of(Run& run, const std::vector<std::string>& words, const Verbs& verbs) {
  CLI::App parser("", "phasescope");
  parser.require_subcommand(1, 1);
  CommonOptions common;
  const std::vector<CLI::App*> parsers = declare_verbs(parser, verbs, common);
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    parser.parse(reversed);
  } catch (const CLI::ParseError& error) {
    const ErrorInfo info =
        usage_error(error, words.empty() ? "" : words.front(), parser.remaining(true));
    throw formats::bad_usage(info.message, info.where, info.hint);
  }
  const auto parsed =
      std::ranges::find_if(parsers, [](const CLI::App* one) { return one->parsed(); });
  Output output = verbs[std::size_t(parsed - parsers.begin())]->run(run);
  name_options(output, **parsed);
  return output;
}

std::string page_of_verbs(const Verbs& verbs) {
  CLI::App parser("", "phasescope");
  CommonOptions common;
  declare_verbs(parser, verbs, common);
  return verbs_page(parser);
}

int run_program(int argc, char** argv, const Verbs& verbs) {
  hold_standard_descriptors();
  // A file above a limit of the shell or the cluster is an error of its write(), not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  // Workers inherit it. OpenMP threads that spin while they wait cost most where cores are shared:
  // with the window, with jobs.
  ::setenv("OMP_WAIT_POLICY", "passive", 0);
  CLI::App parser("Phasescope: an oscilloscope for attention", "phasescope");
  parser.set_version_flag("--version", version_text());
  parser.require_subcommand(0, 1);
  parser.footer(
      "phasescope --completion bash|zsh|fish prints what completes its words in that shell, --man "
      "its "
      "manual page");
  CommonOptions common;
  OptionValues values;
  const std::vector<CLI::App*> parsers = declare_verbs(parser, verbs, common, &values);
  const std::vector<std::string> given(argv + 1, argv + argc);
  const bool json = std::find(given.begin(), given.end(), "--json") != given.end();
  std::vector<std::string> words;
  try {
    if (const auto page = shell_page(parser, given, {std::move(values), bundled_models()})) {
      print(*page);
      return 0;
    }
    words = with_empty_values(with_view(given, verbs));
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    try {
      parser.parse(reversed);
    } catch (const CLI::Success& done) {
      return print_help(parser, done);
    }
    for (std::size_t i = 0; i < verbs.size(); ++i) {
      if (!parsers[i]->parsed()) continue;
      try {
        return run_verb(*verbs[i], common, command_line(given), *parsers[i]);
      } catch (const protocol::RequestError& error) {
        return report_error(in_options(error.info(), *parsers[i]), json);
      }
    }
    return 0;
  } catch (const CLI::ParseError& error) {
    return report_error(usage_error(error, words[0], parser.remaining(true)), json);
  } catch (const protocol::RequestError& error) {
    return report_error(error.info(), json);
  } catch (const formats::Error& error) {
    return report_error(info_of(error), json);
  } catch (const std::bad_alloc&) {
    return report_error(
        {std::string(protocol::error_code::out_of_memory), "there was not enough memory for this",
         "", "give a shorter text, or ask for less at a time"},
        json);
  } catch (const std::exception& error) {
    return report_error({std::string(protocol::error_code::internal), error.what(), "", ""}, json);
  }
}

}  // namespace phasescope::app
