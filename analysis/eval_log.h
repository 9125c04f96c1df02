#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace phasescope::analysis {

// What was measured so far, kept as it comes, so that an evaluation that was ended goes on.
class EvalLog {
 public:
  virtual ~EvalLog() = default;
  // What was added under this key; null where nothing was.
  virtual const nlohmann::json* found(const std::string& key) const = 0;
  virtual void add(const std::string& key, nlohmann::json measured) = 0;
};

// The log of an evaluation of which nothing is kept.
class NoEvalLog final : public EvalLog {
 public:
  const nlohmann::json* found(const std::string&) const override { return nullptr; }
  void add(const std::string&, nlohmann::json) override {}
};

}  // namespace phasescope::analysis
