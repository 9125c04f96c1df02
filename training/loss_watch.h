#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

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
  // What the validation after step `step` found: bits, and of a task the share that is right.
  void add_validation(std::int64_t step, double bits, std::optional<double> right = {});
  // The step of the best validation by train.keep_best, the first of equal ones; 0: there is none,
  // or none is looked for.
  std::int64_t best_step() const { return kept_ ? kept_->step : 0; }
  // Whether `patience` validations have passed since the best one.
  bool gave_up() const;

  nlohmann::json state() const;
  void load(const nlohmann::json& state);

 private:
  bool on_ = false;
  double above_ = 2;
  std::int64_t patience_ = 0;
  std::string keep_best_;
  std::deque<double> losses_;
  std::optional<double> best_;
  std::int64_t since_best_ = 0;
  struct Kept {
    std::int64_t step = 0;
    double value = 0;  // the lower the better
  };
  std::optional<Kept> kept_;
};

// Why a step jumps: "its loss of 5.200000 jumps", or that its gradient, of this norm, is no finite
// number though the loss is one.
std::string words_of_jump(double loss, double gradient_norm);

}  // namespace phasescope::training
