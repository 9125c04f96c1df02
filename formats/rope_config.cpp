#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/hf_config.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

constexpr std::array<std::string_view, 7> kKnownTypes = {
    "default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional"};

// Whether rope_parameters holds an object per layer type instead of the fields themselves; null,
// which either may have, tells nothing.
bool nested_by_layer_type(const Json& parameters) {
  if (!parameters.is_object()) return false;
  const auto is_object = [](const Json& value) { return value.is_object(); };
  return std::ranges::any_of(parameters, is_object) &&
         std::ranges::all_of(
             parameters, [&](const Json& value) { return is_object(value) || value.is_null(); });
}

bool is_filled_object(const Json* value) {
  return value != nullptr && value->is_object() && !value->empty();
}

// What a rope's object may say; "max_position_embeddings" and "finetuned" are in files and change
// nothing.
constexpr std::array<std::string_view, 22> kKnownKeys = {
    "rope_type",       "type",
    "rope_theta",      "partial_rotary_factor",
    "factor",          "original_max_position_embeddings",
    "beta_fast",       "beta_slow",
    "mscale",          "mscale_all_dim",
    "low_freq_factor", "high_freq_factor",
    "long_factor",     "short_factor",
    "mrope_section",   "mrope_interleaved",
    "truncate",        "attention_factor",
    "finetuned",       "max_position_embeddings",
    "layer_type",      "llama_4_scaling_beta"};

// Where a configuration keeps its rope fields: inside (rope_scaling, or rope_parameters where that
// says nothing) and outside, at the top.
class RopeFields {
 public:
  RopeFields(const ConfigReader& config, std::string_view layer_type)
      : outside_(config), earlier_notes_(config.notes().size()) {
    // As convert_rope_params_to_dict() of transformers 5.23: the one replaces the other as a whole.
    if (is_filled_object(config.raw("rope_scaling"))) {
      add_parameters("rope_scaling", layer_type);
      if (is_filled_object(config.raw("rope_parameters"))) {
        clashes_.push_back("rope_scaling is taken over all of rope_parameters");
      }
      return;
    }
    outside_.section("rope_scaling");  // a problem where it is no object
    add_parameters("rope_parameters", layer_type);
  }

  // The first value found inside, then outside, where `outer` lists the names there.
  std::optional<double> number(FieldNames inner, FieldNames outer, NumberRange range) {
    return look_up<double>(inner, outer, [&](const ConfigReader& reader, FieldNames names) {
      return reader.number(names, range);
    });
  }
  std::optional<std::int64_t> integer(FieldNames inner, FieldNames outer, IntegerRange range) {
    return look_up<std::int64_t>(inner, outer, [&](const ConfigReader& reader, FieldNames names) {
      return reader.integer(names, range);
    });
  }
  // The one field whose value outside wins: see read_rope.
  std::optional<std::int64_t> trained_length() {
    constexpr std::string_view key = "original_max_position_embeddings";
    const IntegerRange range{.min = 1, .max = std::int64_t{1} << 40};
    if (nested_) return integer({key}, {key}, range);
    std::optional<std::int64_t> found;
    std::string found_at;
    take(found, found_at, outside_.integer({key}, range), key, "outside ");
    for (const ConfigReader& reader : inside_) {
      take(found, found_at, reader.integer({key}, range), key, "in " + reader.prefix());
    }
    return found;
  }
  std::optional<std::string> text(FieldNames inner) {
    return look_up<std::string>(
        inner, {}, [](const ConfigReader& reader, FieldNames names) { return reader.text(names); });
  }
  std::optional<bool> boolean(FieldNames inner) {
    return look_up<bool>(inner, {}, [](const ConfigReader& reader, FieldNames names) {
      return reader.boolean(names);
    });
  }
  std::optional<std::vector<double>> numbers(std::string_view key, NumberRange range) const {
    for (const ConfigReader& reader : inside_) {
      if (auto list = reader.numbers({key}, range)) return list;
    }
    return std::nullopt;
  }
  // "rope_parameters.key value", where it is there at all.
  std::string shown(std::string_view key) const {
    for (const ConfigReader& reader : inside_) {
      if (const Json* value = reader.raw(key)) {
        return reader.prefix() + std::string(key) + " " + shortened(value->dump(), 60);
      }
    }
    return std::string(key);
  }

  // Puts down a problem with a field, under the place where it stands or should stand.
  void problem(std::string_view key, const std::string& sentence) const {
    for (const ConfigReader& reader : inside_) {
      if (reader.has(key)) return reader.problem(key, sentence);
    }
    (inside_.empty() ? outside_ : inside_.front()).problem(key, sentence);
  }

  // Where a field is null that the library would take from there; empty where it is not.
  std::string null_place(std::string_view key, FieldNames outer) const {
    for (const ConfigReader& reader : inside_) {
      if (!reader.has_or_null(key)) continue;
      return reader.has(key) ? "" : reader.prefix() + std::string(key);
    }
    for (const std::string_view name : outer) {
      if (!outside_.has_or_null(name)) continue;
      return outside_.has(name) ? "" : outside_.prefix() + std::string(name);
    }
    return {};
  }

  bool nested() const { return nested_; }

  // Whether a field is there at all, good or bad.
  bool has(std::string_view key) const {
    return std::any_of(inside_.begin(), inside_.end(),
                       [&](const ConfigReader& reader) { return reader.has(key); });
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> all = clashes_;
    const auto outside = outside_.notes().begin() + static_cast<std::ptrdiff_t>(earlier_notes_);
    all.insert(all.end(), outside, outside_.notes().end());
    for (const ConfigReader& reader : inside_) {
      all.insert(all.end(), reader.notes().begin(), reader.notes().end());
    }
    return all;
  }

 private:
  void add_parameters(std::string_view name, std::string_view layer_type) {
    const auto parameters = outside_.section(name);
    if (!parameters) return;
    const Json& object = *outside_.raw(name);
    if (!nested_by_layer_type(object)) return add_object(*parameters, object);
    if (layer_type.empty()) {
      std::string types;
      for (const auto& [type, unused] : object.items()) types += (types.empty() ? "" : ", ") + type;
      return outside_.problem(
          name, "is nested by layer type (" + shortened(types, 80) +
                    "), but this class has one rope for all layers: give it as one object");
    }
    nested_ = true;
    if (auto own = parameters->section(layer_type)) {
      add_object(*own, *parameters->raw(layer_type));
    }
  }

  void add_object(const ConfigReader& reader, const Json& object) {
    inside_.push_back(reader);
    if (!object.is_object()) return;
    for (const auto& [key, unused] : object.items()) {
      if (std::ranges::find(kKnownKeys, key) != kKnownKeys.end()) continue;
      clashes_.push_back(reader.prefix() + shortened(key, 80) +
                         " is a setting of a rope that is not known here: it changes nothing");
    }
  }

  template <typename T, typename Read>
  std::optional<T> look_up(FieldNames inner, FieldNames outer, Read read) {
    std::optional<T> found;
    std::string found_at;
    for (const ConfigReader& reader : inside_) {
      take(found, found_at, read(reader, inner), *inner.begin(), "in " + reader.prefix());
    }
    if (outer.size() > 0) take(found, found_at, read(outside_, outer), *inner.begin(), "outside ");
    return found;
  }

  // Keeps the value found first; one that differs from it is noted.
  template <typename T>
  void take(std::optional<T>& found, std::string& found_at, const std::optional<T>& value,
            std::string_view name, std::string place) {
    if (!value) return;
    place.pop_back();
    if (!found) {
      found = value;
      found_at = place;
    } else if (*found != *value) {
      clashes_.push_back(std::string(name) + " " + Json(*found).dump() + " " + found_at +
                         " is taken over " + Json(*value).dump() + " " + place);
    }
  }

  ConfigReader outside_;
  std::size_t earlier_notes_;  // of the reader this one is a copy of
  std::vector<ConfigReader> inside_;
  bool nested_ = false;  // by layer type
  std::vector<std::string> clashes_;
};

std::string read_type(RopeFields& fields, RopeAxes axes) {
  const std::string type = fields.text({"rope_type", "type"}).value_or("default");
  // Phi-3's files say su, and later yarn, where they mean longrope.
  const bool has_lists = fields.has("long_factor") && fields.has("short_factor");
  if (type == "su" || (type == "yarn" && has_lists)) return "longrope";
  // Qwen2-VL's name for the default with sections.
  const bool of_axes = axes != RopeAxes::none && fields.has("mrope_section");
  if (type == "mrope" && of_axes) return "default";
  if (std::find(kKnownTypes.begin(), kKnownTypes.end(), type) != kKnownTypes.end()) return type;
  std::string known;
  for (const std::string_view name : kKnownTypes) {
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  fields.problem(fields.has("rope_type") ? "rope_type" : "type",
                 in_quotes(type) + " is not a known kind of rope (" + known + ")");
  return "default";
}

// The channels of a head that turn.
std::int64_t turned_channels(const RawRope& rope, std::int64_t head_dim) {
  // There it is a share of the planes of a whole head.
  const double share = rope.type == "proportional" ? 1 : rope.partial_rotary_factor;
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * share);
}

// How the sections lie is the class's doing, whatever the file says.
void read_section_order(RopeFields& fields, RopeAxes axes, RawRope& rope) {
  rope.mrope_interleaved = axes == RopeAxes::interleaved;
  const auto said = fields.boolean({"mrope_interleaved"});
  if (!said || *said == rope.mrope_interleaved) return;
  if (*said) {
    return fields.problem("mrope_interleaved",
                          "is true, but the sections of this class lie side by side");
  }
  rope.notes.push_back(fields.shown("mrope_interleaved") +
                       " is not read by the class: its sections interleave always");
}

// The file's sections as whole numbers; none where they are bad, and then that is a problem.
std::vector<std::int64_t> sections_of_file(RopeFields& fields, std::string_view key) {
  const auto given = fields.numbers(key, {.min = 0, .max = 1e6});
  if (!given) return {};
  std::vector<std::int64_t> sizes;
  for (const double size : *given) {
    if (size != std::floor(size)) {
      fields.problem(key, "must hold whole numbers of planes, but has " + Json(size).dump());
      return {};
    }
    sizes.push_back(static_cast<std::int64_t>(size));
  }
  if (sizes.size() == 3) return sizes;
  fields.problem(key, "must have three sections (time, height, width), but has " +
                          std::to_string(sizes.size()));
  return {};
}

void check_section_sum(RopeFields& fields, std::string_view key, std::int64_t planes,
                       const RawRope& rope) {
  const std::vector<std::int64_t>& sizes = rope.mrope_section;
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) sum += size;
  if (sizes.empty() || sum == planes) return;
  const std::string turning = std::to_string(planes) + " planes of a head that turn";
  fields.problem(key, fields.has(key) ? "has " + std::to_string(sum) + " planes, not the " + turning
                                      : "is missing, and the class's own " + Json(sizes).dump() +
                                            " do not fit the " + turning);
}

// Planes of each of a token's positions, where the class turns by several.
void read_sections(RopeFields& fields, const RopeDefaults& defaults,
                   std::optional<std::int64_t> head_dim, RawRope& rope) {
  constexpr std::string_view key = "mrope_section";
  if (defaults.axes == RopeAxes::none) {
    if (!fields.has(key)) return;
    rope.notes.push_back(fields.shown(key) +
                         " is not read by the class: its tokens have one position each");
    return;
  }
  read_section_order(fields, defaults.axes, rope);
  if (fields.has(key)) {
    rope.mrope_section = sections_of_file(fields, key);
  } else if (defaults.mrope_section.front() > 0) {
    rope.mrope_section.assign(defaults.mrope_section.begin(), defaults.mrope_section.end());
  } else {
    rope.notes.emplace_back(
        "mrope_section is missing, which the class needs: all planes turn by one position");
  }
  if (head_dim) check_section_sum(fields, key, turned_channels(rope, *head_dim) / 2, rope);
}

// Where the class does not read it, queries keep their scale.
void read_query_scale(RopeFields& fields, bool is_read, RawRope& rope) {
  rope.llama_4_scaling_beta = fields.number({"llama_4_scaling_beta"}, {}, {.min = 0});
  if (is_read || rope.llama_4_scaling_beta.value_or(0) == 0) return;
  rope.llama_4_scaling_beta.reset();
  rope.notes.push_back(fields.shown("llama_4_scaling_beta") +
                       " is not read by the class: queries are not scaled by their position");
}

void read_scaling(RopeFields& fields, RawRope& rope) {
  rope.factor = fields.number({"factor"}, {}, kPositiveRange);
  rope.attention_factor = fields.number({"attention_factor"}, {}, kPositiveRange);
  rope.beta_fast = fields.number({"beta_fast"}, {}, kPositiveRange);
  rope.beta_slow = fields.number({"beta_slow"}, {}, kPositiveRange);
  rope.mscale = fields.number({"mscale"}, {}, {.min = 0});
  rope.mscale_all_dim = fields.number({"mscale_all_dim"}, {}, {.min = 0});
  rope.low_freq_factor = fields.number({"low_freq_factor"}, {}, kPositiveRange);
  rope.high_freq_factor = fields.number({"high_freq_factor"}, {}, kPositiveRange);
  rope.truncate = fields.boolean({"truncate"});
  const std::string null_truncate = fields.null_place("truncate", {});
  if (!fields.nested() && !null_truncate.empty()) {
    rope.truncate = false;  // as Python takes it, where a missing one is true
    rope.notes.push_back(null_truncate +
                         " is null, which is no: the ends of yarn's ramp are not rounded");
  }
  if (fields.nested() && rope.truncate && !*rope.truncate) {
    rope.truncate.reset();
    rope.notes.push_back(
        "truncate false is not read by the library where rope_parameters are nested by layer type: "
        "the ramp's ends are rounded to whole planes");
  }
  const std::vector<double> none;
  rope.long_factor = fields.numbers("long_factor", kPositiveRange).value_or(none);
  rope.short_factor = fields.numbers("short_factor", kPositiveRange).value_or(none);
  rope.original_max_position_embeddings = fields.trained_length();
}

// A field that is there with a bad value has been put down already.
void require(RopeFields& fields, const RawRope& rope, std::string_view key, bool found) {
  if (!found && !fields.has(key)) {
    fields.problem(key, "is missing, and rope type " + rope.type + " needs it");
  }
}

void check_lists(RopeFields& fields, const RawRope& rope, std::optional<std::int64_t> head_dim) {
  for (const std::string_view key : {"long_factor", "short_factor"}) {
    const auto list = fields.numbers(key, kPositiveRange);
    require(fields, rope, key, list.has_value());
    if (!list || !head_dim) continue;
    const auto planes =
        static_cast<std::size_t>(double(*head_dim) * rope.partial_rotary_factor) / 2;
    if (list->size() == planes) continue;
    fields.problem(key, "has " + std::to_string(list->size()) + " values, but the head has " +
                            std::to_string(planes) + " planes");
  }
}

// What the length before stretching is to a kind of rope; empty where it has none.
std::string_view use_of_trained_length(std::string_view type) {
  if (type == "llama3") return "llama3 counts its wavelengths from ";
  if (type == "yarn") return "yarn counts the turns of its planes over ";
  if (type == "longrope") return "longrope takes its long factors past ";
  return {};
}

// standardize_rope_params() of transformers takes max_position_embeddings where the key is missing,
// and what uses it fails where it is null.
void check_trained_length(RopeFields& fields, RawRope& rope) {
  constexpr std::string_view key = "original_max_position_embeddings";
  const std::string_view use = use_of_trained_length(rope.type);
  if (use.empty() || rope.original_max_position_embeddings || fields.has(key)) return;
  if (!fields.null_place(key, {}).empty()) {
    fields.problem(key, "is null, and rope type " + rope.type + " needs a number");
    return;
  }
  rope.notes.push_back(std::string(key) + " is missing: " + std::string(use) +
                       "max_position_embeddings, as transformers does");
}

void check_scaling(RopeFields& fields, RawRope& rope, std::optional<std::int64_t> head_dim) {
  const std::string& type = rope.type;
  // The library takes max_position_embeddings over the original length where yarn has no factor.
  const bool by_lengths = type == "yarn" && rope.original_max_position_embeddings.has_value();
  if (type == "linear" || type == "dynamic" || (type == "yarn" && !by_lengths) ||
      type == "llama3") {
    require(fields, rope, "factor", rope.factor.has_value());
  }
  if (type == "longrope") check_lists(fields, rope, head_dim);
  check_trained_length(fields, rope);
  if (type != "llama3") return;
  require(fields, rope, "low_freq_factor", rope.low_freq_factor.has_value());
  require(fields, rope, "high_freq_factor", rope.high_freq_factor.has_value());
  if (rope.low_freq_factor && rope.high_freq_factor &&
      *rope.high_freq_factor < *rope.low_freq_factor) {
    fields.problem("high_freq_factor", "must not be below low_freq_factor");
  }
}

double read_partial_factor(RopeFields& fields, const ConfigReader& config, RopeDefaults defaults,
                           std::optional<std::int64_t> head_dim) {
  const NumberRange range{.min = 0, .max = 1, .min_excluded = true};
  const FieldNames shares = {"partial_rotary_factor", "rotary_pct"}, neox_share = {"rotary_pct"};
  const auto factor =
      fields.number({"partial_rotary_factor"}, defaults.neox_names ? neox_share : shares, range);
  if (factor) return *factor;
  const double fallback = defaults.partial_rotary_factor;
  if (!head_dim) return fallback;
  const auto dims = config.integer({"rotary_dim"}, {.min = 2, .max = *head_dim});
  return dims ? double(*dims) / double(*head_dim) : fallback;
}

}  // namespace

RawRope read_rope(const ConfigReader& config, RopeDefaults defaults, std::string_view layer_type,
                  std::optional<std::int64_t> head_dim) {
  RopeFields fields(config, layer_type);
  RawRope rope;
  rope.type = read_type(fields, defaults.axes);
  const FieldNames any_base = {"rope_theta", "rotary_emb_base"}, neox_base = {"rotary_emb_base"};
  const FieldNames bases = defaults.neox_names ? neox_base : any_base;
  rope.theta = fields.number({"rope_theta"}, bases, kPositiveRange).value_or(defaults.theta);
  if (const std::string place = fields.null_place("rope_theta", bases); !place.empty()) {
    rope.notes.push_back(place + " is null, on which transformers fails: the base is " +
                         Json(rope.theta).dump());
  }
  rope.partial_rotary_factor = read_partial_factor(fields, config, defaults, head_dim);
  const double said = rope.partial_rotary_factor;
  const bool whole = defaults.whole_when_default && rope.type == "default" && said != 1;
  if (whole) rope.partial_rotary_factor = 1;
  read_scaling(fields, rope);
  read_query_scale(fields, defaults.scales_queries, rope);
  read_sections(fields, defaults, head_dim, rope);
  if (!rope.original_max_position_embeddings) {
    rope.original_max_position_embeddings = defaults.original_max_position_embeddings;
  }
  check_scaling(fields, rope, head_dim);
  if (head_dim) {
    const std::int64_t rotated = turned_channels(rope, *head_dim);
    if (rotated % 2 != 0) {
      config.problem("head_dim", "rope turns pairs, but " + std::to_string(rotated) + " of " +
                                     std::to_string(*head_dim) + " dimensions are to be turned");
    }
  }
  const std::vector<std::string> clashes = fields.notes();
  rope.notes.insert(rope.notes.end(), clashes.begin(), clashes.end());
  if (rope.type == "default" && rope.factor.value_or(1) != 1) {
    rope.notes.push_back("factor " + Json(*rope.factor).dump() +
                         " changes nothing where rope_type is \"default\" or is missing");
  }
  if (whole) {
    rope.notes.push_back("partial_rotary_factor " + Json(said).dump() +
                         " is not read by the class where rope_type is \"default\": whole heads "
                         "turn");
  }
  return rope;
}

}  // namespace phasescope::formats
