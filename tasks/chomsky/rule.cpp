#include "tasks/chomsky/rule.h"

#include <algorithm>
#include <utility>

#include "formats/error.h"

namespace phasescope::tasks {
namespace {

// Estimates of the blind guesser: samples at short and at long lengths.
constexpr std::int64_t kShortSamples = 4000, kLongSamples = 1200, kShort = 100;

class ChomskyTask : public Task {
 public:
  explicit ChomskyTask(const ChomskyRule& rule) : rule_(rule) {
    info_.key = rule.key;
    info_.title = rule.title;
    info_.help = rule.help;
    info_.source = std::string(
                       "CAPE (arXiv 2405.14722) Table 2, by the code of google-deepmind/"
                       "randomized_positional_encodings: ") +
                   rule.public_name;
    info_.differs = rule.differs;
    info_.form = Form::placeholders;
    info_.input_symbols = rule.input_symbols;
    info_.output_symbols = rule.output_symbols;
    info_.padding = rule.input_symbols;
    info_.length_unit = "symbols";
    info_.longest = 4096;
    info_.trained = "1..40";
    info_.tested = "41..500";
    info_.metric = "accuracy";
  }

  const TaskInfo& info() const override { return info_; }

  Sample drawn(const Ids& length, Random& random) const override {
    return sample_of(rule_.input(length[0], random));
  }

  Sample again(const Json& row) const override {
    Ids input = row.at("input").get<Ids>();
    if (input.empty()) throw formats::bad_input("an example has no input", info_.key);
    for (const std::int64_t id : input) {
      if (id < 0 || id >= info_.input_symbols) {
        throw formats::bad_input("no such symbol: " + std::to_string(id), info_.key);
      }
    }
    Sample sample = sample_of(std::move(input));
    sample.length = {static_cast<std::int64_t>(sample.input.size())};
    return sample;
  }

  // The public generators shorten some lengths by one, so that a row has the length asked for.
  Json row(const Sample& sample) const override {
    return {{"input", sample.input}, {"target", sample.target}, {"counts", sample.counts}};
  }

  Json metric(const std::vector<Sample>& samples, const Json& given) const override {
    return accuracy_of(samples, given);
  }

  Chance chance(const Ids& length) const override {
    const std::int64_t n = length[0];
    Chance chance{.uniform = 1.0 / static_cast<double>(info_.output_symbols)};
    chance.blind = rule_.blind != nullptr
                       ? rule_.blind(n)
                       : estimated_blind(*this, length, n <= kShort ? kShortSamples : kLongSamples);
    chance.formula = rule_.blind != nullptr ? rule_.formula
                                            : "likeliest symbol by place, estimated from samples";
    return chance;
  }

  std::string input_symbol(std::int64_t id) const override {
    if (id == info_.input_symbols) return "_";
    return std::string(1, rule_.symbols[id]);
  }
  std::string output_symbol(std::int64_t id) const override { return std::to_string(id); }

 private:
  Sample sample_of(Ids input) const {
    Sample sample;
    sample.target = rule_.target(input);
    sample.input = std::move(input);
    auto counted = sample.target.end();
    if (rule_.terminated) counted = std::ranges::find(sample.target, 2) + 1;
    const auto count = static_cast<std::size_t>(counted - sample.target.begin());
    sample.counts.assign(sample.target.size(), 0);
    std::fill_n(sample.counts.begin(), count, 1);
    return sample;
  }

  ChomskyRule rule_;
  TaskInfo info_;
};

}  // namespace

std::unique_ptr<Task> chomsky_task(const ChomskyRule& rule) {
  return std::make_unique<ChomskyTask>(rule);
}

Ids even_symbols(std::int64_t n, std::int64_t symbols, Random& random) {
  Ids input(static_cast<std::size_t>(n));
  for (std::int64_t& symbol : input) symbol = random.below(symbols);
  return input;
}

Ids terminated(Ids answer, std::int64_t places) {
  answer.push_back(2);
  answer.resize(std::max(answer.size(), static_cast<std::size_t>(places)), 0);
  return answer;
}

double half_from_two(std::int64_t n) { return n < 2 ? 1 : 0.5; }

Json accuracy_of(const std::vector<Sample>& samples, const Json& given) {
  const auto predictions = given.at("predictions").get<std::vector<Ids>>();
  if (predictions.size() != samples.size()) {
    throw formats::bad_input("a metric has not as many predictions as rows", "predictions");
  }
  Score all;
  std::int64_t exact = 0;
  for (std::size_t n = 0; n < samples.size(); ++n) {
    const Score one = score_of(samples[n], predictions[n]);
    all.correct += one.correct, all.counted += one.counted;
    exact += one.exact ? 1 : 0;
  }
  return {{"correct", all.correct},
          {"counted", all.counted},
          {"accuracy", all.share()},
          {"exact_rows", exact}};
}

}  // namespace phasescope::tasks
