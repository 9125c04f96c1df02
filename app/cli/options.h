#pragma once
// What a verb declares of its command line. Verbs see only this, so that the parser's header is
// compiled once.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/request.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace phasescope::app {

// The words that an option may be, of those that have a list.
using OptionValues = std::map<const CLI::Option*, std::vector<std::string>>;

class Options {
 public:
  // What is declared goes into `parser`, and the lists of its values into `values` where that is
  // asked for.
  explicit Options(CLI::App& parser, OptionValues* values = nullptr)
      : parser_(parser), values_(values) {}

  // Positional arguments; `name` is what the help text shows, e.g. "MODEL".
  void argument(const std::string& name, std::string& value, const std::string& help,
                bool required = true);
  void arguments(const std::string& name, std::vector<std::string>& values, const std::string& help,
                 bool required = true);

  // Options, e.g. "--rows"; the value keeps its default where the option is not given.
  void option(const std::string& name, std::string& value, const std::string& help);
  void option(const std::string& name, std::optional<std::string>& value, const std::string& help);
  // Numbers are read whole and in range, or refused with Error "bad_usage" that names the option.
  void option(const std::string& name, std::int64_t& value, const std::string& help,
              std::int64_t low = INT64_MIN, std::int64_t high = INT64_MAX);
  void option(const std::string& name, double& value, const std::string& help);
  void choice(const std::string& name, std::string& value, const std::vector<std::string>& allowed,
              const std::string& help);
  // May be given several times.
  void repeated(const std::string& name, std::vector<std::string>& values, const std::string& help);
  void flag(const std::string& name, bool& value, const std::string& help);

  // Every field of a request as its argument or option, with its help, choices and range; what is
  // given goes into `request`. A field of type Input has --text, --prompt, --ids, --inputs and
  // --sample, or those that its choices name; their files are read here. `arguments`: whether those
  // that the request needs must be there. `only`: the keys of the fields that are declared, where
  // the verb fills the others itself. What belongs to other requests (About::of) is refused, and
  // left out of the help of a line that says which request it is: `eval addition --help`.
  enum class Arguments { needed, optional };
  template <class R>
  void request(R& request, Arguments arguments = Arguments::needed,
               const std::vector<std::string>& only = {}) {
    declare_all(protocol::detail::bound_fields(request), arguments, only);
  }

 private:
  using Declared = std::vector<CLI::Option*>;

  void declare_all(const std::vector<protocol::BoundField>& fields, Arguments arguments,
                   const std::vector<std::string>& only);
  // The options of a field: of an input up to five.
  Declared declare(protocol::BoundField field, Arguments arguments);
  Declared declare_argument(protocol::BoundField field, Arguments arguments);
  Declared declare_input(const protocol::BoundField& field);
  void keep_values(const CLI::Option* option, const std::vector<std::string>& values);

  CLI::App& parser_;
  OptionValues* values_;
};

// "a:b" -> {a, b}. Throws Error "bad_usage" that names the option.
std::vector<std::int64_t> integer_range(const std::string& text, const std::string& option);

}  // namespace phasescope::app
