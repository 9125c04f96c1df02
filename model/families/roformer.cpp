#include "model/families/roformer.h"

#include "model/families/bert.h"

namespace phasescope::model {
namespace roformer {
namespace {

bool claims(const FamilyInput& input) {
  return input.config.value("model_type", Json()) == "roformer";
}

TensorPlace place(bool own_bias, const std::string& name) {
  if (name.ends_with("encoder.embed_positions.weight")) return {"model.encoding.table"};
  return bert_place(own_bias, name);
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "roformer");
  read_bert(reading, 1536);
  ModelConfig& config = reading.config();
  const std::int64_t embedded =
      reading.reader().integer_or({"embedding_size"}, config.width, formats::kCountRange);
  if (embedded != config.width) {
    reading.problem("embedding_size",
                    "an embedding of another width than hidden_size cannot be "
                    "read yet");
  }
  Json options = {{"layout", "interleaved"},
                  {"rotate_values", reading.reader().boolean_or({"rotary_value"}, false)}};
  if (reading.has_tensor("encoder.embed_positions.weight")) {
    options["table_rows"] = config.context;
    reading.quirk("the stored float32 table of sines and cosines is used in every dtype");
  }
  config.encoding = {"rope", options};
  const bool own_bias = has_own_head_bias(reading);
  return reading.finish([own_bias](const std::string& name) { return place(own_bias, name); });
}

}  // namespace
}  // namespace roformer

Family roformer_family() { return {"roformer", &roformer::claims, &roformer::translate}; }

}  // namespace phasescope::model
