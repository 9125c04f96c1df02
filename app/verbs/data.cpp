#include "protocol/messages/data.h"

#include <string>

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"
#include "tasks/named_sample.h"
#include "tasks/reference_file.h"
#include "tasks/task.h"

namespace phasescope::app {

namespace {

// What is printed of a long text: both ends.
constexpr std::size_t kShownText = 300;

std::string shortened_text(const std::string& text) {
  if (text.size() <= kShownText) return text;
  const std::size_t half = kShownText / 2;
  return text.substr(0, half) + " [...] " + text.substr(text.size() - half);
}

// Samples of a task as a model sees them, and the check of a file of examples. No worker is needed.
class DataVerb : public Verb {
 public:
  std::string name() const override { return "data"; }
  std::string help() const override {
    return "what a task's samples are, and whether a file of examples agrees";
  }
  std::string example() const override { return "phasescope data missing_duplicate --trials 3"; }
  std::string missing_forms() const override { return ".csv .md .svg .pdf .png .npy .safetensors"; }
  void declare(Options& options) override {
    options.argument("TASK", task_, "addition, passkey, missing_duplicate, s5, copy, ...");
    options.option("--trials", trials_, "samples shown (default: 3)", 1, 100000);
    options.option("--length", length_,
                   "the task's own length; of addition digits of both, 3,4 (default: 8, or the "
                   "nearest that it has)");
    options.option("--seed", seed_, "seed of everything drawn, at least 0 (default: 0)", 0);
    options.option("--check", check_,
                   "JSON lines of examples and metrics: are targets, formats, counted places and "
                   "scores those of the task; status 1 with the first difference");
  }

  Takes takes() const override { return {.remote = false}; }

  Output run(Run&) override {
    const tasks::Task& task = tasks::task_named(task_);
    if (!check_.empty()) {
      refuse_beside_check("--trials", trials_ != kNotGiven);
      refuse_beside_check("--seed", seed_ != kNotGiven);
      refuse_beside_check("--length", !length_.empty());
    }
    if (trials_ == kNotGiven) trials_ = 3;
    if (seed_ == kNotGiven) seed_ = 0;
    return check_.empty() ? samples_of(task) : check_of(task);
  }

 private:
  static constexpr std::int64_t kNotGiven = -1;

  // Examples of a file are as long and as many as they are.
  static void refuse_beside_check(const char* option, bool given) {
    if (given) {
      throw formats::bad_usage("a file of examples has its own samples", option,
                               "leave it out, or --check");
    }
  }

  tasks::Ids length_of(const tasks::Task& task) const {
    return length_.empty() ? tasks::shown_length(task)
                           : tasks::length_of_words(length_, "--length");
  }

  static std::string line_of(const char* name, const tasks::Ids& ids, auto&& symbol) {
    std::string line = std::string("  ") + name;
    for (const std::int64_t id : ids) line += " " + symbol(id);
    return line + "\n";
  }

  static std::string text_of_image(const tasks::Task& task, const tasks::Sample& sample) {
    const tasks::ImageShape& image = task.info().image;
    std::string text;
    // What has colours is no text.
    const bool drawn = image.levels == 2 && image.channels == 1;
    for (std::int64_t row = 0; drawn && row < image.rows; ++row) {
      text += "  ";
      for (std::int64_t column = 0; column < image.columns; ++column) {
        text +=
            task.input_symbol(sample.input[static_cast<std::size_t>(row * image.columns + column)]);
      }
      text += "\n";
    }
    if (!drawn) text += "  drawn   " + sample.drawn.dump() + "\n";
    text += "  read in " + std::to_string(image.pieces()) + " pieces of " +
            std::to_string(image.side) + " x " + std::to_string(image.side) + "\n";
    return text + line_of("answers", sample.target,
                          [&](std::int64_t id) { return task.output_symbol(id); });
  }

  static std::string text_of(const tasks::Task& task, const tasks::Sample& sample) {
    if (task.info().form == tasks::Form::text) {
      return "  prompt  " + shortened_text(sample.prompt) + "\n  answer  " + sample.answer + "\n";
    }
    if (task.info().form == tasks::Form::image) return text_of_image(task, sample);
    const auto in = [&](std::int64_t id) { return task.input_symbol(id); };
    const auto out = [&](std::int64_t id) { return task.output_symbol(id); };
    std::string text = line_of("reads  ", task.read_by_model(sample), in);
    if (!sample.input_places.empty()) {
      text += line_of("places ", sample.input_places, [](auto id) { return std::to_string(id); });
    }
    if (!sample.decoder_input.empty()) text += line_of("decoder", sample.decoder_input, in);
    text += line_of("answers", sample.target, out);
    return text + line_of("counts ", sample.counts, [](auto id) { return std::to_string(id); });
  }

  Output samples_of(const tasks::Task& task) const {
    const tasks::TaskInfo& info = task.info();
    const tasks::Ids length = length_of(task);
    tasks::check_given_length(task, length, "--length");
    const auto seed = static_cast<std::uint64_t>(seed_);
    const tasks::Chance chance = task.chance(length);
    Output output;
    output.text = info.key + ": " + info.help + "\n";
    for (std::int64_t n = 0; n < trials_; ++n) {
      const tasks::Sample sample = task.draw(seed, length, static_cast<std::uint64_t>(n));
      output.text += "sample " + std::to_string(n) + "\n" + text_of(task, sample);
    }
    output.text += info.metric + " of guessing: uniform " + widgets::short_number(chance.uniform) +
                   ", blind " + widgets::short_number(chance.blind) + " (" + chance.formula + ")\n";
    if (!info.differs.empty()) output.text += "code and paper: " + info.differs + "\n";
    output.result = protocol::to_json_form(
        protocol::DataResult{.task = info.key,
                             .form = tasks::name_of(info.form),
                             .metric = info.metric,
                             .length = length,
                             .length_unit = info.length_unit,
                             .source = info.source,
                             .uniform = chance.uniform,
                             .blind = chance.blind,
                             .rows = tasks::example_rows(task, {length}, trials_, seed)});
    return output;
  }

  Output check_of(const tasks::Task& task) const {
    const tasks::FileCheck check = tasks::check_file(task, check_);
    Output output;
    output.result =
        protocol::to_json_form(protocol::DataCheckResult{.task = task.info().key,
                                                         .examples = check.examples,
                                                         .metrics = check.metrics,
                                                         .differences = check.differences});
    output.text =
        task.info().key + ": " + counted(check.examples, "example") + ", " +
        counted(check.metrics, "metric") + ", " +
        (check.differences.empty()
             ? "all equal"
             : "of which " + std::to_string(check.differences.size()) +
                   (check.differences.size() == 1 ? " differs: " : " differ; the first: ") +
                   check.differences.front()) +
        "\n";
    output.status = check.differences.empty() ? 0 : 1;
    return output;
  }

  std::string task_, length_, check_;
  std::int64_t trials_ = kNotGiven, seed_ = kNotGiven;
};

}  // namespace

std::unique_ptr<Verb> data_verb() { return std::make_unique<DataVerb>(); }

}  // namespace phasescope::app
