#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoints/open_model.h"

namespace phasescope::model {

struct TensorComparison {
  std::string name;  // as in the file, prefix included
  double error = 0;  // largest absolute difference over the tensor's largest magnitude
  double tolerance = 0;
  bool passed = false;  // false for NaN too
  std::string why;      // why it failed, where a number does not say it
};

struct NotCompared {
  std::string name, reason;
};

struct ReferenceCheck {
  std::vector<TensorComparison> compared;  // worst (error over tolerance) first
  std::vector<NotCompared> not_compared;
  bool passed = false;  // something was compared, and all of it passed
  std::string dtype, tolerance_rule;
  std::string weights_from;  // as in the load report
  AllRan ran;                // attention
};

struct CheckOptions {
  at::ScalarType dtype = at::kFloat;
  std::optional<double> tolerance;  // in place of the rule
  // Settings that replace the configuration's, as OpenModelOptions has them.
  std::vector<std::pair<std::string, std::string>> overrides;
  ForwardOptions forward;
};

// Runs the inputs of a reference file and compares every tensor of it that `capture` knows by name.
// NAME_f64 is compared with a float64 run (tolerance 1e-10). NAME is compared with a run in
// `dtype`, which is held against NAME_f64 where the file has that too; for float32 the tolerance is
// max(1e-5, 3 x what the reference's own float32 run loses), relative to the tensor's largest
// magnitude: the error of NAME or of the logits against its _f64, or what about.json beside the
// file records of NAME's kind. Where NAME stands alone that loss is in it, and is added. A prefix
// ("n33.") names an input group of its own.
ReferenceCheck check_against(const std::string& path_or_name,
                             const std::filesystem::path& reference,
                             const CheckOptions& options = {});

}  // namespace phasescope::model
