#include "training/loss_watch.h"

#include <cmath>
#include <numeric>

namespace phasescope::training {
namespace {

constexpr std::size_t kLossesKept = 50, kFewestLosses = 10;

}  // namespace

LossWatch::LossWatch(const TrainSection& train)
    : on_(train.spike != "off"),
      above_(train.spike_above),
      patience_(train.patience),
      keep_best_(train.keep_best) {}

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

void LossWatch::add_validation(std::int64_t step, double bits, std::optional<double> right) {
  const double value = keep_best_ == "right" ? -right.value_or(0) : bits;
  const bool better = std::isfinite(value) && (!kept_ || value < kept_->value);
  if (keep_best_ != "off" && better) kept_ = Kept{step, value};
  if (patience_ == 0) return;
  if (std::isfinite(bits) && (!best_ || bits < *best_)) {
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
  if (kept_) state["kept"] = {{"by", keep_best_}, {"step", kept_->step}, {"value", kept_->value}};
  return state;
}

void LossWatch::load(const nlohmann::json& state) {
  losses_ = state.at("losses").get<std::deque<double>>();
  since_best_ = state.at("since_best").get<std::int64_t>();
  best_.reset();
  if (state.contains("best")) best_ = state.at("best").get<double>();
  kept_.reset();
  // One by another measure cannot be compared.
  if (!state.contains("kept") || state.at("kept").at("by") != keep_best_) return;
  const nlohmann::json& kept = state.at("kept");
  kept_ = Kept{kept.at("step").get<std::int64_t>(), kept.at("value").get<double>()};
}

std::string words_of_jump(double loss, double gradient_norm) {
  if (std::isfinite(loss) && !std::isfinite(gradient_norm)) {
    return "the norm of its gradient is no finite number";
  }
  return "its loss of " + std::to_string(loss) + " jumps";
}

}  // namespace phasescope::training
