// What a shift of all position ids does to the logits, measured for every encoding of the registry.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iomanip>
#include <set>
#include <sstream>

#include "../golden.h"
#include "formats/error.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::model {
namespace {

struct Row {
  std::string name, encoding;
  Json options;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

// What each of them does under a shift of all position ids is what the encoding itself declares
// (Encoding::under_shift); here it is measured. An encoding's first row stands for all of its
// options' choices that have no row of their own.
std::vector<Row> named_rows() {
  const Json none = Json::object();
  return {
      {"none", "none", none},
      {"rope", "rope", none},
      {"rope_linear", "rope", {{"scaling", "linear"}, {"factor", 2.0}}},
      {"rope_ntk", "rope", {{"scaling", "ntk"}, {"factor", 2.0}}},
      {"rope_dynamic", "rope", {{"scaling", "dynamic"}, {"factor", 2.0}}},
      {"rope_yarn", "rope", {{"scaling", "yarn"}, {"factor", 2.0}}},
      {"rope_partial", "rope", {{"partial_rotary_factor", 0.5}}},
      {"xpos", "xpos", none},
      {"randomized_rope", "randomized_rope", none},
      {"randomized_rope_drawn", "randomized_rope", {{"draw", "layer"}}},
      {"shaw", "shaw", none},
      {"transformer_xl", "transformer_xl", none},
      {"alibi", "alibi", none},
      {"kerple_log", "kerple_log", none},
      {"kerple_power", "kerple_power", none},
      {"t5", "t5", none},
      {"cape_alibi", "cape", {{"base", "alibi"}}},
      {"cape_kerple", "cape", {{"base", "kerple_log"}}},
      {"cape_content", "cape", {{"form", "content"}}},
      {"cape_rotated", "cape", {{"form", "content"}, {"rotate", true}}},
      {"cape_conv", "cape", {{"form", "conv"}}},
      {"cope", "cope", none},
      {"tape", "tape", none},
      {"tape_attention_only", "tape", {{"contextualize", "attention_only"}}},
      {"tape_mlp_only", "tape", {{"contextualize", "mlp_only"}}},
      {"tape_yarn", "tape", {{"scaling", "yarn"}, {"factor", 2.0}}},
      {"tapa", "tapa", none},
      {"ape_sequence", "ape_sequence", none},
      {"ape_periodic", "ape_periodic", none},
      {"sinusoidal", "sinusoidal", none},
      {"sinusoidal_2d", "sinusoidal_2d", none},
      // Its normaliser reads the query's position once that is past the threshold.
      {"fire", "fire", {{"threshold", 8.0}}},
      {"cape_fire", "cape", {{"base", "fire"}}},
      {"tape_without_equivariance", "tape", {{"equivariance", false}}},
      // A shift turns the vectors of a plane alike, which leaves their products; a column has none.
      {"tape_L1R4", "tape", {{"tensor_form", "L1R4"}}},
      {"tape_L4R1", "tape", {{"tensor_form", "L4R1"}}},
      {"tape_adatensor", "tape", {{"tensor_form", "adatensor"}}},
      {"tape_adavector", "tape", {{"tensor_form", "adavector"}}},
      {"ape_grid", "ape_grid", {{"columns", 7}}},  // 1000 is no whole number of rows
      {"ape_tree", "ape_tree", none},              // other ids are other nodes
      // Each key's part of the bias is rounded by itself, as Falcon does.
      {"alibi_bfloat16", "alibi", {{"rounding", "bfloat16"}}},
      {"learned", "learned", none},
      {"rope_nope", "rope_nope", {{"nope_every", 2}}},
      {"rope_nope_temperature",
       "rope_nope",
       {{"nope_every", 2}, {"temperature", 0.5}, {"temperature_length", 3.0}}},
      {"fox", "fox", none},
      {"fox_rotated", "fox", {{"rotate", true}}},
      // Two frequencies at least, or their product is a turn by the distance.
      {"fope", "fope", {{"base", 10.0}}},
      {"pope", "pope", none},
      {"repo", "repo", none},
      {"selective_rope", "selective_rope", none},
      {"relative_logits", "relative_logits", none},
      {"liere", "liere", none},
      {"liere_grid", "liere", {{"columns", 7}}},
      {"path", "path", none},
      {"stick_breaking", "stick_breaking", none},
      {"rope_fewer_planes", "rope", {{"turning_planes", 0.5}}},
      {"rope_learned_angles", "rope", {{"stored_angles", true}}},
      {"formula", "formula", none},
      {"imported", "imported", none},
      {"tape_circuit", "tape_circuit", none},
      {"formula_of_places", "formula", {{"expression", "score = content + sin(i + 2*j)"}}},
  };
}

// With a row for every choice of every option in the registry.
std::vector<Row> rows() {
  std::vector<Row> list = named_rows();
  std::set<std::pair<std::string, std::string>> there;
  for (const Row& row : list) {
    for (const auto& [key, value] : row.options.items()) {
      there.insert({row.encoding + "." + key, value.dump()});
    }
  }
  for (const EncodingEntry& entry : encodings()) {
    const std::string& encoding = entry.info->key;
    const auto first = std::find_if(list.begin(), list.end(),
                                    [&](const Row& row) { return row.encoding == encoding; });
    if (first == list.end()) continue;  // HasEveryEncoding says so
    const Row plain = *first;
    for (const OptionInfo& option : entry.info->options) {
      for (const std::string& choice : option.choices) {
        if (option.fallback == choice) continue;
        if (there.contains({encoding + "." + option.key, Json(choice).dump()})) continue;
        Row row = plain;
        row.name = encoding + "_" + option.key + "_" + choice;
        row.options[option.key] = choice;
        if (option.key == "scaling") row.options["factor"] = 2.0;
        list.push_back(row);
      }
    }
  }
  return list;
}

// Random everywhere: at their own initialisation some updates are zero and would hide.
std::shared_ptr<const Model> random_everywhere(const Row& row) {
  const ModelConfig config = tiny_config(row.encoding, row.options);
  const std::unique_ptr<Encoding> encoding = make_encoding(config);
  Weights weights = converted(init_weights(config, *encoding, 3), at::kDouble);
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(11);
  for (LayerWeights& layer : weights.layers) {
    for (auto& [name, tensor] : layer.encoding) {
      if (tensor.dim() > 1) tensor = at::empty_like(tensor).normal_(0, 0.3, generator);
    }
  }
  return model_of(config, weights, row.name);
}

double change_under(const Model& model, std::int64_t shift) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(1, 23, model.config().vocab_size);
  return relative_error(model.decoder.forward(ids, {.shift = shift}), model.decoder.forward(ids));
}

class ShiftTable : public testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Encodings, ShiftTable, testing::ValuesIn(rows()),
                         [](const auto& info) { return info.param.name; });

TEST_P(ShiftTable, IsAsExpected) {
  const Row& row = GetParam();
  const auto model = random_everywhere(row);
  const std::string key = "shift|" + row.encoding + "|" + row.name;
  const UnderShift declared = model->encoding().under_shift();
  EXPECT_FALSE(declared.why.empty());
  if (declared.kind == UnderShift::Kind::refused) {
    RecordProperty(key, "refused");
    EXPECT_THROW(change_under(*model, 1000), formats::Error);
    EXPECT_GT(change_under(*model, 5), 1e-3);
    return;
  }
  const double change = change_under(*model, 1000);
  std::ostringstream text;
  text << std::setprecision(2) << change;
  RecordProperty(key, text.str());  // docs/parity.md has the table
  if (declared.kind == UnderShift::Kind::stays) {
    EXPECT_LT(change, 1e-10);
  } else {
    EXPECT_GT(change, 1e-3);
  }
}

TEST(ShiftTable, HasEveryEncoding) {
  std::set<std::string> there;
  for (const Row& row : named_rows()) there.insert(row.encoding);
  for (const EncodingEntry& entry : encodings()) {
    EXPECT_TRUE(there.contains(entry.info->key)) << entry.info->key;
  }
}

TEST(ShiftTable, FireStaysBelowItsThresholdAndAGridByWholeRows) {
  EXPECT_LT(change_under(*random_everywhere({"fire", "fire", {{"threshold", 2000.0}}}), 1000),
            1e-12);
  EXPECT_LT(change_under(*random_everywhere({"grid", "ape_grid", {{"columns", 7}}}), 1001), 1e-10);
}

}  // namespace
}  // namespace phasescope::model
