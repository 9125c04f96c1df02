#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <regex>
#include <string>
#include <utility>

#include "encoding_variants.h"
#include "model/checkpoints/open_model.h"
#include "phantom_device.h"
#include "protocol/json_form.h"

// One model on the CPU and on the second device, and what two answers may differ by.

namespace phasescope::model {

inline std::shared_ptr<const Model> there(const std::shared_ptr<const Model>& model) {
  return on_device(model, phantom_device());
}

// A text's ids go to the device, and nothing else of a pass; a loss of N ids takes them once more.
inline constexpr std::int64_t kInputs = 1;

// Copies to the device that an encoding makes before the first layer: positions that are drawn are
// drawn on the host, once or for each layer.
inline std::int64_t most_at_start(const Variant& v, const ModelConfig& config) {
  return v.encoding == "randomized_rope" ? 1 + config.layers : 0;
}

// FIRE's pieces are as many on a device as the network has units, and on the host as some pair can
// reach: products of other sizes, whose sums run in another order on some processors.
inline bool rounds_otherwise(const Variant& v) { return v.encoding == "fire"; }

// Two answers in numbers that differ by what layers make of a few roundings of float32.
inline void expect_near(const Json& found, const Json& expected, const std::string& where) {
  if (expected.is_number_float() && found.is_number_float()) {
    const double wanted = expected;
    EXPECT_NEAR(found.get<double>(), wanted, 1e-5 + 1e-4 * std::abs(wanted)) << where;
  } else if (expected.is_structured() && found.type() == expected.type()) {
    ASSERT_EQ(found.size(), expected.size()) << where;
    for (auto [a, b] = std::pair{found.begin(), expected.begin()}; b != expected.end(); ++a, ++b) {
      expect_near(*a, *b, expected.is_object() ? where + "." + b.key() : where);
    }
  } else {
    EXPECT_EQ(found, expected) << where;
  }
}

// The same words for both, but for the device's name. An analysis takes the models for ones on the
// CPU and adds what else ran attention; which device they are on is said by who asks it.
template <class Result>
std::string words(const Result& result) {
  static const std::regex beside(", attention on phantom"), device("phantom(:0)?");
  const std::string text = std::regex_replace(protocol::to_json_form(result).dump(), beside, "");
  return std::regex_replace(text, device, "cpu");
}

}  // namespace phasescope::model
