#include "tasks/text_task.h"

#include "formats/error.h"
#include "formats/sha256.h"

namespace phasescope::tasks {

std::vector<std::string> text_predictions(const std::vector<Sample>& samples, const Json& given) {
  auto predictions = given.at("predictions").get<std::vector<std::string>>();
  if (predictions.size() != samples.size()) {
    throw formats::bad_input("a metric has not as many predictions as rows", "predictions");
  }
  return predictions;
}

void put_prompt(Json& row, const std::string& prompt) {
  row["input"] = prompt;
  row["input_sha256"] = formats::sha256_hex(std::string_view(prompt));
  row["characters"] = prompt.size();
}

}  // namespace phasescope::tasks
