#include <algorithm>
#include <cmath>
#include <string_view>

#include "formats/error.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

constexpr std::int64_t kPad = 0, kEnd = 3, kDigit = 4, kPlus = 14, kEquals = 17, kVocabulary = 19;
constexpr std::string_view kCharacters = "0123456789+-x= ";  // from id 4 on

// Digits, lowest first.
using Digits = std::vector<std::int64_t>;

Digits drawn_digits(std::int64_t count, Random& random) {
  Digits digits;
  for (std::int64_t i = 0; i + 1 < count; ++i) digits.push_back(random.below(10));
  digits.push_back(random.between(1, 9));
  return digits;
}

Digits sum_of(const Digits& a, const Digits& b) {
  Digits sum;
  std::int64_t carry = 0;
  for (std::size_t i = 0; i < a.size() || i < b.size() || carry > 0; ++i) {
    carry += (i < a.size() ? a[i] : 0) + (i < b.size() ? b[i] : 0);
    sum.push_back(carry % 10);
    carry /= 10;
  }
  return sum;
}

std::string text_of(const Digits& digits) {
  std::string text;
  for (const std::int64_t digit : digits) text += static_cast<char>('0' + digit);
  return text;
}

Digits digits_of(std::string_view text) {
  Digits digits;
  for (const char c : text) {
    if (c < '0' || c > '9') throw formats::bad_input("an operand has other signs than digits");
    digits.push_back(c - '0');
  }
  if (digits.empty()) throw formats::bad_input("an operand has no digits");
  return digits;
}

Ids ids_of(std::string_view text) {
  Ids ids;
  for (const char c : text) {
    ids.push_back(kDigit + static_cast<std::int64_t>(kCharacters.find(c)));
  }
  ids.push_back(kEnd);
  return ids;
}

// Everything after "=" counts, [EOS] too.
Sample sample_of(const Digits& a, const Digits& b) {
  Sample sample;
  sample.prompt = text_of(a) + "+" + text_of(b) + "=";
  sample.answer = text_of(sum_of(a, b));
  sample.target = ids_of(sample.prompt + sample.answer);
  sample.input.assign(sample.target.begin(), sample.target.end() - 1);
  sample.target.erase(sample.target.begin());
  sample.counts.assign(sample.target.size(), 1);
  std::fill_n(sample.counts.begin(), sample.prompt.size() - 1, 0);
  sample.length = {static_cast<std::int64_t>(a.size()), static_cast<std::int64_t>(b.size())};
  return sample;
}

class Addition : public Task {
 public:
  Addition() {
    info_ = {.key = "addition",
             .title = "Addition",
             .help = "the sum of two numbers, all written lowest digit first",
             .source =
                 "TAPE (arXiv 2501.00712) Figure 3; code of mcleish7/arithmetic and "
                 "zhuconv/arithmetic",
             .differs =
                 "the paper trains on 40 digits and tests to 80; its released code names "
                 "the set of 20 digits and tests 50 x 50 cells",
             .form = Form::causal,
             .input_symbols = kVocabulary,
             .output_symbols = kVocabulary,
             .padding = kPad,
             .length_unit = "digits",
             .dimensions = 2,
             .longest = 1000,
             .trained = "1..40",
             .tested = "1..80",
             .metric = "exact_match",
             .rows = "digits of the first number",
             .columns = "digits of the second number"};
  }

  const TaskInfo& info() const override { return info_; }

  Sample drawn(const Ids& length, Random& random) const override {
    const Digits a = drawn_digits(length[0], random);
    return sample_of(a, drawn_digits(length[1], random));
  }

  Sample again(const Json& row) const override {
    const auto prompt = row.at("prompt").get<std::string>();
    const std::size_t plus = prompt.find('+');
    if (plus == prompt.npos || prompt.back() != '=') {
      throw formats::bad_input("a prompt of addition is not a+b=", prompt);
    }
    const std::string_view view(prompt);
    return sample_of(digits_of(view.substr(0, plus)),
                     digits_of(view.substr(plus + 1, prompt.size() - plus - 2)));
  }

  Json row(const Sample& sample) const override {
    Ids ids = sample.input;
    ids.push_back(kEnd);
    return {{"length", sample.length},
            {"text", sample.prompt + sample.answer},
            {"prompt", sample.prompt},
            {"answer", sample.answer},
            {"ids", ids},
            {"input", sample.input},
            {"target", sample.target},
            {"counts", sample.counts}};
  }

  // After the first [EOS] everything is padding; without one a row is wrong.
  Json metric(const std::vector<Sample>& samples, const Json& given) const override {
    const auto generated = given.at("generated").get<std::vector<Ids>>();
    std::int64_t correct = 0;
    for (std::size_t n = 0; n < samples.size(); ++n) {
      const Ids& row = generated.at(n);
      const auto stop = std::ranges::find(row, kEnd);
      const Ids right = ids_of(samples[n].answer);
      if (stop != row.end() && Ids(row.begin(), stop + 1) == right) ++correct;
    }
    const auto rows = static_cast<std::int64_t>(samples.size());
    return {{"correct", correct},
            {"counted", rows},
            {"exact_match", static_cast<double>(correct) / static_cast<double>(rows)}};
  }

  // The top digit of the sum is not even, so the guess by length is an upper bound by a little.
  Chance chance(const Ids& length) const override {
    const auto digits = static_cast<double>(std::max(length[0], length[1]));
    return {std::pow(1 / static_cast<double>(kVocabulary), digits + 1), std::pow(10.0, -digits),
            "10^-digits for who knows how many digits the sum has"};
  }

  std::string input_symbol(std::int64_t id) const override {
    constexpr const char* special[] = {"[PAD]", "[UNK]", "[BOS]", "[EOS]"};
    if (id < kDigit) return special[id];
    return std::string(1, kCharacters[static_cast<std::size_t>(id - kDigit)]);
  }

 private:
  TaskInfo info_;
};

static_assert(kCharacters[kPlus - kDigit] == '+' && kCharacters[kEquals - kDigit] == '=');

}  // namespace

std::unique_ptr<Task> addition() { return std::make_unique<Addition>(); }

}  // namespace phasescope::tasks
