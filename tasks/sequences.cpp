#include "tasks/sequences.h"

#include <cmath>
#include <utility>

#include "formats/error.h"
#include "tasks/perplexity.h"

namespace phasescope::tasks {
namespace {

constexpr std::int64_t kSos = 0, kEos = 21, kVocabulary = 22;
constexpr std::int64_t kFramedSymbols = 20, kBareSymbols = 19;

class SequenceTask : public Task {
 public:
  explicit SequenceTask(const SequenceRule& rule) : rule_(rule) {
    info_.key = std::string("seq_") + rule.name;
    info_.aliases = {rule.name};
    info_.title = rule.title;
    info_.help = rule.help;
    info_.source = "APE (arXiv 2312.16045) Table 1; code of konstantinosKokos/ape";
    info_.differs = std::string(
                        "the public metric counts one free position for each row shorter than its "
                        "batch, this one none") +
                    (rule.framed ? ""
                                 : "; there is neither [SOS] nor [EOS], so the first symbol "
                                   "is given and 19 symbols are used");
    info_.form = Form::encoder_decoder;
    info_.input_symbols = info_.output_symbols = kVocabulary;
    info_.padding = kSos;
    info_.length_unit = "symbols";
    info_.longest = 4096;
    info_.trained = "N(100, 10)";
    info_.tested = "N(100, 10)";
    info_.metric = "perplexity";
  }
  const TaskInfo& info() const override { return info_; }

  Sample drawn(const Ids& length, Random& random) const override {
    Ids input;
    if (rule_.framed) input.push_back(kSos);
    for (std::int64_t n = 0; n < length[0]; ++n) input.push_back(1 + random.below(symbols()));
    if (rule_.framed) input.push_back(kEos);
    return sample_of(std::move(input));
  }

  Sample again(const Json& row) const override {
    Ids input = row.at("encoder_input").get<Ids>();
    if (input.empty()) throw formats::bad_input("an example has no input", info_.key);
    return sample_of(std::move(input));
  }

  Json row(const Sample& sample) const override {
    return {{"length", sample.length[0]},
            {"encoder_input", sample.input},
            {"decoder", rule_.output(sample.input)},
            {"decoder_input", sample.decoder_input},
            {"target", sample.target},
            {"counts", sample.counts}};
  }

  Json metric(const std::vector<Sample>& samples, const Json& given) const override {
    return perplexity_of(samples, given);
  }

  Chance chance(const Ids& length) const override {
    const auto n = static_cast<double>(length[0]);
    const auto known = static_cast<double>(symbols());
    return {static_cast<double>(kVocabulary), rule_.framed ? std::pow(known, n / (n + 1)) : known,
            rule_.framed ? "20 symbols, and [EOS] known from the length" : "19 symbols"};
  }

  std::string input_symbol(std::int64_t id) const override {
    if (id == kSos) return "[SOS]";
    return id == kEos ? "[EOS]" : std::to_string(id);
  }

 private:
  std::int64_t symbols() const { return rule_.framed ? kFramedSymbols : kBareSymbols; }

  // The decoder reads all but the last and answers all but the first.
  Sample sample_of(Ids input) const {
    Sample sample;
    const Ids output = rule_.output(input);
    sample.decoder_input.assign(output.begin(), output.end() - 1);
    sample.target.assign(output.begin() + 1, output.end());
    sample.counts.assign(sample.target.size(), 1);
    sample.length = {static_cast<std::int64_t>(input.size()) - (rule_.framed ? 2 : 0)};
    sample.input = std::move(input);
    return sample;
  }

  SequenceRule rule_;
  TaskInfo info_;
};

}  // namespace

std::unique_ptr<Task> sequence_task(const SequenceRule& rule) {
  return std::make_unique<SequenceTask>(rule);
}

}  // namespace phasescope::tasks
