#pragma once
// A theorem check: what it states, what it is given, what it answers.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/messages/ran.h"
#include "protocol/messages/theory.h"
#include "protocol/progress.h"

// Checks that need no model are compiled without LibTorch.
namespace phasescope::model {
enum class Backend;
struct Model;
}  // namespace phasescope::model

namespace phasescope::analysis {

struct TapaSamples;
struct Texts;

using protocol::CheckCurve;
using protocol::CheckResult;
using protocol::Verdict;

// What several checks read alike of one model, its texts and a seed, from the first that asked for
// it.
struct CheckSamples {
  std::map<std::int64_t, std::shared_ptr<const TapaSamples>> tapa;  // by pairs a head
};

struct CheckContext {
  std::shared_ptr<const model::Model> model;  // float32; null where a check runs by itself
  const Texts* texts = nullptr;               // with ids of this model's tokenizer; null like it
  std::int64_t pairs = 0;                     // samples of checks on texts; 0: each check's own
  std::uint64_t seed = 0;
  std::int64_t layer = 0, head = 0;  // whose curves a check of every head gives, where it gives one
  protocol::Progress* progress = nullptr;
  // What runs attention, but in passes that a check runs by plain operations whatever is asked.
  model::Backend backend{};             // fused
  protocol::AllRan* kernels = nullptr;  // gathers what ran attention; null for nobody
  CheckSamples* samples = nullptr;  // kept for the model's next checks; null: each reads its own
};

// What a check is measured on.
enum class On {
  construction,           // matrices, sums and samples that it makes itself: no model at all
  model,                  // a model
  model_or_construction,  // the same statement on both; without a model on its own construction
};

// What of a CheckContext a check reads that others do not.
struct Takes {
  bool pairs = false;
  bool head = false;  // and its layer
};

// `id`, `statement`, `source`, `model` and `seed` of the answer are filled in by run_check.
struct TheoryCheck {
  protocol::CheckInfo info;
  CheckResult (*run)(const CheckContext& context) = nullptr;
  On on = On::model;
  Takes takes{};
  // Whether it is also of models whose reading changes the scores of heads: it measures what runs,
  // and puts it together from nothing.
  bool of_changed_scores = false;

  bool runs_alone() const { return on != On::model; }
  bool reads_models() const { return on != On::construction; }
};

// Every check. To add one: a pair theory/NAME.{h,cpp}, a line in registry.cpp, a CMake line, and a
// test with a model that must fail.
const std::vector<TheoryCheck>& theory_checks();

// By id; all for an empty list. Throws Error "bad_usage" naming an id that does not exist.
std::vector<TheoryCheck> select_checks(const std::vector<std::string>& ids);

// A construction is nothing of the model's: with one the premise is not met. Throws Error
// "bad_usage" where a check needs a model and there is none.
CheckResult run_check(const TheoryCheck& check, const CheckContext& context);

// The same of a check among others, which go on whatever this one cannot do: its error is its
// answer, undecided. Throws what is of the request and not of the check: Errors "cancelled",
// "bad_usage" and "out_of_memory".
CheckResult run_check_among_others(const TheoryCheck& check, const CheckContext& context);

}  // namespace phasescope::analysis
