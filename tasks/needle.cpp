#include <cmath>

#include "formats/error.h"
#include "tasks/factories.h"
#include "tasks/text_task.h"

namespace phasescope::tasks {
namespace {

constexpr const char* kSentences[] = {"The kettle began to sing before anyone had found the cups.",
                                      "A narrow path led from the gate to the orchard.",
                                      "Nobody had opened the third drawer for years.",
                                      "The ferry was late, as it was on most Tuesdays.",
                                      "She counted the lamps twice and wrote the number down.",
                                      "Rain fell on the far side of the valley only.",
                                      "The clock in the hall kept its own opinion of time.",
                                      "He mended the fence with wire and patience.",
                                      "Two maps of the same island did not agree.",
                                      "The baker closed early when the flour ran out.",
                                      "A grey cat slept on the ledger.",
                                      "The bridge was painted green every fourth year.",
                                      "They sold the piano and kept the stool.",
                                      "Snow made the road look new again.",
                                      "The letter had been folded seven times.",
                                      "An old dog knew every step of the stair.",
                                      "The garden was loud with bees until noon.",
                                      "Her brother read the almanac for its jokes.",
                                      "The last train carried mostly parcels.",
                                      "A window on the north side would not close."};
constexpr const char* kKeys[] = {"seventh-river", "broken-compass", "amber-ladder",
                                 "plain-window",  "quiet-harbour",  "late-orchard"};
constexpr std::int64_t kDepths = 40, kMostSentences = 1 << 16;
constexpr std::int64_t kLeastValue = 1'000'000, kMostValue = 9'999'999, kDigits = 7;
// RULER's tokens_to_generate.
constexpr std::int64_t kWritten = 128;

struct Hidden {
  bool noise = false;
  std::string key, value;
  std::int64_t sentences = 0;
  std::int64_t depth_percent = 0;    // of text
  std::int64_t before_sentence = 0;  // of noise
};

// One of forty even steps from 0 to 100, rounded to even as Python's round() does.
std::int64_t drawn_depth(Random& random) {
  return std::lrint(100.0 * static_cast<double>(random.below(kDepths)) /
                    static_cast<double>(kDepths - 1));
}

std::string sentences(std::int64_t begin, std::int64_t end) {
  std::string text;
  for (std::int64_t n = begin; n < end; ++n) {
    if (n > begin) text += ' ';
    text += kSentences[static_cast<std::size_t>(n) % std::size(kSentences)];
  }
  return text;
}

// Parts joined by blanks; an empty part in front or behind leaves its blank, as in the public code.
std::string text_haystack(const Hidden& hidden, const std::string& needle) {
  const auto at = static_cast<std::int64_t>(static_cast<double>(hidden.sentences) *
                                            static_cast<double>(hidden.depth_percent) / 100);
  return sentences(0, at) + " " + needle + " " + sentences(at, hidden.sentences);
}

std::string noise_haystack(const Hidden& hidden, const std::string& needle) {
  std::string text;
  for (std::int64_t n = 0; n <= hidden.sentences; ++n) {
    if (n == hidden.before_sentence) text += needle + '\n';
    if (n < hidden.sentences) text += std::string(kGarbage) + '\n';
  }
  text.pop_back();
  return text;
}

Sample sample_of(const Hidden& hidden) {
  if (hidden.sentences < 1 || hidden.sentences > kMostSentences || hidden.depth_percent < 0 ||
      hidden.depth_percent > 100 || hidden.before_sentence < 0 ||
      hidden.before_sentence > hidden.sentences) {
    throw formats::bad_input("the needle does not stand in the haystack", "needle");
  }
  const std::string needle =
      "One of the special magic numbers for " + hidden.key + " is: " + hidden.value + ".";
  Sample sample;
  sample.prompt =
      "A special magic number is hidden within the following text. Make sure to memorize it. I "
      "will quiz you about the number afterwards.\n" +
      (hidden.noise ? noise_haystack(hidden, needle) : text_haystack(hidden, needle)) +
      "\nWhat is the special magic number for " + hidden.key +
      " mentioned in the provided text? The special magic number for " + hidden.key +
      " mentioned in the provided text is";
  sample.answer = " " + hidden.value;
  sample.length = {hidden.sentences};
  Json random{{"key", hidden.key}, {"value", hidden.value}};
  if (hidden.noise) {
    random["before_sentence"] = hidden.before_sentence;
  } else {
    random["depth_percent"] = hidden.depth_percent;
  }
  sample.drawn = {{"haystack", hidden.noise ? "noise" : "text"}, {"random", random}};
  return sample;
}

class Needle : public Task {
 public:
  explicit Needle(bool noise) : noise_(noise) {
    info_ = {.key = noise ? "needle_noise" : "needle",
             .reference = "needle",
             .title = noise ? "Needle in noise" : "Needle in a haystack",
             .help = "a number hidden between sentences, asked for by its key",
             .source = "RULER (arXiv 2404.06654) niah, one needle; re-implemented",
             .differs =
                 "RULER counts the value anywhere in 128 generated tokens, as `generate` does; "
                 "otherwise the answer must begin with it here, which one pass decides",
             .form = Form::text,
             .length_unit = noise ? "lines of garbage" : "sentences",
             .longest = kMostSentences,
             .trained = "any text",
             .tested = "1k..64k tokens",
             .metric = "exact_match",
             .rows = noise ? "lines of garbage" : "sentences",
             .columns = "depth of the needle",
             .written = kWritten};
  }
  const TaskInfo& info() const override { return info_; }

  Sample drawn(const Ids& length, Random& random) const override {
    Hidden hidden{.noise = noise_, .sentences = length[0]};
    hidden.key = kKeys[random.below(static_cast<std::int64_t>(std::size(kKeys)))];
    hidden.value = std::to_string(random.between(kLeastValue, kMostValue));
    if (noise_) {
      hidden.before_sentence = random.below(length[0]);
    } else {
      hidden.depth_percent = drawn_depth(random);
    }
    return sample_of(hidden);
  }

  Sample again(const Json& row) const override {
    const Json& random = row.at("random");
    return sample_of({.noise = row.at("haystack") == "noise",
                      .key = random.at("key").get<std::string>(),
                      .value = random.at("value").get<std::string>(),
                      .sentences = row.at("length").get<std::int64_t>(),
                      .depth_percent = random.value("depth_percent", std::int64_t{0}),
                      .before_sentence = random.value("before_sentence", std::int64_t{0})});
  }

  // Reference files have a full stop behind the value, which RULER's metric does not look at.
  Json row(const Sample& sample) const override {
    Json row = sample.drawn;
    row["length"] = sample.length[0];
    row["target"] = sample.answer + ".";
    put_prompt(row, sample.prompt);
    return row;
  }

  Json metric(const std::vector<Sample>& samples, const Json& given) const override {
    const auto predictions = text_predictions(samples, given);
    std::int64_t contained = 0, begins = 0;
    for (std::size_t n = 0; n < samples.size(); ++n) {
      const Written found = written(samples[n], predictions[n]);
      contained += found.contains ? 1 : 0;
      begins += found.begins ? 1 : 0;
    }
    const auto rows = static_cast<double>(samples.size());
    return {{"contained", contained},
            {"counted", samples.size()},
            {"string_match_all", 100 * static_cast<double>(contained) / rows},
            {"exact_prefix", static_cast<double>(begins) / rows}};
  }

  Chance chance(const Ids&) const override {
    const double one = 1.0 / static_cast<double>(kMostValue - kLeastValue + 1);
    return {one, one, "value even in 1000000..9999999"};
  }
  Written written(const Sample& sample, const std::string& text) const override {
    const std::string value = sample.answer.substr(1);
    return {.contains = text.find(value) != text.npos, .begins = text.starts_with(sample.answer)};
  }

  // Digits alone, so that a value begins at each place but the last six and no value twice.
  Chance chance_written() const override {
    const double share = static_cast<double>(kWritten - kDigits + 1) /
                         static_cast<double>(kMostValue - kLeastValue + 1);
    return {share, share, "122 values in 128 digits, a token each"};
  }
  double depth(const Sample& sample) const override {
    const Json& random = sample.drawn.at("random");
    if (!noise_) return random.at("depth_percent").get<double>() / 100;
    return random.at("before_sentence").get<double>() / static_cast<double>(sample.length[0]);
  }
  std::string input_symbol(std::int64_t) const override { return ""; }

 private:
  bool noise_;
  TaskInfo info_;
};

}  // namespace

std::unique_ptr<Task> needle() { return std::make_unique<Needle>(false); }
std::unique_ptr<Task> needle_noise() { return std::make_unique<Needle>(true); }

}  // namespace phasescope::tasks
