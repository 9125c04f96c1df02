// Maps: the means along their edges, and what is refused.
#include "analysis/map.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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
      options.head = {"L0H1"};
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
  options.head = {"L0H1"};
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

// Of heads of any layers, each once: against the mean of the maps of each, in float64.
TEST(Map, OfSeveralHeadsIsTheirMean) {
  const Passes passes = passes_for(small_model("rope"), 1, 24);
  const auto map_of = [&](std::vector<std::string> heads, const std::string& of,
                          const std::string& pool) {
    protocol::MapRequest options;
    options.head = std::move(heads), options.of = of, options.pool = pool;
    options.size = {12, 24};
    return analyse_map(*passes[0], options);
  };
  for (const std::string of : {"weight", "score"}) {
    for (const std::string pool : {"mean", "max"}) {
      // Twice named is once counted.
      const auto mean = map_of({"L1", "L0H1", "L1H0"}, of, pool);
      EXPECT_EQ(mean.result.head, -1);
      EXPECT_EQ(mean.result.heads, (std::vector<std::string>{"L1", "L0H1", "L1H0"}));
      const std::int64_t heads = small_model("rope")->config().heads;
      std::vector<MapOutput> single = {map_of({"L0H1"}, of, pool)};
      for (std::int64_t head = 0; head < heads; ++head) {
        single.push_back(map_of({"L1H" + std::to_string(head)}, of, pool));
      }
      for (std::size_t tensor = 0; tensor < 3; ++tensor) {
        const auto got = mean.tensors[tensor].values<float>();
        for (std::size_t i = 0; i < got.size(); ++i) {
          double sum = 0;
          for (const MapOutput& one : single) sum += one.tensors[tensor].values<float>()[i];
          const double want = sum / static_cast<double>(single.size());
          if (std::isinf(want)) {
            EXPECT_EQ(got[i], kMasked);
          } else {
            // Both are rounded to float32, and so is each of the maps.
            EXPECT_NEAR(got[i], want, 1e-6 * std::max(1.0, std::abs(want))) << tensor << ' ' << i;
          }
        }
      }
    }
  }
  // One that was named alone is no mean of several.
  EXPECT_TRUE(map_of({"L0H1"}, "weight", "mean").result.heads.empty());
}

// Layers that see different pairs: what one of them hides is a weight of 0 there, so that the sum
// of a row stays 1; a score that is none in one layer is none in the mean.
TEST(Map, OfLayersWithDifferentWindowsStillSumsToOne) {
  model::ModelConfig config = small_config("rope");
  config.attention.window = 5, config.attention.local_layers = {0};
  const auto passes = passes_for(model::random_model(config, 2), 1, 24);
  protocol::MapRequest options;
  options.head = {"L0H1", "L1H0"}, options.size = {24, 24};
  const MapOutput weights = analyse_map(*passes[0], options);
  const auto cells = weights.tensors[0].values<float>();
  for (std::size_t q = 0; q < 24; ++q) {
    double sum = 0;
    for (std::size_t k = 0; k < 24; ++k) {
      EXPECT_EQ(cells[q * 24 + k] == kMasked, k > q) << q << ' ' << k;
      if (k <= q) sum += cells[q * 24 + k];
    }
    EXPECT_NEAR(sum, 1, 1e-5) << q;  // 24 weights of float32, with the kernel's own rounding
  }
  options.of = "score";
  const MapOutput of_scores = analyse_map(*passes[0], options);
  const auto scores = of_scores.tensors[0].values<float>();
  for (std::size_t q = 0; q < 24; ++q) {
    for (std::size_t k = 0; k < 24; ++k) {
      EXPECT_EQ(scores[q * 24 + k] == kMasked, k > q || q - k >= 5) << q << ' ' << k;
    }
  }
}

TEST(Map, RefusesWhatIsNotThere) {
  const Passes passes = passes_for(small_model("rope"), 1, 16);
  protocol::MapRequest options;
  EXPECT_THROW(parse_head("3"), formats::Error);
  EXPECT_THROW(parse_head("L1H"), formats::Error);
  EXPECT_EQ(parse_head("L3").head, -1);
  options.head = {"L1H7"};
  EXPECT_THROW(analyse_map(*passes[0], options), formats::Error);
  options.head = {"L0H0", "L0H7"};
  EXPECT_THROW(analyse_map(*passes[0], options), formats::Error);
  options.head = {};
  EXPECT_THROW(analyse_map(*passes[0], options), formats::Error);
  options.head = {"L0"};
  options.rows = protocol::Range{4, 99};
  EXPECT_THROW(analyse_map(*passes[0], options), formats::Error);
  options.rows.reset();
  options.top = 2;  // of no single head
  EXPECT_THROW(analyse_map(*passes[0], options), formats::Error);
  options.head = {"L0H1", "L1H1"};
  EXPECT_THROW(analyse_map(*passes[0], options), formats::Error);
  options.head = {"L0H1"};
  EXPECT_NO_THROW(analyse_map(*passes[0], options));
  for (const std::int64_t top : {-1, 65}) {
    options.top = top;
    EXPECT_THROW(analyse_map(*passes[0], options), formats::Error) << top;
  }
}

}  // namespace
}  // namespace phasescope::analysis
