#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "formats/error.h"
#include "model/families/family.h"

namespace phasescope::model {

// A configuration by itself as its family reads it.
inline Translation translated(const Json& config) {
  std::string family;
  return translate({config, {}, "config.json", true}, family);
}

// The whole text of the error that reading gives, "was read" where there is none.
inline std::string refusal_of(const Json& config) {
  try {
    translated(config);
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_input") << error.full_text();
    return error.full_text();
  }
  return "was read";
}

}  // namespace phasescope::model
