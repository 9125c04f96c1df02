// Biases, and corrections that read the scores of all heads, against the public modules and float64
// references.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "../golden.h"
#include "../layer_case.h"
#include "formats/json.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

std::string file_of(const std::string& module) { return "papers/dape/" + module + ".safetensors"; }

// A public module's q, k and v at both of its lengths.
void expect_module(const std::string& name, const ModelConfig& config,
                   const Parameters& parameters) {
  const std::string file = file_of(name);
  expect_layer(config, parameters, file, "n17.", "n17.scores", "n17.out",
               recorded_loss(name.c_str(), "n17"));
  expect_layer(config, parameters, file, "n33.", "n33.scores_f64", "n33.out",
               recorded_loss(name.c_str(), "n33"));
}

Parameters fire_parameters(const std::string& file) {
  return {{"fire.0.weight", golden_tensor(file, "w.mlp.0.weight")},
          {"fire.0.bias", golden_tensor(file, "w.mlp.0.bias")},
          {"fire.2.weight", golden_tensor(file, "w.mlp.2.weight")},
          {"fire.2.bias", golden_tensor(file, "w.mlp.2.bias")},
          {"c", golden_tensor(file, "w.c")},
          {"L_multiplier", golden_tensor(file, "w.L_multiplier")},
          {"init_L", golden_tensor(file, "w.init_L")}};
}

Parameters kerple_parameters(const std::string& file) {
  return {{"p", golden_tensor(file, "w.bias_p").flatten()},
          {"a", golden_tensor(file, "w.bias_a").flatten()}};
}

Parameters both(Parameters a, const Parameters& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// The first is always here; the others where the references beside the project are.
std::vector<std::string> modules_here(std::vector<std::string> names) {
  std::erase_if(names, [&](const std::string& name) {
    return name != names.front() && golden(file_of(name)).empty();
  });
  return names;
}

TEST(Biases, AgreeWithThePublicModules) {
  if (golden(file_of("alibi")).empty()) GTEST_SKIP() << "its files are not here";
  expect_module("alibi", layer_config("alibi", Json::object(), 12, 8), {});
  expect_module("kerple_log", layer_config("kerple_log", Json::object(), 8, 8),
                kerple_parameters(file_of("kerple_log")));
}

TEST(Fire, AgreesWithThePublicModules) {
  for (const std::string& name : modules_here({"fire", "neox_fire"})) {
    expect_module(name, layer_config("fire", Json::object(), 8, 8), fire_parameters(file_of(name)));
  }
}

TEST(Fire, AgreesWithTheReferenceBelowAndPastItsThreshold) {
  const std::string file = "papers/reference/biases.safetensors";
  const Json cases = formats::json_from_file(golden("papers/reference/cases.json"));
  int compared = 0, tables = 0;
  for (const Json& item : cases.at("biases").at("fire")) {
    const std::string name = "fire." + item.at("name").get<std::string>();
    const at::Tensor expected = golden_tensor(file, name);  // (H, N, N)
    const bool leaky = item.at("leak").get<double>() > 0;
    const Json options = {{"threshold", item.at("L")},
                          {"hidden", golden_tensor(file, "fire.b1").size(0)},
                          {"activation", leaky ? "leaky_relu" : "relu"}};
    const auto encoding = make_encoding(layer_config("fire", options, expected.size(0), 8));
    const Parameters parameters = {
        {"fire.0.weight", golden_tensor(file, "fire.w1")},
        {"fire.0.bias", golden_tensor(file, "fire.b1")},
        {"fire.2.weight", golden_tensor(file, "fire.w2")},
        {"fire.2.bias", golden_tensor(file, "fire.b2")},
        {"c", golden_tensor(file, "fire.c").squeeze()},
        {"L_multiplier", at::full({}, item.at("L_multiplier").get<double>(), at::kDouble)}};
    const std::int64_t n = expected.size(1);
    const at::Tensor ids = at::arange(n, at::kLong);
    TermRegion region;
    region.content = at::zeros({1, expected.size(0), n, n}, at::kDouble);
    region.query_id = ids.view({1, n, 1});
    region.key_id = ids.view({1, 1, n});
    EXPECT_LT(
        noted("fire", file, "f64", relative_error(encoding->bias(parameters, region)[0], expected)),
        1e-12)
        << name;
    // Below its threshold it is a table of distances; what attention adds is the same.
    PositionState state;
    state.positions.length = n;
    const at::Tensor q = at::zeros({1, expected.size(0), n, 8}, at::kDouble);
    const AttentionProgram program = encoding->program(parameters, q, q, state);
    const double threshold =
        std::abs(item.at("L").get<double>() * item.at("L_multiplier").get<double>());
    const bool below = static_cast<double>(n - 1) < threshold;
    tables += below ? 1 : 0;
    EXPECT_TRUE(below ? program.is<TableProgram>() : program.is<FireProgram>()) << name;
    const at::Tensor scores = plain_scores(program, {0, expected.size(0)}, {0, n}, {0, n})[0];
    EXPECT_LT(relative_error(causal_part(scores), causal_part(expected)), 1e-12) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 3);
  EXPECT_GT(tables, 0);
  EXPECT_LT(tables, 3);
}

TEST(Cape, AgreesWithThePublicModulesOverFire) {
  for (const std::string& name : modules_here({"fire_dape", "neox_fire_c"})) {
    const std::string file = file_of(name);
    expect_module(name, layer_config("cape", {{"base", "fire"}}, 8, 8),
                  both(fire_parameters(file), correction(file, "w.mlp2.")));
  }
}

TEST(Cape, AgreesWithThePublicModulesOfOtherWidths) {
  const std::string file = file_of("kerple_log_dape_w16");
  if (golden(file).empty()) GTEST_SKIP() << "its files are not here";
  expect_module("kerple_log_dape_w16", layer_config("cape", {{"hidden", 16}}, 8, 8),
                both(kerple_parameters(file), correction(file, "w.mlp2.")));
}

// The second one stands behind RoPE, which its q and k have been through.
TEST(Cape, AgreesWithThePublicModulesWithoutABias) {
  for (const std::string& name : modules_here({"neox_nope_c", "neox_dapev1"})) {
    expect_module(name, layer_config("cape", {{"form", "content"}}, 8, 8),
                  correction(file_of(name), "w.mlp2."));
  }
}

TEST(Cape, RotatesFirstWhereAsked) {
  const std::string file = file_of("neox_nope_c");
  const Parameters parameters = correction(file, "w.mlp2.");
  const at::Tensor q = golden_tensor(file, "n33.q").to(at::kDouble);
  const at::Tensor k = golden_tensor(file, "n33.k").to(at::kDouble);
  const at::Tensor z = rotation_state(at::arange(33, at::kDouble),
                                      rope_frequencies(10000.0, 8, at::kDouble), at::kDouble);
  const Json content = {{"form", "content"}};
  const Json rotating = {{"form", "content"}, {"rotate", true}};
  const Layer ours =
      layer_of(layer_config("cape", rotating, 8, 8), parameters, q, k, q, at::kDouble);
  const Layer theirs =
      layer_of(layer_config("cape", content, 8, 8), parameters, rotate(q, z, RotationLayout::half),
               rotate(k, z, RotationLayout::half), q, at::kDouble);
  EXPECT_LT(relative_error(all_scores(ours), all_scores(theirs)), 1e-14);
}

TEST(Cape, AgreesWithThePublicModulesThatReadNeighbours) {
  for (const std::string base : {"alibi", "kerple", "fire"}) {
    const std::string name = "neox_" + base + "_dapev2";
    const std::string file = file_of(name);
    if (golden(file).empty() && base != "fire") continue;  // that one is always here
    Parameters parameters = correction(file, "w.mlp2.");
    if (base == "kerple") parameters = both(parameters, kerple_parameters(file));
    if (base == "fire") parameters = both(parameters, fire_parameters(file));
    const Json options = {{"form", "conv"}, {"base", base == "kerple" ? "kerple_log" : base}};
    expect_module(name, layer_config("cape", options, 8, 8), parameters);
  }
}

TEST(Cope, AgreesWithThePublicModule) {
  const std::string file = file_of("neox_cope");
  const at::Tensor vectors = golden_tensor(file, "w.pos_emb").squeeze(0);
  expect_module("neox_cope", layer_config("cope", {{"positions", vectors.size(1)}}, 8, 8),
                {{"pos_emb", vectors}});
}

TEST(Kerple, PowerIsTheReferencesAtAllDistances) {
  const std::string file = "papers/reference/biases.safetensors";
  const at::Tensor distance = golden_tensor(file, "kerple.distance").to(at::kLong);
  Parameters parameters = {{"p", golden_tensor(file, "kerple.p").clone()},
                           {"a", golden_tensor(file, "kerple.a_power").clone()}};
  const auto encoding = make_encoding(layer_config("kerple_power", Json::object(), 4, 8));
  const at::Tensor table =
      encoding->bias_table(parameters, distance.max().item<std::int64_t>() + 1, at::kDouble);
  const at::Tensor expected = golden_tensor(file, "kerple.power");
  EXPECT_LT(
      noted("kerple_power", file, "f64", relative_error(table.index_select(1, distance), expected)),
      1e-13);
  encoding->constrain(parameters);
  EXPECT_GE(parameters["p"].min().item<double>(), 0.01);
}

// Buckets of distances 400..-400, from a table whose entries are their own numbers.
TEST(T5, BucketsAreTheReferencesOnBothSides) {
  const std::string file = "papers/reference/biases.safetensors";
  const at::Tensor relative = golden_tensor(file, "t5.relative");  // key - query
  for (const auto& [name, buckets, far] :
       {std::tuple<std::string, int, int>{"bidirectional.32.128", 32, 128},
        {"causal.32.128", 32, 128},
        {"bidirectional.16.48", 16, 48},
        {"causal.16.48", 16, 48},
        {"causal.32.64", 32, 64}}) {
    ModelConfig config = layer_config(
        "t5", {{"buckets", buckets}, {"max_distance", far}, {"tables", "layer"}}, 1, 8);
    config.attention.causal = name.starts_with("causal");
    const at::Tensor x = at::zeros({1, 401, 8});
    const Parameters parameters = {{"table", at::arange(buckets, at::kDouble).unsqueeze(1)}};
    const Layer layer = layer_of(config, parameters, x, x, x, at::kDouble);
    const TableProgram& table = *layer.program.as<TableProgram>();
    at::Tensor expected = golden_tensor(file, "t5." + name);
    at::Tensor index = -relative - table.first_distance;
    if (config.attention.causal) {
      index = index.slice(0, 0, 401);
      expected = expected.slice(0, 0, 401);
    }
    EXPECT_TRUE(table.values[0].index_select(0, index).equal(expected.to(at::kDouble))) << name;
  }
}

}  // namespace
}  // namespace phasescope::model
