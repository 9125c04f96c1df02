#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "formats/error.h"
#include "tests/temporary_folder.h"

namespace phasescope::formats {

inline std::string file_content(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline std::filesystem::path test_data(const std::string& name) {
  return std::filesystem::path(PHASESCOPE_TEST_DATA) / name;
}

// The Error that `action` throws; a test failure and an empty one where it throws none.
template <typename Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_FALSE(error.message().empty());
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return Error("", "");
}

// Whether the message, place or hint of an error holds a piece of text.
inline ::testing::AssertionResult tells(const Error& error, const std::string& piece) {
  if (error.full_text().find(piece) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << error.full_text() << "\" does not tell " << piece;
}

}  // namespace phasescope::formats
