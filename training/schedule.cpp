#include "training/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace phasescope::training {
namespace {

std::int64_t windows_of(const TrainSection& train, std::int64_t length) {
  return std::max<std::int64_t>(1, train.batch_tokens / length);
}

}  // namespace

double learning_rate_at(const TrainSection& train, std::int64_t step) {
  if (step < train.warmup_steps) {
    return train.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(train.warmup_steps);
  }
  const std::int64_t held = std::llround(train.hold * static_cast<double>(train.steps));
  const std::int64_t begin = std::max(train.warmup_steps, held);
  const std::int64_t last = std::max<std::int64_t>(train.steps - 1 - begin, 1);
  const double way =
      std::clamp(static_cast<double>(step - begin) / static_cast<double>(last), 0.0, 1.0);
  const double left =
      train.schedule == "linear" ? 1 - way : 0.5 * (1 + std::cos(std::numbers::pi * way));
  return train.learning_rate * (train.final_share + (1 - train.final_share) * left);
}

std::vector<std::int64_t> stage_steps(const TrainSection& train) {
  std::vector<std::int64_t> counts;
  double cumulated = 0;
  std::int64_t begun = 0;
  for (const CurriculumStage& stage : train.curriculum) {
    cumulated += stage.share;
    const auto rounded =
        static_cast<std::int64_t>(std::llround(cumulated * static_cast<double>(train.steps)));
    const std::int64_t end = std::min(train.steps, rounded);
    counts.push_back(end - begun);
    begun = end;
  }
  counts.push_back(train.steps - begun);
  return counts;
}

std::int64_t window_length_at(const TrainSection& train, std::int64_t context, std::int64_t step) {
  const std::vector<std::int64_t> counts = stage_steps(train);
  std::int64_t end = 0;
  for (std::size_t i = 0; i < train.curriculum.size(); ++i) {
    end += counts[i];
    if (step < end) return train.curriculum[i].length;
  }
  return context;
}

std::int64_t windows_at(const TrainSection& train, std::int64_t context, std::int64_t step) {
  return windows_of(train, window_length_at(train, context, step));
}

std::int64_t tokens_before(const TrainSection& train, std::int64_t context, std::int64_t step) {
  const std::vector<std::int64_t> counts = stage_steps(train);
  std::int64_t tokens = 0, left = step;
  for (std::size_t i = 0; i < counts.size() && left > 0; ++i) {
    const std::int64_t length = i < train.curriculum.size() ? train.curriculum[i].length : context;
    const std::int64_t steps = std::min(left, counts[i]);
    tokens += steps * windows_of(train, length) * length;
    left -= steps;
  }
  return tokens;
}

}  // namespace phasescope::training
