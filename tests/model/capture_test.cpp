#include "model/capture.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "formats/error.h"
#include "golden.h"
#include "model/checkpoints/check.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"
#include "tests/model/open_error.h"

namespace phasescope::model {
namespace {

std::string error_of(const Decoder& decoder, const at::Tensor& ids, const CaptureSpec& spec) {
  try {
    capture(decoder, ids, spec);
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_usage");
    return error.full_text();
  }
  return {};
}

TEST(Capture, GivesEveryNameItsShape) {
  ModelConfig config = tiny_config("rope");
  config.heads = 4;
  config.kv_heads = 2;
  const auto model = random_model(config, 1);
  const Captured captured =
      capture(model->decoder, random_ids(2, 11, config.vocab_size), {.what = capture_kinds()});
  const std::map<std::string, std::vector<std::int64_t>> shapes = {
      {"logits", {2, 11, 29}},
      {"hidden.0", {2, 11, 24}},
      {"hidden.1", {2, 11, 24}},
      {"hidden.2", {2, 11, 24}},
      {"hidden.last_layer_out", {2, 11, 24}},
      {"position.0", {2, 4, 11, 2, 4}},
      {"position.1", {2, 4, 11, 2, 4}},
      {"position.2", {2, 4, 11, 2, 4}},
      {"attn.0", {2, 4, 11, 11}},
      {"scores.0", {2, 4, 11, 11}},
      {"content.0", {2, 4, 11, 11}},
      {"positional.0", {2, 4, 11, 11}},
      {"q.0", {2, 4, 11, 8}},
      {"k.0", {2, 2, 11, 8}},
      {"v.0", {2, 2, 11, 8}},
      {"q.0.rotated", {2, 4, 11, 8}},
      {"k.0.rotated", {2, 2, 11, 8}},
      {"lse.0", {2, 4, 11}},
      {"entropy.0", {2, 4, 11}},
  };
  for (const auto& [name, shape] : shapes) {
    ASSERT_TRUE(captured.tensors.contains(name)) << name;
    EXPECT_EQ(captured.tensors.at(name).sizes(), at::IntArrayRef(shape)) << name;
  }
  // 8 that are not by layer, 11 for each of two layers.
  EXPECT_EQ(captured.tensors.size(), 8u + 2 * 11u);
  EXPECT_TRUE(captured.notes.empty());
}

TEST(Capture, RangesAreTheSameEntries) {
  const auto model = random_model(tiny_config("kerple_log"), 1);
  const at::Tensor ids = random_ids(1, 11, 29);
  const Captured whole = capture(model->decoder, ids, {.what = capture_kinds()});
  CaptureSpec spec{.what = capture_kinds()};
  spec.layers = {1};
  spec.heads = {0, 2};
  spec.rows = Range{4, 7};
  spec.columns = Range{1, 6};
  const Captured part = capture(model->decoder, ids, spec);
  const auto two_heads = [](const at::Tensor& x) {
    return at::cat({x.slice(1, 0, 1), x.slice(1, 2, 3)}, 1);
  };
  EXPECT_FALSE(part.tensors.contains("attn.0"));
  // Products of other sizes may sum in another order: float32 rounding.
  EXPECT_LT(relative_error(part.tensors.at("attn.1"),
                           two_heads(whole.tensors.at("attn.1")).slice(2, 4, 7).slice(3, 1, 6)),
            1e-5);
  EXPECT_LT(relative_error(part.tensors.at("logits"), whole.tensors.at("logits").slice(1, 4, 7)),
            1e-5);
  EXPECT_LT(relative_error(part.tensors.at("k.1"), whole.tensors.at("k.1").slice(2, 1, 6)), 1e-5);
  // No state to capture: said, not invented.
  EXPECT_EQ(whole.notes.size(), 1u);
  EXPECT_FALSE(whole.tensors.contains("position.0"));
}

// What is captured beside a tensor changes no bit of it, and plain parts add up bit for bit.
TEST(Capture, PartsOfScoresAreTheSameAloneAndTogether) {
  const std::vector<std::string> kinds{"scores", "content", "positional"};
  for (const auto dtype : {at::kFloat, at::kDouble}) {  // the kernel's, and by plain operations
    for (const char* encoding : {"alibi", "rope", "cape"}) {
      const auto model = random_model(tiny_config(encoding), 1, dtype);
      const at::Tensor ids = random_ids(2, 11, 29);
      const auto captured = [&](const std::vector<std::string>& what) {
        return capture(model->decoder, ids, {.what = what}).tensors;
      };
      const auto together = captured(kinds);
      for (const std::string& one : kinds) {
        EXPECT_TRUE(together.at(one + ".1").equal(captured({one}).at(one + ".1")))
            << encoding << " " << one;
      }
      if (dtype == at::kFloat) continue;
      const at::Tensor sum = together.at("scores.1") - together.at("content.1");
      EXPECT_TRUE(sum.equal(together.at("positional.1"))) << encoding;
    }
  }
}

TEST(Capture, RefusesWhatIsTooLargeWithWhatWouldFit) {
  const auto model = random_model(tiny_config("rope"), 1);
  const at::Tensor ids = random_ids(1, 64, 29);
  CaptureSpec spec{.what = {"attn"}};
  spec.limit_bytes = 3 * 64 * 64 * 4;  // one layer's
  EXPECT_NE(error_of(model->decoder, ids, spec).find("--layers with at most 1"), std::string::npos);
  spec.limit_bytes /= 4;
  const std::string text = error_of(model->decoder, ids, spec);
  EXPECT_NE(text.find("--rows 0:16"), std::string::npos) << text;
}

TEST(Capture, RefusesUnknownNamesAndRanges) {
  const auto model = random_model(tiny_config("rope"), 1);
  const at::Tensor ids = random_ids(1, 8, 29);
  EXPECT_NE(error_of(model->decoder, ids, {.what = {"atn"}}).find("near: attn"), std::string::npos);
  EXPECT_FALSE(error_of(model->decoder, ids, {.what = {"attn.2"}}).empty());
  EXPECT_FALSE(error_of(model->decoder, ids, {.what = {"attn"}, .rows = Range{3, 9}}).empty());
  EXPECT_FALSE(error_of(model->decoder, ids, {.what = {"attn"}, .heads = {{3}}}).empty());
  EXPECT_FALSE(error_of(model->decoder, ids, {.what = {}}).empty());
}

// 17.A7: what none of the captured tensors has is refused, and what one of them has is taken.
TEST(Capture, RefusesChoicesThatNothingHas) {
  const auto model = random_model(tiny_config("rope"), 1);
  const at::Tensor ids = random_ids(1, 8, 29);
  const Range some{2, 5};
  const std::vector<std::int64_t> one{1};
  const std::vector<std::pair<CaptureSpec, const char*>> refused{
      {{.what = {"logits"}, .layers = one}, "--layers"},
      {{.what = {"attn.1"}, .layers = one}, "--layers"},
      {{.what = {"logits"}, .heads = one}, "--heads"},
      {{.what = {"hidden"}, .heads = one}, "--heads"},
      {{.what = {"k", "v.0"}, .rows = some}, "--rows"},
      {{.what = {"logits", "hidden.0"}, .columns = some}, "--cols"}};
  for (const auto& [spec, option] : refused) {
    EXPECT_NE(error_of(model->decoder, ids, spec).find(option), std::string::npos) << option;
  }
  const std::vector<CaptureSpec> taken{{.what = {"hidden"}, .layers = one},
                                       {.what = {"logits", "q"}, .layers = one},
                                       {.what = {"attn.1"}, .heads = one},
                                       {.what = {"position"}, .heads = one},
                                       {.what = {"k", "hidden.1"}, .rows = some},
                                       {.what = {"hidden.last_layer_out"}, .rows = some},
                                       {.what = {"logits", "v.1"}, .columns = some},
                                       {.what = {"scores.0"}, .columns = some}};
  for (const CaptureSpec& spec : taken) EXPECT_EQ(error_of(model->decoder, ids, spec), "");
}

// Weights of one stack of a small T5 by transformers: no other stack's tensors beside them, and the
// ranges are those of its own queries, keys and layers (the encoder reads 37 tokens in 2 layers,
// the decoder 21 in 3).
TEST(Capture, OfAnEncoderDecoderOneStackIsChosen) {
  const std::string expected = "hf/models/t5/expected.safetensors";
  const auto model = open_model(golden("hf/models/t5").string());
  ForwardOptions options;
  options.decoder_ids = golden_tensor(expected, "decoder_input_ids");
  const at::Tensor ids = golden_tensor(expected, "input_ids");
  struct Stack {
    const char* name;
    std::int64_t layers, queries, keys;
  };
  for (const Stack& of : {Stack{"enc", 2, 37, 37}, {"dec", 3, 21, 21}, {"cross", 3, 21, 37}}) {
    const CaptureSpec last{.what = {"attn", "q", "k"},
                           .stack = of.name,
                           .layers = {{of.layers - 1}},
                           .rows = Range{of.queries - 4, of.queries},
                           .columns = Range{1, of.keys}};
    const Captured captured = capture(model->decoder, ids, last, options);
    const auto named = [&](const char* kind) {
      return std::string(of.name) + "." + kind + "." + std::to_string(of.layers - 1);
    };
    ASSERT_EQ(captured.tensors.size(), 3U) << of.name;
    EXPECT_EQ(captured.tensors.at(named("q")).size(2), 4);
    EXPECT_EQ(captured.tensors.at(named("k")).size(2), of.keys - 1);
    const at::Tensor whole = golden_tensor(expected, named("attn"));
    // Sums of float32 products in another order than theirs.
    EXPECT_LT(relative_error(captured.tensors.at(named("attn")),
                             whole.slice(2, of.queries - 4, of.queries).slice(3, 1, of.keys)),
              1e-5)
        << of.name;
    CaptureSpec beyond = last;
    beyond.rows = Range{0, of.queries + 1};
    EXPECT_THROW(capture(model->decoder, ids, beyond, options), formats::Error) << of.name;
    beyond = last, beyond.layers = {{of.layers}};
    EXPECT_THROW(capture(model->decoder, ids, beyond, options), formats::Error) << of.name;
  }
  // Without one, of all.
  EXPECT_EQ(capture(model->decoder, ids, {.what = {"q"}}, options).tensors.size(), 8U);
  EXPECT_NE(error_of(model->decoder, ids, {.what = {"q"}, .stack = "encoder"}).find("--stack"),
            std::string::npos);
  EXPECT_NE(error_of(model->decoder, ids, {.what = {"logits"}, .stack = "enc"}).find("--stack"),
            std::string::npos);
  EXPECT_NE(error_of(model->decoder, ids, {.what = {"hidden"}, .stack = "cross"}).find("--stack"),
            std::string::npos);
}

// A reference that differs must fail, one with names nobody knows must say so.
TEST(Check, FailsForWrongNumbersAndListsWhatItLeavesOut) {
  TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "reference.safetensors";
  const std::string llama = golden("hf/models/llama").string();
  const std::string expected = "hf/models/llama/expected.safetensors";
  at::Tensor logits = golden_tensor(expected, "logits").clone();
  const at::Tensor ids = golden_tensor(expected, "input_ids");
  at::Tensor mask = at::ones_like(ids);
  const auto run = [&] {
    write_tensors(formats::real_file_system(), file,
                  {{"input_ids", ids},
                   {"logits", logits},
                   {"surplus", at::ones({2})},
                   {"n9.logits", logits},
                   {"pad.input_ids", ids},
                   {"pad.attention_mask", mask},
                   {"pad.logits", logits}});
    return check_against(llama, file);
  };
  const ReferenceCheck good = run();
  EXPECT_TRUE(good.passed);
  EXPECT_EQ(good.compared.size(), 2u);
  EXPECT_EQ(good.not_compared.size(), 2u);
  mask.narrow(1, 3, 2).zero_();
  EXPECT_FALSE(run().passed);
  mask.fill_(1);
  logits[0][3][5] += 1e-3 * logits.abs().max();
  EXPECT_FALSE(run().passed);
  logits[0][3][5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(run().passed);
  logits = logits.slice(2, 0, 100).contiguous();
  EXPECT_FALSE(run().passed);
}

// "w.NAME" is a weight of the model, as exact as float32 is.
TEST(Check, HoldsWeightsByTheirNames) {
  const std::string llama = golden("hf/models/llama").string();
  TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "reference.safetensors";
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  at::Tensor weight = golden_tensor("hf/models/llama/model.safetensors", name).clone();
  const auto run = [&](const std::string& as) {
    write_tensors(formats::real_file_system(), file, {{"w." + as, weight}});
    return check_against(llama, file);
  };
  EXPECT_TRUE(run(name).passed);
  ASSERT_EQ(run(name).compared.size(), 1u);
  EXPECT_EQ(run(name).compared[0].error, 0);
  EXPECT_EQ(run("model.layers.0.self_attn.qkv_proj.weight").not_compared.size(), 1u);
  weight[1][2] += 1e-5 * weight.abs().max();
  EXPECT_FALSE(run(name).passed);
  weight = weight.slice(0, 1).contiguous();
  EXPECT_FALSE(run(name).passed);
  EXPECT_NE(run(name).compared[0].why.find("the shape is"), std::string::npos);
}

// The reference's own loss is what float32 is granted, and no part of the error.
TEST(Check, MeasuresFloat32AgainstTheFloat64OfTheFile) {
  TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "reference.safetensors";
  const std::string expected = "hf/models/llama/expected.safetensors";
  const at::Tensor exact = golden_tensor(expected, "logits_f64");
  at::Tensor rounded = exact.to(at::kFloat);
  rounded[0][3][5] += 4e-5 * rounded.abs().max();
  write_tensors(formats::real_file_system(), file,
                {{"input_ids", golden_tensor(expected, "input_ids")},
                 {"logits", rounded},
                 {"logits_f64", exact}});
  const ReferenceCheck check = check_against(golden("hf/models/llama").string(), file);
  EXPECT_TRUE(check.passed);
  ASSERT_EQ(check.compared.size(), 2u);
  for (const TensorComparison& c : check.compared) {
    EXPECT_LT(c.error, 1e-5) << c.name;  // four times less than the reference is off
    if (c.name == "logits") {
      EXPECT_NEAR(c.tolerance, 12e-5, 1e-5);
    }
  }
}

// about.json beside a reference may say how much of its weights and hidden states float32 has lost.
TEST(Check, AllowsWhatTheReferenceRecordedOfItsOwnLoss) {
  TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "reference.safetensors";
  const std::string expected = "hf/models/llama/expected.safetensors";
  at::Tensor weights = golden_tensor(expected, "attn.1").clone();
  weights[0][0][5][2] += 6e-5;  // more than 1e-5
  write_tensors(formats::real_file_system(), file,
                {{"input_ids", golden_tensor(expected, "input_ids")}, {"attn.1", weights}});
  const auto passes_with = [&](const char* about) {
    write_text(folder.path() / "about.json", about);
    return check_against(golden("hf/models/llama").string(), file).passed;
  };
  EXPECT_FALSE(passes_with("no JSON"));
  EXPECT_FALSE(passes_with("[]"));
  EXPECT_FALSE(passes_with(R"({"figures": {"max_abs_attn_f32_minus_f64": 1e-6}})"));
  EXPECT_FALSE(passes_with(R"({"figures": {"max_abs_hidden_f32_minus_f64": 1e-3}})"));
  EXPECT_FALSE(passes_with(R"({"long.figures": {"max_abs_attn_f32_minus_f64": 1e-3}})"));
  EXPECT_TRUE(passes_with(R"({"figures": {"max_abs_attn_f32_minus_f64": 3e-5}})"));
  // Three times the loss from the exact weights, which the rounded ones are off by it once more.
  EXPECT_FALSE(passes_with(R"({"figures": {"max_abs_attn_f32_minus_f64": 1.4e-5}})"));
  EXPECT_TRUE(passes_with(R"({"figures": {"max_abs_attn_f32_minus_f64": 1.6e-5}})"));
}

}  // namespace
}  // namespace phasescope::model
