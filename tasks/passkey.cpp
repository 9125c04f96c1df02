#include <cmath>

#include "formats/error.h"
#include "tasks/factories.h"
#include "tasks/text_task.h"

namespace phasescope::tasks {
namespace {

constexpr std::int64_t kKeys = 49999;  // numpy's randint leaves its upper end out
constexpr std::int64_t kMostGarbage = 1 << 20;

// One endless text, cut by characters; the suffix begins it again.
std::string garbage(std::int64_t characters) {
  std::string text;
  while (static_cast<std::int64_t>(text.size()) < characters) {
    if (!text.empty()) text += ' ';
    text += kGarbage;
  }
  text.resize(static_cast<std::size_t>(characters));
  return text;
}

// Where the key stands, from 0 to 1, with six digits.
double depth_of(std::int64_t before, std::int64_t characters) {
  if (characters == 0) return 0;
  const double depth = static_cast<double>(before) / static_cast<double>(characters);
  return std::nearbyint(depth * 1e6) / 1e6;
}

Sample sample_of(std::int64_t characters, std::int64_t before, std::int64_t key) {
  if (before < 0 || before > characters || characters > kMostGarbage || key < 0) {
    throw formats::bad_input("the key does not stand within the garbage", "passkey");
  }
  const std::string number = std::to_string(key);
  Sample sample;
  sample.prompt =
      "There is an important info hidden inside a lot of irrelevant text. Find it and memorize "
      "them. I will quiz you about the important information there.\n" +
      garbage(before) + "\nThe pass key is " + number + ". Remember it. " + number +
      " is the pass key.\n" + garbage(characters - before) +
      "\nWhat is the pass key? The pass key is";
  sample.answer = number;
  sample.length = {characters};
  sample.drawn = {{"random", {{"before", before}, {"key", key}}},
                  {"depth", depth_of(before, characters)}};
  return sample;
}

class Passkey : public Task {
 public:
  Passkey() {
    info_ = {.key = "passkey",
             .title = "Passkey",
             .help = "a number told once in a lot of garbage",
             .source =
                 "Landmark attention (arXiv 2305.16300), LongLoRA, TAPE; code of "
                 "VITA-Group/TAPE",
             .differs =
                 "the papers say a key of 5 digits; their code draws 1..49999, of which 80 "
                 "of 100 have five",
             .form = Form::text,
             .length_unit = "characters of garbage",
             .longest = kMostGarbage,
             .trained = "any text",
             .tested = "floor(3750 i / 1024) x 1024 characters for i thousand tokens",
             .metric = "exact_match",
             .rows = "characters of garbage",
             .columns = "depth of the key"};
  }
  const TaskInfo& info() const override { return info_; }

  Sample drawn(const Ids& length, Random& random) const override {
    const std::int64_t before = random.below(length[0]);
    return sample_of(length[0], before, random.between(1, kKeys));
  }

  Sample again(const Json& row) const override {
    const Json& random = row.at("random");
    return sample_of(row.at("length").get<std::int64_t>(), random.at("before").get<std::int64_t>(),
                     random.at("key").get<std::int64_t>());
  }

  Json row(const Sample& sample) const override {
    Json row = sample.drawn;
    row["length"] = sample.length[0];
    row["target"] = sample.answer;
    put_prompt(row, sample.prompt);
    return row;
  }

  Json metric(const std::vector<Sample>& samples, const Json& given) const override {
    const auto predictions = text_predictions(samples, given);
    std::int64_t correct = 0;
    for (std::size_t n = 0; n < samples.size(); ++n) {
      correct += predictions[n] == samples[n].answer ? 1 : 0;
    }
    const auto rows = static_cast<std::int64_t>(samples.size());
    return {{"correct", correct},
            {"counted", rows},
            {"exact_match", static_cast<double>(correct) / static_cast<double>(rows)}};
  }

  Chance chance(const Ids&) const override {
    const double one = 1.0 / static_cast<double>(kKeys);
    return {one, one, "key even in 1..49999: 1/49999"};
  }
  double depth(const Sample& sample) const override {
    return sample.drawn.at("depth").get<double>();
  }
  std::string input_symbol(std::int64_t) const override { return ""; }

 private:
  TaskInfo info_;
};

}  // namespace

std::unique_ptr<Task> passkey() { return std::make_unique<Passkey>(); }

}  // namespace phasescope::tasks
