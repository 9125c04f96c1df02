#pragma once
// The form of a run configuration: a line a field with its help and range, as the worker describes
// them.
#include <map>
#include <string>

#include "protocol/messages/jobs.h"

namespace phasescope::app {

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
  // True where a field was changed, in `config`. What a field does not take stays in its line, with
  // the reason below it.
  bool draw(const protocol::ConfigForm& form, nlohmann::json& config);
  // The lines begin anew with what the configuration has.
  void forget() { lines_.clear(); }

 private:
  struct Line {
    std::string typed, fault;
  };
  bool draw_field(const protocol::ConfigField& field, nlohmann::json& config);
  bool draw_words(const protocol::ConfigField& field, nlohmann::json& config);

  std::map<std::string, Line> lines_;  // by key
};

}  // namespace phasescope::app
