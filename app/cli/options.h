#pragma once
// What a verb declares of its command line. Verbs see only this, so that the parser's header is
// compiled once.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace phasescope::app {

class Options {
 public:
  explicit Options(CLI::App& parser) : parser_(parser) {}

  // Positional arguments; `name` is what the help text shows, e.g. "MODEL".
  void argument(const std::string& name, std::string& value, const std::string& help,
                bool required = true);
  void arguments(const std::string& name, std::vector<std::string>& values, const std::string& help,
                 bool required = true);

  // Options, e.g. "--rows"; the value keeps its default where the option is not given.
  void option(const std::string& name, std::string& value, const std::string& help);
  void option(const std::string& name, std::optional<std::string>& value, const std::string& help);
  // Numbers are read whole and in range, or refused with Error "bad_usage" that names the option.
  void option(const std::string& name, int64_t& value, const std::string& help,
              int64_t low = INT64_MIN, int64_t high = INT64_MAX);
  void option(const std::string& name, double& value, const std::string& help);
  void choice(const std::string& name, std::string& value, const std::vector<std::string>& allowed,
              const std::string& help);
  // May be given several times.
  void repeated(const std::string& name, std::vector<std::string>& values, const std::string& help);
  void flag(const std::string& name, bool& value, const std::string& help);

 private:
  CLI::App& parser_;
};

// "a,b,c" -> {"a", "b", "c"}; empty parts are dropped.
std::vector<std::string> split_list(const std::string& text);
// "256,512" -> {256, 512}. Throws Error "bad_usage" that names the option.
std::vector<int64_t> integer_list(const std::string& text, const std::string& option);
// "a:b" -> {a, b}. Throws Error "bad_usage" that names the option.
std::vector<int64_t> integer_range(const std::string& text, const std::string& option);

}  // namespace phasescope::app
