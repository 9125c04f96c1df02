#pragma once
// A theorem check: what it states, what it is given, what it answers.
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "analysis/texts.h"
#include "model/checkpoints/open_model.h"
#include "protocol/messages/theory.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

using protocol::CheckCurve;
using protocol::CheckResult;
using protocol::Verdict;

struct CheckContext {
  std::shared_ptr<const model::Model> model;  // float32
  const Texts* texts = nullptr;               // with ids of this model's tokenizer
  std::int64_t pairs = 0;                     // samples of checks on texts; 0: each check's own
  std::uint64_t seed = 0;
  protocol::Progress* progress = nullptr;
  // Of passes that a check does not run by plain operations whatever is asked.
  model::Backend backend = model::Backend::fused;
  model::AllRan* kernels = nullptr;  // gathers what ran attention; null for nobody
};

// `id`, `statement`, `source`, `model` and `seed` of the answer are filled in by run_check.
struct TheoryCheck {
  protocol::CheckInfo info;
  CheckResult (*run)(const CheckContext& context) = nullptr;
};

// Every check. To add one: a pair theory/NAME.{h,cpp}, a line in registry.cpp, a CMake line, and a
// test with a model that must fail.
const std::vector<TheoryCheck>& theory_checks();

// By id; all for an empty list. Throws Error "bad_usage" naming an id that does not exist.
std::vector<TheoryCheck> select_checks(const std::vector<std::string>& ids);

CheckResult run_check(const TheoryCheck& check, const CheckContext& context);

}  // namespace phasescope::analysis
