// Maps: the means along their edges, and what is refused.
#include "analysis/map.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "analysis/tensors.h"
#include "formats/error.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::Passes;
using testing::passes_for;
using testing::small_config;
using testing::small_model;
using testing::weights_of;

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Profiles are means over the pairs that the model lets be seen, whichever those are.
TEST(Map, ProfilesCountThePairsThatAreSeen) {
  for (const bool causal : {true, false}) {
    for (const std::int64_t window : {0, 5}) {
      model::ModelConfig config = small_config("rope");
      config.attention.causal = causal;
      config.attention.window = window;
      if (window > 0) config.attention.local_layers = {0};
      const auto passes = passes_for(model::random_model(config, 2), 1, 24);
      protocol::MapRequest options;
      options.head = "L0H1";
      options.size = {24, 24};
      const auto out = analyse_map(*passes[0], options);
      const at::Tensor weights = weights_of(*passes[0], 0)[1].to(at::kDouble);
      at::Tensor seen = at::ones({24, 24}, at::kDouble);
      if (causal) seen = seen.tril();
      if (window > 0) seen = seen.tril(window - 1).triu(1 - window);
      for (const std::size_t n : {1u, 2u}) {  // over keys, over queries
        const auto across = static_cast<std::int64_t>(2 - n);
        const auto expected = to_vector<float>(weights.sum(across) / seen.sum(across));
        const auto got = out.tensors[n].values<float>();
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_NEAR(got[i], expected[i], 1e-5) << causal << ' ' << window << ' ' << n << ' ' << i;
        }
      }
    }
  }
}

// Padding is a mask too.
TEST(Map, ProfilesCountNoPadding) {
  const auto model = model::random_model(small_config("alibi"), 2);
  model::ForwardOptions padded;
  padded.key_mask = (at::arange(24) < 20).unsqueeze(0);
  TextPass pass(model, ids_tensor(random_texts(1, 24, model->config().vocab_size, 5).items[0].ids),
                padded, std::int64_t{1} << 30);
  protocol::MapRequest options;
  options.head = "L0H1";
  options.size = {24, 24};
  const auto out = analyse_map(pass, options);
  const auto by_query = out.tensors[1].values<float>(), by_key = out.tensors[2].values<float>();
  // A row's weights sum to 1 over the keys up to its own that are no padding.
  for (std::size_t q = 0; q < 24; ++q) {
    EXPECT_NEAR(by_query[q], 1.0 / static_cast<double>(std::min<std::size_t>(q + 1, 20)), 1e-6)
        << q;
  }
  const at::Tensor weights = weights_of(pass, 0)[1].to(at::kDouble);
  for (std::int64_t k = 0; k < 24; ++k) {
    const float got = by_key[static_cast<std::size_t>(k)];
    if (k >= 20) {
      EXPECT_EQ(got, kMasked) << k;
    } else {
      const double sum = weights.select(1, k).sum().item<double>();
      EXPECT_NEAR(got, sum / static_cast<double>(24 - k), 1e-6) << k;
    }
  }
}

TEST(Map, RefusesWhatIsNotThere) {
  const Passes passes = passes_for(small_model("rope"), 1, 16);
  protocol::MapRequest options;
  EXPECT_THROW(parse_head("3"), formats::Error);
  EXPECT_THROW(parse_head("L1H"), formats::Error);
  EXPECT_EQ(parse_head("L3").head, -1);
  options.head = "L1H7";
  EXPECT_THROW(analyse_map(*passes[0], options), formats::Error);
  options.head = "L0";
  options.rows = protocol::Range{4, 99};
  EXPECT_THROW(analyse_map(*passes[0], options), formats::Error);
  options.rows.reset();
  options.top = 2;  // of no single head
  EXPECT_THROW(analyse_map(*passes[0], options), formats::Error);
  options.head = "L0H1";
  EXPECT_NO_THROW(analyse_map(*passes[0], options));
  for (const std::int64_t top : {-1, 65}) {
    options.top = top;
    EXPECT_THROW(analyse_map(*passes[0], options), formats::Error) << top;
  }
}

}  // namespace
}  // namespace phasescope::analysis
