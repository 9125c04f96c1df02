#pragma once
// What the tests of theorem checks share: reference files, and checks run without a model.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "../golden_folder.h"
#include "analysis/theory/check.h"
#include "analysis/theory/verdicts.h"
#include "formats/json.h"

namespace phasescope::analysis::testing {

// theory/NAME of the reference results; null where nobody has it.
inline formats::Json theory_json(const std::string& name) {
  const auto path = golden_path("theory/" + name);
  return path.empty() ? formats::Json() : formats::json_from_file(path.string());
}

inline CheckResult run_alone(const std::string& id, std::uint64_t seed = 1) {
  protocol::NoProgress progress;
  CheckContext context;
  context.progress = &progress;
  context.seed = seed;
  return run_check(select_checks({id}).at(0), context);
}

// The verdict, and twice the same bytes.
inline void expect_holds_alone(const std::string& id) {
  const CheckResult first = run_alone(id), second = run_alone(id);
  EXPECT_EQ(first.verdict, "holds") << id << ": " << first.detail;
  EXPECT_GT(first.samples, 0) << id;
  EXPECT_FALSE(first.curves.empty()) << id;
  EXPECT_EQ(protocol::to_json_form(first).dump(), protocol::to_json_form(second).dump()) << id;
}

// |value - reference| against `share` of the reference, and at least `floor`.
inline void expect_near(double value, double reference, double share, double floor,
                        const std::string& what = {}) {
  EXPECT_NEAR(value, reference, std::max(floor, share * std::abs(reference))) << what;
}

}  // namespace phasescope::analysis::testing
