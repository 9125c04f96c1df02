#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "formats/error.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

using Permutation = std::array<int, 5>;
constexpr std::int64_t kSwaps = 10, kBegin = 10, kPermutations = 120;
constexpr Permutation kIdentity{0, 1, 2, 3, 4};
constexpr std::array<std::array<std::size_t, 2>, 10> kPairs{
    {{0, 1}, {0, 2}, {0, 3}, {0, 4}, {1, 2}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 4}}};

// In lexicographic order.
const std::vector<Permutation>& permutations() {
  static const std::vector<Permutation> all = [] {
    std::vector<Permutation> list;
    Permutation one = kIdentity;
    do list.push_back(one);
    while (std::ranges::next_permutation(one).found);
    return list;
  }();
  return all;
}

std::int64_t number_of(const Permutation& one) {
  return std::ranges::lower_bound(permutations(), one) - permutations().begin();
}

Permutation swapped(Permutation one, std::int64_t swap) {
  const auto [a, b] = kPairs[static_cast<std::size_t>(swap)];
  std::swap(one[a], one[b]);
  return one;
}

// Number of the permutation after each token of `input`.
Ids states_of(const Ids& input) {
  Ids states;
  Permutation state = kIdentity;
  for (const std::int64_t token : input) {
    if (token < kSwaps) state = swapped(state, token);
    states.push_back(number_of(state));
  }
  return states;
}

// Distributions over the permutations after 0..n even swaps.
std::vector<std::vector<double>> chain(std::int64_t n) {
  std::vector<std::vector<double>> at(1, std::vector<double>(kPermutations));
  at[0][0] = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<double> next(kPermutations);
    for (std::size_t p = 0; p < next.size(); ++p) {
      for (std::int64_t swap = 0; swap < kSwaps; ++swap) {
        next[static_cast<std::size_t>(number_of(swapped(permutations()[p], swap)))] +=
            at.back()[p] / static_cast<double>(kSwaps);
      }
    }
    at.push_back(std::move(next));
  }
  return at;
}

class WordProblem : public Task {
 public:
  // `identity`: the label is whether the product so far is the identity; otherwise which one of the
  // 120 permutations it is.
  explicit WordProblem(bool identity) : identity_(identity) {
    info_ = {.key = identity ? "s5_identity" : "s5",
             .reference = "s5",
             .title = identity ? "Word problem of S5, identity" : "Word problem of S5",
             .help = identity ? "is the product of the swaps so far the identity"
                              : "which of 120 permutations is the product of the swaps so far",
             .source =
                 "TAPE (arXiv 2501.00712) Theorem 4.1 and Appendix B.1.2; a construction, no "
                 "published numbers",
             .differs = identity ? "half of the words have a tail that returns to the identity, "
                                   "which is rare in even ones; the metric is balanced"
                                 : "",
             .form = Form::causal,
             .input_symbols = kSwaps + 1,
             .output_symbols = identity ? 2 : kPermutations,
             .bos = kBegin,
             .padding = kBegin,
             .length_unit = "swaps",
             .longest = 4096,
             .trained = "",
             .tested = "2 and 8 times the trained length",
             .metric = identity ? "balanced_accuracy" : "accuracy"};
  }
  const TaskInfo& info() const override { return info_; }

  Sample drawn(const Ids& length, Random& random) const override {
    Ids input{kBegin};
    const std::int64_t n = length[0];
    // A word and itself backwards are the identity.
    const bool returns = identity_ && random.coin();
    const std::int64_t fresh = returns ? n - n / 2 : n;
    for (std::int64_t i = 0; i < fresh; ++i) input.push_back(random.below(kSwaps));
    for (std::int64_t i = 0; returns && i < n / 2; ++i) {
      input.push_back(input[static_cast<std::size_t>(fresh - i)]);
    }
    return sample_of(std::move(input));
  }

  Sample again(const Json& row) const override {
    Ids input = row.at("input").get<Ids>();
    for (std::size_t i = 0; i < input.size(); ++i) {
      const bool begin = i == 0;
      if (input[i] < 0 || input[i] > kBegin || (input[i] == kBegin) != begin) {
        throw formats::bad_input("a word is [BOS] (10), then swaps 0..9", "s5");
      }
    }
    return sample_of(std::move(input));
  }

  Json row(const Sample& sample) const override {
    const Ids states = states_of(sample.input);
    Ids identity;
    for (const std::int64_t state : states) identity.push_back(state == 0 ? 1 : 0);
    return {{"length", sample.length[0]},
            {"input", sample.input},
            {"identity", identity},
            {"permutation", states},
            {"counts", sample.counts}};
  }

  // The metric is about the identity, whichever the label is. Rows without predictions name one of
  // the guessers that the references were made with.
  Json metric(const std::vector<Sample>& samples, const Json& given) const override {
    std::int64_t correct = 0, counted = 0, identities = 0, found = 0, right_no = 0;
    for (std::size_t n = 0; n < samples.size(); ++n) {
      const Ids states = states_of(samples[n].input);
      const Ids answers = given.contains("predictions")
                              ? given.at("predictions").at(n).get<Ids>()
                              : guessed(given.at("what").get<std::string>(), samples[n].input);
      if (answers.size() != states.size()) {
        throw formats::bad_input("a prediction is not as long as its row", "s5");
      }
      for (std::size_t i = 1; i < states.size(); ++i) {
        const bool is = states[i] == 0, said = answers[i] == 1;
        ++counted, correct += is == said ? 1 : 0;
        identities += is ? 1 : 0, found += is && said ? 1 : 0;
        right_no += !is && !said ? 1 : 0;
      }
    }
    const auto share = [](std::int64_t part, std::int64_t whole) {
      return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
    };
    const double recall = share(found, identities);
    return {{"correct", correct},
            {"counted", counted},
            {"accuracy", share(correct, counted)},
            {"recall_of_identity", recall},
            {"identities", identities},
            {"balanced_accuracy", (recall + share(right_no, counted - identities)) / 2}};
  }

  Chance chance(const Ids& length) const override {
    if (identity_) return {0.5, 0.5, "balanced: 1/2 whatever is guessed"};
    const auto at = chain(length[0]);
    double sum = 0;
    for (std::size_t i = 1; i < at.size(); ++i) sum += *std::ranges::max_element(at[i]);
    return {1.0 / static_cast<double>(kPermutations), sum / static_cast<double>(length[0]),
            "likeliest permutation after each number of even swaps, exact; 1/60 in the limit"};
  }

  std::string input_symbol(std::int64_t id) const override {
    if (id == kBegin) return "[BOS]";
    if (id > kBegin) return std::to_string(id);
    const auto [a, b] = kPairs[static_cast<std::size_t>(id)];
    return "(" + std::to_string(a) + " " + std::to_string(b) + ")";
  }
  std::string output_symbol(std::int64_t id) const override {
    if (identity_) return id == 1 ? "yes" : "no";
    std::string digits;
    for (const int one : permutations()[static_cast<std::size_t>(id)]) {
      digits += std::to_string(one);
    }
    return digits;
  }

 private:
  Sample sample_of(Ids input) const {
    Sample sample;
    sample.target = states_of(input);
    if (identity_) {
      for (std::int64_t& state : sample.target) state = state == 0 ? 1 : 0;
    }
    sample.counts.assign(input.size(), 1);
    if (!input.empty()) sample.counts[0] = 0;
    sample.length = {static_cast<std::int64_t>(input.size()) - 1};
    sample.input = std::move(input);
    return sample;
  }

  static Ids guessed(const std::string& what, const Ids& input) {
    Ids answers(input.size(), 0);
    if (what == "right") {
      const Ids states = states_of(input);
      for (std::size_t i = 0; i < states.size(); ++i) answers[i] = states[i] == 0 ? 1 : 0;
    } else if (what == "identity only where two equal swaps follow each other") {
      for (std::size_t i = 1; i < input.size(); ++i) answers[i] = input[i] == input[i - 1] ? 1 : 0;
    } else if (what != "always 0") {
      throw formats::bad_input("a metric of s5 has no predictions", what);
    }
    return answers;
  }

  bool identity_;
  TaskInfo info_;
};

}  // namespace

std::unique_ptr<Task> s5() { return std::make_unique<WordProblem>(false); }
std::unique_ptr<Task> s5_identity() { return std::make_unique<WordProblem>(true); }

}  // namespace phasescope::tasks
