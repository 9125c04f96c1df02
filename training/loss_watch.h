#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>

#include "training/run_config.h"

namespace phasescope::training {

// What a training remembers of its losses: whether one jumps, and whether validation still gets
// better. It follows from what it was told alone, and is kept in checkpoints, so that a resumed run
// decides as an unbroken one.
class LossWatch {
 public:
  explicit LossWatch(const TrainSection& train);

  // Whether jumps are looked for and this loss is one: no finite number, or above spike_above times
  // the mean of the last 50 (of 10 at least).
  bool jumps(double loss) const;
  // The loss of a step that was made.
  void add(double loss);
  void add_validation(double bits);
  // Whether `patience` validations have passed since the best one.
  bool gave_up() const;

  nlohmann::json state() const;
  void load(const nlohmann::json& state);

 private:
  bool on_ = false;
  double above_ = 2;
  std::int64_t patience_ = 0;
  std::deque<double> losses_;
  std::optional<double> best_;
  std::int64_t since_best_ = 0;
};

}  // namespace phasescope::training
