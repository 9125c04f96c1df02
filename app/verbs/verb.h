#pragma once
// A verb of the command line. To add one: a file app/verbs/NAME.cpp with a class derived from Verb
// and its factory, the factory's two lines in factories.h, a CMake line, and a test in tests/app.
#include <memory>
#include <string>
#include <vector>

#include "app/cli/options.h"
#include "app/cli/output.h"
#include "app/cli/run.h"
#include "protocol/messages/common.h"

namespace phasescope::app {

// What missing_forms() says of an output without arrays, of tables alone, and of a document alone.
inline constexpr const char *kNoArrays = ".npy .safetensors",
                            *kTablesAlone = ".svg .pdf .png .npy .safetensors",
                            *kDocumentAlone = ".csv .md .svg .pdf .png .npy .safetensors";

class Verb {
 public:
  virtual ~Verb() = default;
  virtual std::string name() const = 0;
  virtual std::string help() const = 0;
  // Runs as it stands on a bundled model, in the project's folder; shown by --help. A command a
  // line.
  virtual std::string example() const = 0;
  // Which of the common options it takes; the others are refused.
  struct Takes {
    bool out = true, json = true, quiet = true, remote = true;
  };
  virtual Takes takes() const { return {}; }
  // False where run() itself writes what --out names.
  virtual bool exports() const { return true; }
  // What an argument of the verb named in place of --out.
  virtual std::string out_argument() const { return ""; }
  // Forms of --out that there is nothing for, ".npy .svg", refused before run().
  virtual std::string missing_forms() const { return ""; }
  virtual void declare(Options& options) = 0;
  virtual Output run(Run& run) = 0;
};

using Verbs = std::vector<std::unique_ptr<Verb>>;

// A model's name with settings, "rope (yarn x2)", for requests about many models. Throws Error
// "bad_usage" for what sets nothing.
std::string with_settings(const std::string& model, const protocol::Assignments& set);

}  // namespace phasescope::app
