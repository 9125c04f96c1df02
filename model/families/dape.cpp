#include "model/families/dape.h"

#include <ATen/ATen.h>

#include <utility>

#include "formats/utf8.h"

namespace phasescope::model {
namespace {

// Values of pos_emb with a module of their own.
struct PositionModule {
  const char* pos_emb;
  const char* module;
  const char* encoding;
  Json options;
};

const std::vector<PositionModule>& position_modules() {
  const Json none = Json::object();
  const auto cape = [](const char* base, const char* form) {
    return Json{{"base", base}, {"form", form}};
  };
  static const std::vector<PositionModule> list = {
      {"none", "", "none", none},
      {"alibi", "alibi_embed", "alibi", none},
      {"kerple", "kerple", "kerple_log", none},
      {"fire", "fire", "fire", none},
      {"alibi_c", "alibi_c_embed", "cape", cape("alibi", "concat_residual")},
      {"kerple_c", "kerple_c", "cape", cape("kerple_log", "concat_residual")},
      {"fire_c", "fire_c", "cape", cape("fire", "concat_residual")},
      {"nope_c", "nope_c", "cape", {{"form", "content"}}},
      {"rope_dapev1", "dapev1", "cape", {{"form", "content"}, {"rotate", true}}},
      {"alibi_dapev2", "alibi_dapev2", "cape", cape("alibi", "conv")},
      {"kerple_dapev2", "kerple_dapev2", "cape", cape("kerple_log", "conv")},
      {"fire_dapev2", "fire_dapev2", "cape", cape("fire", "conv")},
      {"cope", "cope", "cope", none},
  };
  return list;
}

// Values of pos_emb that the public code has and that are not read, with the reason.
constexpr std::pair<const char*, const char*> kNotRead[] = {
    {"rope_dapev2", "the public code itself cannot run it"},
    {"xl_bias", "there is no reference to hold a reading of it against"},
    {"nope_c_ffn", "there is no reference to hold a reading of it against"},
    {"rotary_mlp", "there is no reference to hold a reading of it against"},
    {"learned", "its table stands outside the position modules, and there is no reference of it"},
    {"sinusoidal", "its sines and cosines stand in halves, and there is no reference of it"},
};

std::string why_not_read(const std::string& named) {
  for (const auto& [name, why] : kNotRead) {
    if (named == name) return std::string(": ") + why;
  }
  return "";
}

// One width for FIRE's own network and the correction's; FIRE's threshold is half of the length of
// its noise.
Json options_of(const PositionModule& module, const formats::ConfigReader& reader,
                const FamilyInput& input) {
  Json options = module.options;
  const std::int64_t width = reader.integer_or({"mlp_width"}, 32, formats::kCountRange);
  const double threshold =
      static_cast<double>(reader.integer_or({"noise_seq_length"}, 128, formats::kCountRange) / 2);
  if (module.encoding == std::string("cape")) options["hidden"] = width;
  if (module.encoding == std::string("fire")) options["hidden"] = width;
  if (module.encoding == std::string("fire")) options["threshold"] = threshold;
  if (module.options.value("base", "") == "fire") {
    options["base_hidden"] = width;
    options["base_threshold"] = threshold;
  }
  if (module.encoding == std::string("cope")) {
    for (const formats::TensorEntry& entry : input.tensors) {
      if (entry.name.ends_with(".cope.pos_emb") && entry.shape.size() == 3) {
        options["positions"] = entry.shape[2];
      }
    }
  }
  return options;
}

at::Tensor flat(const at::Tensor& x) { return x.flatten(); }
at::Tensor without_batch(const at::Tensor& x) { return x.squeeze(0); }

// Endings of a module's tensors, and of their canonical names.
struct Ending {
  const char* theirs;
  const char* ours;
  at::Tensor (*convert)(const at::Tensor&) = nullptr;
};
constexpr Ending kEndings[] = {
    {"mlp.0.weight", "fire.0.weight"},
    {"mlp.0.bias", "fire.0.bias"},
    {"mlp.2.weight", "fire.2.weight"},
    {"mlp.2.bias", "fire.2.bias"},
    {"mlp2.0.weight", "mlp.0.weight"},
    {"mlp2.0.bias", "mlp.0.bias"},
    {"mlp2.2.weight", "mlp.2.weight"},
    {"mlp2.2.bias", "mlp.2.bias"},
    {"c", "c"},
    {"L_multiplier", "L_multiplier"},
    {"init_L", "init_L"},
    {"slopes", "slopes"},
    {"bias_p", "p", &flat},
    {"bias_a", "a", &flat},
    {"pos_emb", "pos_emb", &without_batch},
};

}  // namespace

std::optional<EncodingConfig> read_dape(FamilyReader& reading, const FamilyInput& input,
                                        std::string& module) {
  const formats::ConfigReader& reader = reading.reader();
  const std::string named = reader.text_or({"pos_emb"}, "rotary");
  if (reader.boolean_or({"apply_query_key_layer_scaling"}, false)) {
    reading.config().attention.layer_gain = true;
    reading.quirk(
        "query-key layer scaling: layer n's q.k is divided by max(1, n) before the bias reads it, "
        "and "
        "the score multiplied by it afterwards");
  }
  if (named == "rotary") return std::nullopt;
  std::string known = "rotary";
  for (const PositionModule& candidate : position_modules()) {
    known += std::string(", ") + candidate.pos_emb;
    if (named != candidate.pos_emb) continue;
    module = candidate.module;
    if (named == "rope_dapev1" && (reader.number_or({"rotary_pct"}, 1.0) != 1.0 ||
                                   reader.number_or({"rotary_emb_base"}, 10000.0) != 10000.0)) {
      reading.problem("rotary_pct",
                      "under rope_dapev1 whole heads can be turned alone, with the base 10000");
    }
    return EncodingConfig{candidate.encoding, options_of(candidate, reader, input)};
  }
  reading.problem("pos_emb", formats::in_quotes(named) + " cannot be read" + why_not_read(named) +
                                 "; known: " + known);
  return std::nullopt;
}

TensorPlace dape_place(const NameParts& name, const std::string& module) {
  const std::string start = "attention." + module;
  if (module.empty() || name.layer.empty()) return {};
  const std::string full = name.module + name.ending;
  if (!full.starts_with(start + ".")) return {};
  const std::string rest = full.substr(start.size() + 1);
  for (const Ending& ending : kEndings) {
    if (rest == ending.theirs) {
      return {.name = name.layer + "encoding." + ending.ours, .convert = ending.convert};
    }
  }
  return {};
}

}  // namespace phasescope::model
