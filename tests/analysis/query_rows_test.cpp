// One query's row of every head, against rows of maps made by plain operations.
#include "analysis/query_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "analysis/tensors.h"
#include "formats/error.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::passes_for;
using testing::small_model;
using testing::weights_of;

constexpr std::int64_t kTextTokens = 24;
// The kernels' exponentials of float32 against plain ones, as between maps and their rows
// elsewhere.
constexpr double kRowRounding = 1e-5;

// Weights of a row by plain operations; those of masked keys are 0 there.
std::vector<float> plain_row(TextPass& pass, const protocol::QueryHead& head, std::int64_t query) {
  return to_vector<float>(weights_of(pass, head.layer)[head.head][query].contiguous());
}

TEST(QueryRows, AreThoseOfTheMaps) {
  for (const char* encoding : {"rope", "alibi", "tapa"}) {
    const auto passes = passes_for(small_model(encoding), 1, kTextTokens);
    const std::int64_t query = 13;
    const QueryOutput out = analyse_query(*passes[0], {.query = query, .top = 4});
    const auto cells = out.tensors.at(0).values<float>();
    ASSERT_EQ(static_cast<std::int64_t>(out.result.rows.size()),
              out.result.layers * out.result.heads);
    for (const protocol::QueryHead& head : out.result.rows) {
      const auto row = plain_row(*passes[0], head, query);
      const auto begin = (head.layer * out.result.heads + head.head) * kTextTokens;
      for (std::int64_t key = 0; key < kTextTokens; ++key) {
        const float cell = cells[static_cast<std::size_t>(begin + key)];
        if (key > query) {
          EXPECT_TRUE(std::isinf(cell) && cell < 0) << key;
        } else {
          EXPECT_NEAR(cell, row[static_cast<std::size_t>(key)], kRowRounding)
              << encoding << ' ' << key;
        }
      }
      // The largest four, by a sort of the plain row.
      std::vector<float> sorted(row);
      std::ranges::sort(sorted, std::greater<>());
      ASSERT_EQ(head.keys.size(), 4u);
      for (std::size_t n = 0; n < 4; ++n) {
        EXPECT_NEAR(head.weights[n], sorted[n], kRowRounding);
        EXPECT_NEAR(row[static_cast<std::size_t>(head.keys[n])], head.weights[n], kRowRounding);
      }
      EXPECT_FALSE(head.sink.has_value());
    }
  }
}

// Cells of several keys have the largest weight among them.
TEST(QueryRows, ArePooledByTheLargest) {
  const auto passes = passes_for(small_model("rope"), 1, kTextTokens);
  const QueryOutput out = analyse_query(*passes[0], {.query = kTextTokens - 1, .width = 6});
  EXPECT_EQ(out.result.width, 6);
  const auto cells = out.tensors.at(0).values<float>();
  std::size_t n = 0;
  for (const protocol::QueryHead& head : out.result.rows) {
    const auto row = plain_row(*passes[0], head, kTextTokens - 1);
    for (std::size_t cell = 0; cell < 6; ++cell) {
      const auto first = row.begin() + static_cast<std::ptrdiff_t>(cell * 4);
      EXPECT_NEAR(cells[n++], *std::max_element(first, first + 4), kRowRounding);
    }
  }
}

// The first query sees one key; a text has no more queries than tokens.
TEST(QueryRows, KnowTheEndsOfTheText) {
  const auto passes = passes_for(small_model("rope"), 1, kTextTokens);
  for (const protocol::QueryHead& head : analyse_query(*passes[0], {.query = 0}).result.rows) {
    EXPECT_EQ(head.keys, (std::vector<std::int64_t>{0}));
    EXPECT_NEAR(head.weights.at(0), 1, kRowRounding);
  }
  EXPECT_EQ(analyse_query(*passes[0], {}).result.query, kTextTokens - 1);
  EXPECT_THROW(analyse_query(*passes[0], {.query = kTextTokens}), formats::Error);
  EXPECT_THROW(analyse_query(*passes[0], {.stack = "enc"}), formats::Error);
}

}  // namespace
}  // namespace phasescope::analysis
