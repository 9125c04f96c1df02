#include "app/cli/cli.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/cli/output.h"
#include "app/cli/worker_run.h"
#include "app/verbs/verbs.h"
#include "formats/error.h"
#include "protocol/error_info.h"

namespace phasescope::app {

using protocol::ErrorInfo;

namespace {

std::string shell_quoted(const std::string& word) {
  const char* safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(safe) == std::string::npos) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string command_line(const std::vector<std::string>& words) {
  std::string line = "phasescope";
  for (const std::string& word : words) line += " " + shell_quoted(word);
  return line;
}

void declare_common(CLI::App& parser, CommonOptions& common) {
  parser.add_option("--out", common.out,
                    "file (.json .csv .svg .pdf .png .npy .safetensors) or folder to write");
  parser.add_flag("--json", common.json, "one JSON document on standard output");
  parser.add_flag("--quiet", common.quiet, "nothing but results and errors");
  parser.add_option("--device", common.device, "cpu or cuda[:i]");
  parser.add_option("--threads", common.threads, "threads of the worker")
      ->check(CLI::Range(1, 1024));
  parser.add_option("--dtype", common.dtype, "computed in f32 (default), f64 or bf16")
      ->check(CLI::IsMember({"f32", "f64", "bf16"}));
  parser.add_option("--backend", common.backend, "fused (default) or plain");
  parser.add_option("--seed", common.seed, "seed of everything drawn");
  parser.add_option("--remote", common.remote, "host whose worker is used, over ssh");
}

int report_error(const ErrorInfo& error, bool json) {
  if (json) {
    std::printf("%s\n", protocol::error_document(error).dump().c_str());
  } else {
    std::fprintf(stderr, "phasescope: %s\n", protocol::describe(error).c_str());
  }
  return protocol::exit_status(error.code);
}

ErrorInfo info_of(const formats::Error& error) {
  return {error.code(), error.message(), error.where(), error.hint()};
}

void print(const Output& output, const CommonOptions& common) {
  if (common.json) {
    std::printf("%s\n", output.result.dump(1).c_str());
    return;
  }
  std::fputs(output.text.c_str(), stdout);
  bool first = output.text.empty();
  for (const Table& table : output.tables) {
    std::printf("%s%s", first ? "" : "\n", text_of(table).c_str());
    first = false;
  }
}

int run_verb(Verb& verb, const CommonOptions& common, const std::string& command) {
  WorkerRun run(common, command);
  Output output = verb.run(run);
  if (!common.out.empty() && !output.wrote_files) {
    export_output(output, common.out, run.sidecar(output.result));
    run.say("wrote " + common.out);
  }
  print(output, common);
  return output.status;
}

// CLI11 speaks of itself in its messages; ours is one sentence.
ErrorInfo usage_error(const CLI::ParseError& error) {
  std::string message = error.what();
  while (!message.empty() && (message.back() == '\n' || message.back() == '.')) message.pop_back();
  return {std::string(protocol::error_code::bad_usage), message, "",
          "phasescope --help lists the verbs, phasescope VERB --help their options"};
}

// A word that names no verb is a model for the window: `phasescope rope tapa`.
std::vector<std::string> with_view(std::vector<std::string> words,
                                   const std::vector<std::unique_ptr<Verb>>& verbs) {
  const auto known = [&](const std::string& word) {
    if (word == "--help" || word == "-h" || word == "--version") return true;
    return std::any_of(verbs.begin(), verbs.end(),
                       [&](const auto& verb) { return verb->name() == word; });
  };
  if (words.empty() || !known(words[0])) words.insert(words.begin(), "view");
  return words;
}

}  // namespace

int run_program(int argc, char** argv) {
  CLI::App parser("Phasescope: an oscilloscope for attention", "phasescope");
  parser.set_version_flag("--version", "phasescope " PHASESCOPE_VERSION);
  parser.require_subcommand(0, 1);
  CommonOptions common;
  const auto verbs = all_verbs();
  std::vector<CLI::App*> parsers;
  for (const auto& verb : verbs) {
    CLI::App* sub = parser.add_subcommand(verb->name(), verb->help());
    sub->footer("Example: " + verb->example());
    Options options(*sub);
    verb->declare(options);
    declare_common(*sub, common);
    parsers.push_back(sub);
  }
  const std::vector<std::string> given(argv + 1, argv + argc);
  std::vector<std::string> words = with_view(given, verbs);
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    parser.parse(reversed);
    for (size_t i = 0; i < verbs.size(); ++i) {
      if (parsers[i]->parsed()) return run_verb(*verbs[i], common, command_line(given));
    }
    return 0;
  } catch (const CLI::Success& done) {
    return parser.exit(done);
  } catch (const CLI::ParseError& error) {
    return report_error(usage_error(error), json);
  } catch (const protocol::RequestError& error) {
    return report_error(error.info(), json);
  } catch (const formats::Error& error) {
    return report_error(info_of(error), json);
  } catch (const std::exception& error) {
    return report_error({std::string(protocol::error_code::internal), error.what(), "", ""}, json);
  }
}

}  // namespace phasescope::app
