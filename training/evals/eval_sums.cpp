#include "training/evals/eval_sums.h"

#include <algorithm>
#include <numeric>

#include "protocol/json_form.h"

namespace phasescope::training {

LossSums::LossSums(std::size_t texts, std::int64_t n, Per per)
    : per_(per), tokens_at_(static_cast<std::size_t>(n)), counted_(texts), by_position_(texts) {
  for (auto& row : by_position_) row.resize(static_cast<std::size_t>(n));
}

void LossSums::add(std::size_t text_index, const EvalText& text, const EvalWindow& window,
                   const double* losses, std::int64_t first_known) {
  for (std::int64_t i = first_known; i < window.length; ++i) {
    const double weight =
        per_ == Per::token ? 1 : text.bytes[static_cast<std::size_t>(window.begin + i)];
    TextSum& place = by_position_[text_index][static_cast<std::size_t>(i)];
    place.sum += losses[i];
    place.weight += weight;
    ++tokens_at_[static_cast<std::size_t>(i)];
    if (i < window.count_from) continue;
    counted_[text_index].sum += losses[i];
    counted_[text_index].weight += weight;
    ++tokens_;
  }
}

void LossSums::put(std::size_t text_index, const LossSums& of_text) {
  counted_[text_index] = of_text.counted_[0];
  by_position_[text_index] = of_text.by_position_[0];
  tokens_ += of_text.tokens_;
  for (std::size_t i = 0; i < tokens_at_.size(); ++i) tokens_at_[i] += of_text.tokens_at_[i];
}

nlohmann::json LossSums::written(bool positions) const {
  const auto pair = [](const TextSum& sum) {
    return nlohmann::json{protocol::detail::write_double(sum.sum), sum.weight};
  };
  nlohmann::json text{{"counted", pair(counted_[0])}, {"tokens", tokens_}};
  if (!positions) return text;
  text["tokens_at"] = tokens_at_;
  for (const TextSum& sum : by_position_[0]) text["positions"].push_back(pair(sum));
  return text;
}

void LossSums::read(const nlohmann::json& text) {
  const auto sum_of = [](const nlohmann::json& pair) {
    return TextSum{protocol::detail::read_double(pair.at(0)), pair.at(1).get<double>()};
  };
  counted_[0] = sum_of(text.at("counted")), tokens_ = text.at("tokens").get<std::int64_t>();
  if (!text.contains("positions")) return;
  const nlohmann::json& tokens = text.at("tokens_at");
  for (std::size_t i = 0; i < tokens_at_.size(); ++i) {
    tokens_at_[i] = tokens.at(i).get<std::int64_t>();
    by_position_[0][i] = sum_of(text.at("positions").at(i));
  }
}

std::vector<TextSum> LossSums::between(std::int64_t begin, std::int64_t end) const {
  std::vector<TextSum> sums(by_position_.size());
  for (std::size_t t = 0; t < sums.size(); ++t) {
    for (std::int64_t i = begin; i < end; ++i) {
      sums[t].sum += by_position_[t][static_cast<std::size_t>(i)].sum;
      sums[t].weight += by_position_[t][static_cast<std::size_t>(i)].weight;
    }
  }
  return sums;
}

std::int64_t LossSums::tokens_between(std::int64_t begin, std::int64_t end) const {
  return std::accumulate(tokens_at_.begin() + begin, tokens_at_.begin() + end, std::int64_t{0});
}

std::int64_t LossSums::texts_read() const {
  return std::count_if(counted_.begin(), counted_.end(),
                       [](const TextSum& sum) { return sum.weight > 0; });
}

}  // namespace phasescope::training
