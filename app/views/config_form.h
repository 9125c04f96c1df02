#pragma once
// The form of a run configuration: a line a field with its help and range, as the worker describes
// them.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "protocol/messages/jobs.h"

namespace phasescope::app {

// Where the shipped configurations are: sample_configs/ stands beside assets/ in the source tree
// and inside it where installed.
std::filesystem::path config_folder();
// Their names: "desk/tapa", "paper/rope".
std::vector<std::string> config_names();

// `value` at the dotted key of a configuration. Another encoding has options of its own: those of
// the one before are dropped.
void set_in_config(nlohmann::json& config, const std::string& key, nlohmann::json value);

// The configuration as it is, for a new job: what an earlier start filled in is left out.
nlohmann::json config_to_clone(nlohmann::json config);

// What was typed as the value of a field: a text as it stands, all else as JSON. Throws
// protocol::RequestError with one sentence for what the field does not take.
nlohmann::json typed_value(const protocol::ConfigField& field, const std::string& typed);
// The other way.
std::string words_of_value(const nlohmann::json& value);

class ConfigLines {
 public:
  // What is in the lines and not in the configuration, by key: it is being typed, or refused.
  using Typed = std::map<std::string, std::string>;
  // True where a field was changed, in `config`. What a field does not take stays in its line, with
  // the reason below it. `typed` is kept by the caller: what is in it when a line is drawn first,
  // as a window that was killed left it, is entered then.
  bool draw(const protocol::ConfigForm& form, nlohmann::json& config, Typed& typed);
  // The lines begin anew with what the configuration has.
  void forget() { lines_.clear(); }

 private:
  struct Line {
    std::string typed, fault;
    bool drawn = false;
  };
  bool draw_field(const protocol::ConfigField& field, nlohmann::json& config, Typed& typed);
  bool draw_words(const protocol::ConfigField& field, nlohmann::json& config, Typed& typed);
  static bool enter(const protocol::ConfigField& field, Line& line, nlohmann::json& config);

  std::map<std::string, Line> lines_;  // by key
};

}  // namespace phasescope::app
