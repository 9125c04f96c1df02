// The parts of an encoder-decoder: maps and statistics of encoder self-attention, decoder
// self-attention and cross attention against transformers' weights of a small T5.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/heads.h"
#include "analysis/map.h"
#include "analysis/query_rows.h"
#include "analysis/tensors.h"
#include "analysis/text_pass.h"
#include "formats/error.h"
#include "formats/tensors/safetensors.h"
#include "golden_tape.h"
#include "model/checkpoints/tensor_io.h"
#include "tests/golden_folder.h"

namespace phasescope::analysis {
namespace {

// Sums of float32 products in another order than theirs.
constexpr double kRounding = 2e-6;

struct Part {
  const char* name;
  std::int64_t layers, queries, keys;
};
constexpr Part kParts[] = {{"enc", 2, 37, 37}, {"dec", 3, 21, 21}, {"cross", 3, 21, 37}};

at::Tensor expected(const std::string& name) {
  const auto file =
      formats::SafetensorsFile::open(golden_path("hf/models/t5/expected.safetensors"));
  const formats::TensorEntry* entry = file.find(name);
  if (entry == nullptr) throw formats::bad_input("the reference has no " + name);
  return model::read_tensor(file, *entry);
}

// (queries, keys) of a head on the first text.
at::Tensor expected_weights(const Part& part, std::int64_t layer, std::int64_t head) {
  return expected(std::string(part.name) + ".attn." + std::to_string(layer))[0][head];
}

std::shared_ptr<TextPass> t5_pass(at::ScalarType dtype = at::kFloat,
                                  std::int64_t keep_bytes = std::int64_t{1} << 30,
                                  std::int64_t text = 0) {
  static const auto model = model::open_model(golden_path("hf/models/t5").string());
  model::ForwardOptions options;
  options.decoder_ids = expected("decoder_input_ids").narrow(0, text, 1);
  return std::make_shared<TextPass>(model::in_dtype(model, dtype),
                                    expected("input_ids").narrow(0, text, 1), options, keep_bytes);
}

TEST(Stacks, MapsAreThoseOfTheReference) {
  for (const std::int64_t keep : {std::int64_t{0}, std::int64_t{1} << 30}) {
    const auto pass = t5_pass(at::kFloat, keep);
    for (const Part& part : kParts) {
      for (std::int64_t layer = 0; layer < part.layers; ++layer) {
        protocol::MapRequest options;
        options.head = {std::string(part.name) + ".L" + std::to_string(layer) + "H1"};
        const MapOutput out = analyse_map(*pass, options);
        EXPECT_EQ(out.result.stack, part.name);
        EXPECT_EQ(out.result.tokens, part.queries);
        EXPECT_EQ(out.result.keys, part.keys);
        EXPECT_EQ(out.result.row_end, part.queries);
        EXPECT_EQ(out.result.column_end, part.keys);
        const auto reference = to_vector<float>(expected_weights(part, layer, 1));
        const auto cells = out.tensors[0].values<float>();
        ASSERT_EQ(cells.size(), reference.size());
        for (std::size_t n = 0; n < cells.size(); ++n) {
          const double cell = std::isinf(cells[n]) ? 0 : cells[n];  // masked
          EXPECT_NEAR(cell, reference[n], kRounding) << part.name << ' ' << layer << ' ' << n;
        }
      }
    }
  }
}

TEST(Stacks, ARowOfAQueryIsThatOfTheReference) {
  constexpr std::int64_t kQuery = 9;
  for (const std::int64_t keep : {std::int64_t{0}, std::int64_t{1} << 30}) {
    const auto pass = t5_pass(at::kFloat, keep);
    for (const Part& part : kParts) {
      const QueryOutput out = analyse_query(*pass, {.stack = part.name, .query = kQuery});
      EXPECT_EQ(out.result.stack, part.name);
      EXPECT_EQ(out.result.tokens, part.queries);
      EXPECT_EQ(out.result.keys, part.keys);
      EXPECT_EQ(out.result.width, part.keys);
      const auto cells = out.tensors.at(0).values<float>();
      ASSERT_EQ(static_cast<std::int64_t>(cells.size()),
                part.layers * out.result.heads * part.keys);
      std::size_t n = 0;
      for (std::int64_t layer = 0; layer < part.layers; ++layer) {
        for (std::int64_t head = 0; head < out.result.heads; ++head) {
          for (const float want : to_vector<float>(expected_weights(part, layer, head)[kQuery])) {
            const double cell = std::isinf(cells[n]) ? 0 : cells[n];  // masked
            EXPECT_NEAR(cell, want, kRounding) << part.name << ' ' << layer << ' ' << head;
            ++n;
          }
        }
      }
    }
  }
}

// Seven rows of cells, of three queries each.
TEST(Stacks, CrossAttentionIsPooledOverItsKeys) {
  const auto pass = t5_pass();
  protocol::MapRequest options;
  options.head = {"cross.L2H0"};
  options.size = {7, 37};
  const auto pooled = analyse_map(*pass, options);
  const at::Tensor reference = expected_weights(kParts[2], 2, 0).unflatten(0, {7, 3}).mean(1);
  const auto want = to_vector<float>(reference);
  const auto cells = pooled.tensors[0].values<float>();
  ASSERT_EQ(cells.size(), want.size());
  for (std::size_t n = 0; n < cells.size(); ++n) EXPECT_NEAR(cells[n], want[n], kRounding) << n;
  // No pair is masked, so that a profile is the plain mean.
  const auto profile = pooled.tensors[2].values<float>();
  const auto means = to_vector<float>(expected_weights(kParts[2], 2, 0).mean(0));
  ASSERT_EQ(profile.size(), means.size());
  for (std::size_t n = 0; n < means.size(); ++n) EXPECT_NEAR(profile[n], means[n], kRounding) << n;
}

// A head without a part is the decoder's, and the result says so.
TEST(Stacks, TheDecoderIsTheDefault) {
  const auto pass = t5_pass();
  protocol::MapRequest options;
  options.head = {"L1H2"};
  const auto plain = analyse_map(*pass, options);
  options.head = {"dec.L1H2"};
  const auto named = analyse_map(*pass, options);
  options.head = {"L1H2", "enc.L1H2"};  // of different queries
  EXPECT_THROW(analyse_map(*pass, options), formats::Error);
  EXPECT_EQ(plain.result.stack, "dec");
  const auto a = plain.tensors[0].values<float>(), b = named.tensors[0].values<float>();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
}

TEST(Stacks, HeadsAreThoseOfTheReference) {
  protocol::NoProgress progress;
  for (const Part& part : kParts) {
    HeadsOptions options;
    options.stack = part.name;
    options.thumbnails = 8;
    options.metrics = {"entropy", "sink", "js_divergence"};
    const HeadsOutput out = analyse_heads({t5_pass()}, options, progress);
    EXPECT_EQ(out.result.stack, part.name);
    EXPECT_EQ(out.result.layers, part.layers);
    ASSERT_EQ(out.result.rows.size(), static_cast<std::size_t>(3 * part.layers));
    ASSERT_NE(protocol::find_tensor(out.tensors, "thumbnails"), nullptr);
    EXPECT_EQ(protocol::find_tensor(out.tensors, "thumbnails")->shape,
              (std::vector<std::int64_t>{part.layers, 3, 8, 8}));
    for (const protocol::HeadRow& row : out.result.rows) {
      const at::Tensor a = expected_weights(part, row.layer, row.head).to(at::kDouble);
      const std::int64_t first =
          part.name == std::string("dec") ? 1 : 0;  // row 0 has one key there
      const double entropy = -at::xlogy(a, a).sum(1).slice(0, first).mean().item<double>();
      EXPECT_NEAR(row.values.at("entropy").mean, entropy, 20 * kRounding) << part.name;
      EXPECT_NEAR(row.values.at("sink").mean, a.select(1, 0).mean().item<double>(), kRounding);
      EXPECT_TRUE(std::isfinite(row.values.at("js_divergence").mean)) << part.name;
    }
  }
}

// Jensen and Shannon's divergence of every row of every head on one text and on another.
TEST(Stacks, EveryStackIsCompared) {
  protocol::NoProgress progress;
  for (const Part& part : kParts) {
    const auto result =
        analyse_compare({t5_pass()}, {t5_pass(at::kFloat, std::int64_t{1} << 30, 1)}, progress,
                        {.stack = part.name});
    EXPECT_EQ(result.stack, part.name);
    ASSERT_EQ(result.heads.size(), static_cast<std::size_t>(3 * part.layers));
    for (const protocol::HeadDivergence& head : result.heads) {
      const at::Tensor all =
          expected(std::string(part.name) + ".attn." + std::to_string(head.layer)).to(at::kDouble);
      const at::Tensor a = all[0][head.head], b = all[1][head.head], m = (a + b) / 2;
      const at::Tensor rows = (at::xlogy(a, a) + at::xlogy(b, b) - 2 * at::xlogy(m, m)).sum(1) / 2;
      EXPECT_NEAR(head.js_divergence, rows.mean().item<double>(), 20 * kRounding)
          << part.name << ' ' << head.layer << ' ' << head.head;
    }
  }
}

// What is no stack, and stacks whose rows are over other keys.
TEST(Stacks, WhatCannotBeComparedIsSaid) {
  const auto refusal = [](const std::string& b, const std::string& stack) -> std::string {
    protocol::NoProgress progress;
    const at::Tensor ids = ids_tensor(std::vector<std::int64_t>{1, 2, 3});
    const auto single = std::make_shared<TextPass>(testing::small_model(b), ids);
    try {
      analyse_compare({t5_pass()}, {single}, progress, {.stack = stack});
    } catch (const formats::Error& error) {
      return error.full_text();
    }
    return "";
  };
  EXPECT_NE(refusal("rope", "cross").find("attends to its encoder's tokens"), std::string::npos);
  EXPECT_NE(refusal("rope", "enc").find("sees both ways"), std::string::npos);
  EXPECT_NE(refusal("rope", "mid").find("enc, dec or cross"), std::string::npos);
}

// Only the decoder's own attention has distances to tokens before the query.
TEST(Stacks, DistancesAreOfTheDecoderAlone) {
  protocol::NoProgress progress;
  for (const Part& part : kParts) {
    HeadsOptions options;
    options.stack = part.name;
    const HeadsOutput out = analyse_heads({t5_pass()}, options, progress);
    EXPECT_EQ(out.result.rows[0].values.contains("mean_distance"), part.name == std::string("dec"));
    EXPECT_TRUE(out.result.rows[0].values.contains("top1_mass"));
  }
}

TEST(Stacks, WhatIsNotThereIsSaid) {
  const auto refusal = [](TextPass& pass, const std::string& head) -> std::string {
    try {
      protocol::MapRequest options;
      options.head = {head};
      analyse_map(pass, options);
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_usage");
      return error.full_text();
    }
    return "";
  };
  const auto says = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const auto pass = t5_pass();
  EXPECT_TRUE(says(refusal(*pass, "enc.L2H0"), "there is no layer 2; the encoder of"));
  EXPECT_TRUE(says(refusal(*pass, "cross.L3H0"), "there is no layer 3"));
  EXPECT_TRUE(says(refusal(*pass, "mid.L0H0"), "enc, dec or cross"));
  EXPECT_FALSE(refusal(*pass, ".L0H0").empty());
  EXPECT_FALSE(refusal(*pass, "enc.").empty());
  TextPass single(testing::small_model("rope"), ids_tensor(std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_TRUE(says(refusal(single, "enc.L0H0"), "one stack of layers"));
  EXPECT_EQ(refusal(single, "L0H0"), "");
}

// Cells of a float64 model are float64: equal to the weights of the same model in more digits than
// float32 has.
TEST(Stacks, MapsOfFloat64ModelsAreFloat64) {
  const auto pass = t5_pass(at::kDouble);
  protocol::MapRequest options;
  options.head = {"enc.L1H0"};
  const auto out = analyse_map(*pass, options);
  const AttentionPointer layer = pass->layer(1, Stack::encoder);
  const auto weights = to_vector<double>(layer->weights(layer->whole())[0][0]);
  for (const protocol::TensorRef& tensor : out.tensors) EXPECT_EQ(tensor.dtype, "F64");
  const auto cells = out.tensors[0].values<double>();
  ASSERT_EQ(cells.size(), weights.size());
  for (std::size_t n = 0; n < weights.size(); ++n) EXPECT_NEAR(cells[n], weights[n], 1e-14);
}

}  // namespace
}  // namespace phasescope::analysis
