#include "tasks/classes.h"

namespace phasescope::tasks {

Json accuracy_of_classes(const std::vector<Sample>& samples, const Json& given) {
  const auto predictions = given.at("predictions").get<Ids>();
  Score all;
  for (std::size_t n = 0; n < samples.size(); ++n) {
    all.correct += score_of(samples[n], {predictions.at(n)}).correct;
  }
  all.counted = static_cast<std::int64_t>(samples.size());
  return {{"correct", all.correct}, {"counted", all.counted}, {"accuracy", all.share()}};
}

}  // namespace phasescope::tasks
