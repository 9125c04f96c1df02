#include "training/loss_watch.h"

#include <cmath>
#include <numeric>

namespace phasescope::training {
namespace {

constexpr std::size_t kLossesKept = 50, kFewestLosses = 10;

}  // namespace

LossWatch::LossWatch(const TrainSection& train)
    : on_(train.spike != "off"), above_(train.spike_above), patience_(train.patience) {}

bool LossWatch::jumps(double loss) const {
  if (!on_) return false;
  if (!std::isfinite(loss)) return true;
  if (losses_.size() < kFewestLosses) return false;
  const double sum = std::accumulate(losses_.begin(), losses_.end(), 0.0);
  return loss > above_ * sum / static_cast<double>(losses_.size());
}

void LossWatch::add(double loss) {
  if (!on_) return;
  losses_.push_back(loss);
  if (losses_.size() > kLossesKept) losses_.pop_front();
}

void LossWatch::add_validation(double bits) {
  if (patience_ == 0) return;
  if (!best_ || bits < *best_) {
    best_ = bits;
    since_best_ = 0;
  } else {
    ++since_best_;
  }
}

bool LossWatch::gave_up() const { return patience_ > 0 && since_best_ >= patience_; }

nlohmann::json LossWatch::state() const {
  nlohmann::json state = {{"losses", losses_}, {"since_best", since_best_}};
  if (best_) state["best"] = *best_;
  return state;
}

void LossWatch::load(const nlohmann::json& state) {
  losses_ = state.at("losses").get<std::deque<double>>();
  since_best_ = state.at("since_best").get<std::int64_t>();
  best_.reset();
  if (state.contains("best")) best_ = state.at("best").get<double>();
}

}  // namespace phasescope::training
