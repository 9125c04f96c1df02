#include "tasks/perplexity.h"

#include <algorithm>
#include <cmath>

#include "formats/error.h"

namespace phasescope::tasks {

Json perplexity_of(const std::vector<Sample>& samples, const Json& given) {
  const auto nats = given.at("nats").get<std::vector<std::vector<double>>>();
  if (nats.size() != samples.size()) {
    throw formats::bad_input("a metric has not as many rows of nats as rows", "nats");
  }
  std::size_t longest = 0, tokens = 0;
  for (const auto& row : nats) longest = std::max(longest, row.size());
  std::int64_t shorter = 0;
  double sum = 0;
  for (std::size_t n = 0; n < nats.size(); ++n) {
    if (nats[n].size() != samples[n].target.size()) {
      throw formats::bad_input("a row of nats is not as long as its target", "nats");
    }
    shorter += nats[n].size() < longest ? 1 : 0;
    tokens += nats[n].size();
    for (const double one : nats[n]) sum += one;
  }
  const auto counted = static_cast<double>(tokens);
  return {{"tokens", tokens},
          {"shorter_rows", shorter},
          {"perplexity", std::exp(sum / counted)},
          {"public_code_perplexity", std::exp(sum / (counted + static_cast<double>(shorter)))}};
}

}  // namespace phasescope::tasks
