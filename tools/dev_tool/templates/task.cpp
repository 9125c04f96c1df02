#include "formats/error.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

constexpr std::int64_t kNewNameSymbols = 2;

// Write me: what is drawn, what is asked.
class NewName : public Task {
 public:
  NewName() {
    info_ = {.key = "NEW_NAME",
             .title = "NEW_NAME",
             .help = "write me",
             .source = "write me: paper and equation",
             .input_symbols = kNewNameSymbols,
             .output_symbols = kNewNameSymbols,
             .length_unit = "symbols",
             .longest = 4096,
             .metric = "accuracy"};
  }
  const TaskInfo& info() const override { return info_; }

  Sample drawn(const Ids& length, Random& random) const override {
    Ids input;
    for (std::int64_t n = 0; n < length[0]; ++n) input.push_back(random.below(kNewNameSymbols));
    return sample_of(std::move(input));
  }
  Sample again(const Json& row) const override { return sample_of(row.at("input").get<Ids>()); }
  Json row(const Sample& sample) const override {
    return {{"length", sample.length[0]}, {"input", sample.input}, {"target", sample.target}};
  }
  Json metric(const std::vector<Sample>&, const Json&) const override {
    throw formats::bad_input("write me: the metric of NEW_NAME");
  }
  Chance chance(const Ids&) const override {
    const double share = 1.0 / static_cast<double>(kNewNameSymbols);
    return {share, share, "write me"};
  }
  std::string input_symbol(std::int64_t id) const override { return std::to_string(id); }

 private:
  static Sample sample_of(Ids input) {
    Sample sample;
    sample.length = {static_cast<std::int64_t>(input.size())};
    sample.target = input;
    sample.counts.assign(input.size(), 1);
    sample.input = std::move(input);
    return sample;
  }

  TaskInfo info_;
};

}  // namespace

std::unique_ptr<Task> NEW_NAME() { return std::make_unique<NewName>(); }

}  // namespace phasescope::tasks
