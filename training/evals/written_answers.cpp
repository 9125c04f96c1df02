#include "training/evals/written_answers.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "analysis/reading.h"
#include "training/task_data.h"

namespace phasescope::training {
namespace {

using tasks::Ids;
using tasks::Sample;

// The samples are the steps that are told, not the tokens of each.
class OfOneSample final : public protocol::Progress {
 public:
  explicit OfOneSample(const protocol::Progress& outer) : outer_(outer) {}
  void progress(double, std::string_view) override {}
  bool cancelled() const override { return outer_.cancelled(); }

 private:
  const protocol::Progress& outer_;
};

// What stands in front of the answer, as the model reads it.
Ids prompt_of(const Sample& read) {
  const auto first = std::ranges::find(read.counts, 1) - read.counts.begin();
  return {read.input.begin(), read.input.begin() + first + 1};
}

// The text that ids behind others add: a tokenizer may write the first of a text otherwise, without
// the blank before it.
std::string text_behind(const formats::Tokenizer& tokenizer, const Ids& prompt,
                        const Ids& written) {
  Ids all = prompt;
  all.insert(all.end(), written.begin(), written.end());
  const std::string before = tokenizer.decode(prompt, formats::SpecialTokens::keep);
  const std::string whole = tokenizer.decode(all, formats::SpecialTokens::keep);
  return whole.starts_with(before) ? whole.substr(before.size())
                                   : tokenizer.decode(written, formats::SpecialTokens::keep);
}

}  // namespace

std::vector<SampleScore> written_samples(const model::Model& model, const tasks::Task& task,
                                         std::span<const Sample> samples, model::AllRan& kernels,
                                         model::Backend backend, protocol::Progress& progress) {
  OfOneSample within(progress);
  std::vector<SampleScore> scores;
  for (const Sample& sample : samples) {
    const auto done = static_cast<double>(scores.size());
    progress.progress(done / static_cast<double>(samples.size()),
                      "writing answer " + std::to_string(scores.size() + 1) + " of " +
                          std::to_string(samples.size()));
    analysis::Text prompt;
    prompt.ids = prompt_of(as_ids(task, sample, model.tokenizer.get()));
    analysis::GenerateOptions options{.tokens = task.info().written, .backend = backend};
    options.extend = true;
    const auto result = analysis::generate(model, prompt, options, within);
    kernels.insert(result.provenance.ran.begin(), result.provenance.ran.end());
    const tasks::Written found =
        task.written(sample, text_behind(*model.tokenizer, prompt.ids, result.ids));
    scores.push_back({.correct = found.begins ? 1 : 0,
                      .counted = 1,
                      .depth = task.depth(sample),
                      .contained = found.contains});
  }
  return scores;
}

}  // namespace phasescope::training
