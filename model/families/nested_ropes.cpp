// Ropes by layer type: classes that nest rope_parameters by it, some of which read older files too.
#include <string_view>

#include "formats/utf8.h"
#include "model/families/family_reader.h"

namespace phasescope::model {
namespace {

constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";

bool is_read_by_type(std::string_view key) { return key == kFull || key == kSliding; }

}  // namespace

const Json* FamilyReader::parameters_of_type(const std::string& layer_type) const {
  const Json* parameters = reader_.raw("rope_parameters");
  if (parameters == nullptr || !parameters->is_object()) return nullptr;
  const auto found = parameters->find(layer_type);
  return found == parameters->end() || found->is_null() ? nullptr : &*found;
}

formats::RawRope FamilyReader::nested_rope(const std::string& layer_type, const Json* own,
                                           formats::RopeDefaults defaults,
                                           std::optional<std::int64_t> head_dim) {
  Json alone = Json::object();
  if (own != nullptr && !own->is_object()) {
    problem("rope_parameters." + layer_type,
            "must be an object, but is " + formats::shortened(own->dump()));
  } else if (own != nullptr) {
    alone["rope_parameters"] = {{layer_type, *own}};
  }
  if (const Json* context = reader_.raw("max_position_embeddings")) {
    alone["max_position_embeddings"] = *context;
  }
  if (!known_head_dim()) head_dim.reset();
  return formats::read_rope(formats::ConfigReader(alone, problems_, reader_.prefix()), defaults,
                            layer_type, head_dim);
}

bool FamilyReader::has_layers_of(const std::string& layer_type) const {
  const ModelConfig& config = result_.config;
  const auto local = static_cast<std::int64_t>(config.attention.local_layers.size());
  return layer_type == kSliding ? local > 0 : layer_type == kFull && local < config.layers;
}

formats::RawRope FamilyReader::rope_of_type(const char* layer_type, formats::RopeDefaults defaults,
                                            std::optional<std::int64_t> head_dim, double share) {
  has_ropes_by_type_ = true;
  const Json* own = parameters_of_type(layer_type);
  const Json *parameters = reader_.raw("rope_parameters"), *scaling = reader_.raw("rope_scaling");
  if (scaling != nullptr && !scaling->empty()) {
    problem("rope_scaling",
            "is not read by this class, which has its ropes in rope_parameters, by "
            "layer type");
  }
  if (own == nullptr && parameters != nullptr && !parameters->empty() &&
      has_layers_of(layer_type)) {
    problem("rope_parameters", "has no rope for " + std::string(layer_type) +
                                   ": this class needs one for each layer type");
  }
  if (own != nullptr) {
    const Json kind = own->is_object()
                          ? own->value("rope_type", own->value("type", Json("default")))
                          : Json("default");
    defaults.partial_rotary_factor = kind == "default" ? share : 1;
    if (own->is_object() && !own->contains("rope_theta")) {
      problem("rope_parameters", "has no rope_theta for " + std::string(layer_type));
    }
  }
  return nested_rope(layer_type, own, defaults, head_dim);
}

void FamilyReader::read_ropes_by_type(double theta, double local_theta,
                                      const std::string& local_name) {
  has_ropes_by_type_ = true;
  const auto rope_of = [&](const char* layer_type, double fallback, const std::string& outside,
                           const Json* scaling) {
    const Json* nested = parameters_of_type(layer_type);
    const Json* parameters = reader_.raw("rope_parameters");
    if (nested == nullptr && parameters != nullptr && !parameters->empty()) {
      warning(
          "rope_parameters are not nested by layer type, which this class needs: it takes its "
          "defaults for " +
          std::string(layer_type));
    }
    // The class starts from this, so that an older file's `type` is not read beside it.
    Json own = nested != nullptr ? *nested : Json{{"rope_type", "default"}};
    if (scaling != nullptr && scaling->is_object() && own.is_object()) {
      if (nested != nullptr) note_scaling_clashes(layer_type, own, *scaling);
      own.update(*scaling);
    }
    formats::RopeDefaults defaults{.theta = fallback, .whole_when_default = true};
    if (!outside.empty()) {
      defaults.theta = reader_.number_or({outside}, fallback, formats::kPositiveRange);
      const bool null_base = has_key(outside) && !reader_.has(outside);
      if (null_base && own.is_object() && !own.contains("rope_theta")) {
        warning(reader_.prefix() + outside + " is null, on which transformers fails: the base is " +
                Json(fallback).dump());
      }
      const bool clash = own.is_object() && own.contains("rope_theta") && reader_.has(outside) &&
                         own["rope_theta"] != *reader_.raw(outside);
      if (clash) {
        warning("rope_theta " + own["rope_theta"].dump() + " in rope_parameters." + layer_type +
                " is taken over " + outside + " " + reader_.raw(outside)->dump() + " outside");
      }
    }
    return nested_rope(layer_type, &own, defaults, config().head_dim);
  };
  const Json* scaling = reader_.raw("rope_scaling");
  if (scaling != nullptr) (void)reader_.section("rope_scaling");  // a problem where it is no object
  set_rope(rope_of(kFull, theta, "rope_theta", scaling), "half");
  const formats::RawRope local = rope_of(kSliding, local_theta, local_name, nullptr);
  note_clashes(local);
  config().local_encoding = rope_encoding(local, "half", config().context);
}

// What rope_scaling says is taken over the same of the layers that see everything.
void FamilyReader::note_scaling_clashes(const std::string& layer_type, const Json& own,
                                        const Json& scaling) {
  for (const auto& [key, value] : scaling.items()) {
    const auto found = own.find(key);
    if (found == own.end() || *found == value) continue;
    warning(formats::shortened(key, 80) + " " + formats::shortened(value.dump(), 60) +
            " in rope_scaling is taken over " + formats::shortened(found->dump(), 60) +
            " in rope_parameters." + layer_type);
  }
}

// A rope that no layer turns by is held to the same words: a misspelt layer type would hide it.
void FamilyReader::check_other_ropes() {
  if (!has_ropes_by_type_) return;  // of a class without them the key stays unread
  const Json* parameters = reader_.raw("rope_parameters");
  if (parameters == nullptr || !parameters->is_object()) return;
  const bool nested =
      parameters_of_type(kFull) != nullptr || parameters_of_type(kSliding) != nullptr;
  for (const auto& [type, own] : parameters->items()) {
    const std::string name = reader_.prefix() + "rope_parameters." + formats::shortened(type, 80);
    if (own.is_object()) {
      if (!is_read_by_type(type)) (void)nested_rope(type, &own, {}, std::nullopt);
      if (!has_layers_of(type)) {
        warning(name + " is the rope of a kind of layer that is not there: no layer turns by it");
      }
    } else if (nested && !own.is_null() && !is_read_by_type(type)) {
      warning(name + " stands outside the ropes by layer type: it changes nothing");
    }
  }
}

}  // namespace phasescope::model
