#pragma once
// A verb of the command line. To add one: a file app/verbs/NAME.cpp with a class derived from Verb
// and its factory, the factory's lines in factories.h and verbs.cpp, a CMake line, and a test in
// tests/app.
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/cli/options.h"
#include "app/cli/output.h"
#include "protocol/reply.h"

namespace phasescope::app {

// What every verb has in common (cli.md, "Common").
struct CommonOptions {
  std::string out, device, dtype, backend, remote;
  int64_t threads = 0, seed = 0;
  bool json = false, quiet = false;
};

// What a verb runs with: the worker, and what was asked for on the command line.
class Run {
 public:
  virtual ~Run() = default;
  virtual const CommonOptions& common() const = 0;
  // Sends a request (the common options are added to `params`), shows its progress on a terminal,
  // cancels it on Ctrl-C. Throws protocol::RequestError.
  virtual protocol::Reply call(const std::string& method, nlohmann::json params) = 0;
  // A line on standard error, unless --quiet.
  virtual void say(const std::string& line) = 0;
  // A bar on standard error where that is a terminal; an empty text clears it.
  virtual void show_progress(double fraction, const std::string& text) = 0;
  virtual bool interrupted() const = 0;
  // The command line as it was given, quoted for a shell.
  virtual const std::string& command() const = 0;
  // The sidecar of exported files: command, provenance found in `result`.
  nlohmann::json sidecar(const nlohmann::json& result) const;
};

class Verb {
 public:
  virtual ~Verb() = default;
  virtual std::string name() const = 0;
  virtual std::string help() const = 0;
  // Runs as it stands on a bundled model, in the project's folder; shown by --help. A command a
  // line.
  virtual std::string example() const = 0;
  // False where run() itself writes what --out names.
  virtual bool exports() const { return true; }
  // What an argument of the verb named in place of --out.
  virtual std::string out_argument() const { return ""; }
  // Forms of --out that there is nothing for, ".npy .svg", refused before run().
  virtual std::string missing_forms() const { return ""; }
  virtual void declare(Options& options) = 0;
  virtual Output run(Run& run) = 0;
};

// --text, --prompt, --ids, --inputs, --length: what is read.
struct InputOptions {
  // Given empty is not the same as not given: an empty text is refused.
  std::optional<std::string> text, prompt, ids, inputs;
  int64_t length = 0;
  void declare(Options& options);
  // Adds `input` and `length` to the params of a request. Reads the files named; throws Error.
  void add_to(nlohmann::json& params) const;
};

// What MODEL may be, for the help of the verbs.
inline constexpr const char* kModelHelp =
    "bundled name, or a folder or .safetensors file; ./NAME is the folder where a bundled model "
    "has "
    "that name too";
inline constexpr const char* kModelsHelp =
    "one or more: bundled names, folders, .safetensors files; ./NAME is the folder where a bundled "
    "model has that name too";

// Overrides of a model's configuration, --set key=value.
struct SetOptions {
  std::vector<std::string> assignments;
  void declare(Options& options);
  void add_to(nlohmann::json& params) const;
  // The model's name with these settings, "rope (yarn x2)", for requests about many models.
  std::string applied_to(const std::string& model) const;
};

// A float32 tensor of a reply (float64 is narrowed), e.g. for a figure's map.
struct Grid;
Grid grid_of(const protocol::TensorRef& tensor);

}  // namespace phasescope::app
