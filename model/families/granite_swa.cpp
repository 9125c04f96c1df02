#include "model/families/granite_swa.h"

#include <map>
#include <utility>

#include "model/families/family_reader.h"
#include "model/families/granite.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace granite_swa {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"granite_swa"}); }

bool but_every_fourth_from_first(std::int64_t layer, std::int64_t) { return layer % 4 != 0; }

// A base for each layer, 0 for one that turns nothing; they override rope_theta.
void read_bases(FamilyReader& reading) {
  ModelConfig& config = reading.config();
  const auto bases = reading.reader().numbers({"layer_rope_theta"}, {.min = 0});
  if (!bases) return;
  if (static_cast<std::int64_t>(bases->size()) != config.layers) {
    return reading.problem("layer_rope_theta", "has " + std::to_string(bases->size()) +
                                                   " entries, but there are " +
                                                   std::to_string(config.layers) + " layers");
  }
  std::map<double, std::vector<std::int64_t>> by_base;
  for (std::size_t layer = 0; layer < bases->size(); ++layer) {
    by_base[(*bases)[layer]].push_back(static_cast<std::int64_t>(layer));
  }
  for (const auto& [base, layers] : by_base) {
    if (base == 0) {
      reading.take_rope_off(layers);
    } else if (base != config.encoding.options.at("base").get<double>()) {
      EncodingConfig own = config.encoding;
      own.options["base"] = base;
      config.layer_groups.push_back({.layers = layers, .encoding = std::move(own)});
    }
  }
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "granite_swa");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 4, .context = 8192}, 1e-5);
  read_granite(reading);
  config.attention.window = reader.integer_or({"sliding_window"}, 128, formats::kCountRange);
  reading.read_local_layers(&but_every_fourth_from_first, 0);
  config.attention.sink_layers = all_layers(config);
  reading.read_head("lm_head.weight", true);
  reading.read_rope(kWholeHeads, "half");
  read_bases(reading);
  return reading.finish(&llama_place);
}

}  // namespace
}  // namespace granite_swa

Family granite_swa_family() {
  return {"granite_swa", &granite_swa::claims, &granite_swa::translate};
}

}  // namespace phasescope::model
