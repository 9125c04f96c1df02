#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoints/open_model.h"
#include "model/config.h"
#include "tests/temporary_folder.h"

// Reference data, and comparisons that fail for NaN.

namespace phasescope::model {

// golden_path() of tests/golden_folder.h.
std::filesystem::path golden(const std::string& path);

// Calls test(model, length) with the tests' small models of families, each with a length that it
// takes: those that come with the source or are written here, and where the references outside of
// it are there, those of all families, some with experts. Fails where a family of the registry has
// not run then.
using FamilyTest = std::function<void(const std::shared_ptr<const Model>&, std::int64_t)>;
void for_each_family_model(const FamilyTest& test);

// One tensor of a safetensors file.
at::Tensor golden_tensor(const std::string& path, const std::string& name);
bool has_golden_tensor(const std::string& path, const std::string& name);

// Largest difference over the reference's largest magnitude; NaN where either holds NaN.
double relative_error(const at::Tensor& ours, const at::Tensor& reference);

// Notes in the running test's report how far `what` (an encoding, or a family of checkpoints) is
// from a reference file in a dtype, "f32" or "f64"; the largest of each stands there. `./dev
// parity` makes docs/parity.md of the reports. Returns the error.
double noted(const std::string& what, const std::string& file, const std::string& dtype,
             double error);
// In place of a file: the encoding's definition, written out in the test.
inline constexpr const char* kDefinition = "the definition";

// A tiny configuration with the encoding and options given.
ModelConfig tiny_config(const std::string& encoding, const Json& options = Json::object());

// Random ids (batch, length), the same for the same arguments.
at::Tensor random_ids(std::int64_t batch, std::int64_t length, std::int64_t vocab,
                      std::uint64_t seed = 7);

}  // namespace phasescope::model
