// Progress of requests about several models: over all of them from 0 to 1, and never back.
#include <algorithm>

#include "tests/worker/model_requests.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

// Two models and a text; the models are not open yet, so that opening them is part of it.
json two_models() {
  return {{"models",
           {model_folder("rope_of_progress", byte_config("rope")),
            model_folder("tape_of_progress", byte_config("tape"))}},
          {"input", {{"prompt", "Thirty bytes of text and some more, to be read twice"}}}};
}

// Of all that a request has said.
void expect_rising(const FakeContext& context) {
  ASSERT_EQ(context.fractions.size(), context.said.size());
  double last = 0;
  for (std::size_t n = 0; n < context.fractions.size(); ++n) {
    if (context.fractions[n] < 0) continue;  // unknown
    // The end of one part and the begin of the next are rounded apart.
    EXPECT_GE(context.fractions[n], last - 1e-14) << n << ": " << context.said[n];
    last = std::max(last, context.fractions[n]);
  }
  // The second model has said more than that its half begins.
  EXPECT_GT(last, 0.5);
  EXPECT_LE(last, 1 + 1e-14);
}

TEST(ProgressRequests, OfSeveralModelsNeverFall) {
  for (const std::string method : {"distance", "shift", "theory"}) {
    SCOPED_TRACE(method);
    json params = two_models();
    if (method == "distance") params["pairs"] = 100;
    if (method == "shift") params["by"] = {1, 3};
    if (method == "theory") params["check"] = "tape.permutation";
    FakeContext context;
    ask(method, params, context);
    expect_rising(context);
  }
}

// Of one text, whose pass is kept by the worker, and of two.
TEST(ProgressRequests, OfPatternsBesideOthersNeverFall) {
  const json one = {{"ids", {1, 2, 3, 4, 5, 6}}}, two = {{"ids", {{1, 2, 3, 4}, {5, 6, 7, 8}}}};
  for (const json& input : {one, two}) {
    SCOPED_TRACE(input.dump());
    const std::string tape = model_folder("tape_of_progress", byte_config("tape"));
    FakeContext context;
    ask("model.info", {{"model", tape}}, context);  // opening it is no part of what is measured
    context.fractions.clear(), context.said.clear();
    ask("patterns",
        {{"model", tape},
         {"against", model_folder("rope_of_progress", byte_config("rope"))},
         {"queries", {1, 3}},
         {"input", input}},
        context);
    expect_rising(context);
  }
}

}  // namespace
}  // namespace phasescope::worker
