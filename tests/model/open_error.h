#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "formats/error.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::model {

// The whole text of the error that opening gives.
inline std::string error_of(const std::string& model, const OpenModelOptions& options = {}) {
  try {
    open_model(model, options);
  } catch (const formats::Error& error) {
    EXPECT_TRUE(error.code() == "bad_input" || error.code() == "bad_usage") << error.code();
    return error.full_text();
  }
  ADD_FAILURE() << model << " opened";
  return {};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace phasescope::model
