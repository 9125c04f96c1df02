#pragma once
// A training that takes a second, for the tests of the trainer and of jobs.

#include <filesystem>
#include <fstream>
#include <string>

#include "training/run_config.h"

namespace phasescope::training {

inline std::string small_text() {
  std::string text;
  for (int n = 0; text.size() < 20'000; ++n) {
    text +=
        "the " + std::to_string(n * 7919 % 1000) + " men of house " + std::to_string(n % 37) + ". ";
  }
  return text;
}

// Writes the text below `folder` and returns a configuration that reads it.
inline RunConfig small_run(const std::filesystem::path& folder, std::int64_t steps,
                           const nlohmann::json& encoding = {{"key", "rope"}}) {
  const std::filesystem::path text = folder / "text.txt";
  if (!std::filesystem::exists(text)) std::ofstream(text) << small_text();
  RunConfig config;
  config.model.context = 32;
  config.model.layers = 2;
  config.model.width = 32;
  config.model.heads = 2;
  config.model.kv_heads = 2;
  config.model.ffn_width = 64;
  config.encoding = encoding;
  config.data.corpus = text.string();
  config.data.validation = text.string();
  config.train.steps = steps;
  config.train.batch_tokens = 128;
  config.train.checkpoint_every = 7;
  config.train.warmup_steps = 5;
  config.train.curriculum = {{8, 0.3}, {16, 0.3}};
  config.eval.every = 10;
  config.eval.windows = 4;
  return config;
}

}  // namespace phasescope::training
