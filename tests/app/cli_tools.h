#pragma once
// What tests of the command line have in common: a folder, the program run in this process,
// results.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/cli.h"
#include "app/verbs/verbs.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/shift.h"
#include "tests/temporary_folder.h"

namespace phasescope::app {

inline std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline int run_words(std::vector<std::string> words) {
  words.insert(words.begin(), "phasescope");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return run_program(int(argv.size()), argv.data(), all_verbs());
}

// What the program says on standard error for these words, which must end with `status`.
inline std::string complaint(std::vector<std::string> words, int status = 2) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_words(std::move(words)), status);
  return testing::internal::GetCapturedStderr();
}

inline protocol::DistanceResult two_models() {
  protocol::DistanceResult result;
  for (const char* name : {"rope", "tapa"}) {
    protocol::DistanceModel model{.model = name};
    protocol::NearFar h{.near_begin = 1, .near_end = 16, .far_begin = 240, .far_end = 256};
    h.pairs = 4;
    h.mean = 2;
    h.edges = {0, 1, 3};
    h.counts = {1, 3};
    model.histogram = h;
    model.layers.push_back({.layer = 0, .histogram = h});
    result.models.push_back(model);
  }
  return result;
}

inline protocol::ShiftResult two_shifted() {
  protocol::ShiftResult result{.formula = "the formula"};
  for (const char* model : {"rope", "tapa"}) {
    for (const char* method : {"ids", "tokens"}) {
      for (std::int64_t by : {1, 3, 16}) {
        for (std::int64_t layer : {0, 1}) {
          const bool still = model == std::string("tapa") && method == std::string("ids");
          result.rows.push_back({.model = model,
                                 .method = method,
                                 .by = by,
                                 .layer = layer,
                                 .attention_difference = still ? 0.0 : double(by + layer)});
        }
      }
    }
  }
  return result;
}

}  // namespace phasescope::app
