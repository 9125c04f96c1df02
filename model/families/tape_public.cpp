#include "model/families/tape_public.h"

#include <ATen/ATen.h>

#include <cmath>

#include "formats/error.h"
#include "formats/utf8.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace tape_public {
namespace {

constexpr const char* kTapeTensor = "model.layers.0.pe.up_proj.weight";

bool claims(const FamilyInput& input) {
  return input.config.contains("rpe_type") || input.find(kTapeTensor) != nullptr;
}

// What translating one configuration fills in.
struct Reading {
  const formats::ConfigReader& reader;
  const FamilyInput& input;
  Translation& result;

  void quirk(const std::string& sentence) const { result.quirks.push_back(sentence); }
  void problem(const std::string& key, const std::string& sentence) const {
    reader.problem(key, sentence);
  }
};

struct Scaling {
  std::string type;
  double factor = 1;
};
std::optional<Scaling> read_scaling(const formats::ConfigReader& reader) {
  const auto section = reader.section("rope_scaling");
  if (!section) return std::nullopt;
  return Scaling{section->text_or({"rope_type", "type"}, "linear"),
                 section->number_or({"factor"}, 1.0, formats::kPositiveRange)};
}

void read_log_scale(const Reading& r) {
  if (!r.reader.boolean_or({"log_scale"}, false)) return;
  r.result.config.attention.log_scale = r.reader.number_or(
      {"train_scale"}, static_cast<double>(r.result.config.context), formats::kPositiveRange);
}

// Rotations here have the base 10000, whatever the file says.
Json rotation_options(const Reading& r) {
  read_log_scale(r);
  if (r.reader.has("rope_theta")) r.quirk("rope_theta is not read by this code: the base is 10000");
  return {{"base", 10000.0}, {"layout", "half"}};
}

void translate_rope(const Reading& r) {
  Json options = rotation_options(r);
  options["shift"] = r.reader.integer_or({"shift"}, 0);
  if (const auto scaling = read_scaling(r.reader)) {
    if (scaling->type == "linear" || scaling->type == "dynamic") {
      options["scaling"] = scaling->type;
      options["factor"] = scaling->factor;
    } else {
      r.problem("rope_scaling", formats::in_quotes(scaling->type) +
                                    " is none that this code knows: linear, dynamic");
    }
  }
  r.result.config.encoding = {"rope", options};
}

std::int64_t trained_length(const Reading& r) {
  return r.reader.integer_or({"original_max_position_embeddings"}, r.result.config.context,
                             formats::kCountRange);
}

void translate_yarn(const Reading& r) {
  Json options = rotation_options(r);
  const std::int64_t trained = trained_length(r);
  const std::int64_t factor = (r.result.config.context + trained - 1) / trained;
  options["scaling"] = "yarn";
  options["factor"] = static_cast<double>(factor);
  options["trained_context"] = trained;
  r.quirk(
      "rope_scaling's factor is not read: it is max_position_embeddings over the trained length, "
      "rounded up to " +
      std::to_string(factor));
  r.result.config.encoding = {"rope", options};
}

void translate_xpos(const Reading& r) {
  Json options = rotation_options(r);
  options["scale_base"] = 2048.0;
  r.result.config.encoding = {"xpos", options};
}

void translate_random(const Reading& r) {
  Json options = rotation_options(r);
  options["draw"] = "layer";
  options["range"] = 2 * r.result.config.context;
  r.quirk(
      "the code draws new positions in every layer at every call; here they are drawn once from a "
      "seed, or given");
  r.result.config.encoding = {"randomized_rope", options};
}

void translate_none(const Reading& r) {
  read_log_scale(r);
  r.result.config.encoding = {"none", Json::object()};
}

void translate_sinusoidal(const Reading& r) {
  read_log_scale(r);
  r.result.config.encoding = {"sinusoidal", Json::object()};
}

void translate_fire(const Reading& r) {
  read_log_scale(r);
  r.result.config.encoding = {"fire", Json::object()};
}

void translate_t5(const Reading& r) {
  r.result.config.encoding = {
      "t5",
      {{"tables", "layer"},
       {"buckets",
        r.reader.integer_or({"relative_attention_num_buckets"}, 32, formats::kCountRange)},
       {"max_distance",
        r.reader.integer_or({"relative_attention_max_distance"}, 128, formats::kCountRange)}}};
}

void translate_alibi(const Reading& r) {
  read_log_scale(r);
  r.result.config.encoding = {"alibi", Json::object()};
  r.quirk(
      "the code adds slope * j to the score; ours is -slope * (i - j), which gives the same "
      "weights and other raw scores");
}

std::int64_t tape_hidden(const Reading& r) {
  const formats::TensorEntry* tensor = r.input.find(kTapeTensor);
  if (tensor != nullptr && tensor->shape.size() == 2) return tensor->shape[0];
  return r.reader.integer_or({"position_size"}, 4 * r.result.config.heads, formats::kCountRange);
}

// What all of TAPE's variants have.
Json tape_options(const Reading& r) {
  if (r.input.find("model.rotary_emb.inv_freq") != nullptr) {
    r.quirk("rotary_emb.inv_freq is used as stored");
  }
  return {{"base", r.reader.number_or({"rope_theta"}, 10000.0, formats::kPositiveRange)},
          {"hidden", tape_hidden(r)},
          {"post_attention_linear", "rowsum"},
          {"gate_input", "mlp_output"},
          {"gate_activation", r.result.config.mlp.activation},
          {"layout", "half"},
          {"ids_are_rows", true}};
}

void read_tape_scaling(const Reading& r, Json& options) {
  const auto scaling = read_scaling(r.reader);
  if (!scaling) return;
  options["scaling"] = "linear";
  options["factor"] = scaling->factor;
  r.quirk("rope_scaling is position interpolation whatever its type (here " +
          formats::in_quotes(scaling->type) + ")");
}

void read_tape_shift(const Reading& r, Json& options) {
  options["shift"] = r.reader.integer_or({"shift"}, 0);
  options["shift_limit"] = r.result.config.context;
  if (options["shift"] != 0) {
    r.quirk("the shift of position ids is dropped for texts longer than max_position_embeddings");
  }
}

void tell_of_updates(const Reading& r, bool attention, bool mlp) {
  r.quirk("given position ids are rows of the position state, not angles");
  if (attention) {
    r.quirk("the post-attention linear multiplies by the sum of each row; it mixes nothing");
  }
  if (mlp) r.quirk("the position MLP's gate reads the MLP's output before the residual");
}

// A variant that differs from TAPE by one option; some of them read a shift.
void translate_variant(const Reading& r, const char* option, const Json& value, bool shifts) {
  Json options = tape_options(r);
  read_tape_scaling(r, options);
  if (shifts) read_tape_shift(r, options);
  if (option != nullptr) options[option] = value;
  tell_of_updates(r, value != "mlp_only", value != "attention_only");
  r.result.config.encoding = {"tape", options};
}

void translate_tape(const Reading& r) { translate_variant(r, nullptr, {}, true); }
void translate_attention_only(const Reading& r) {
  translate_variant(r, "contextualize", "attention_only", false);
}
void translate_mlp_only(const Reading& r) {
  translate_variant(r, "contextualize", "mlp_only", false);
}
void translate_adatensor(const Reading& r) {
  translate_variant(r, "tensor_form", "adatensor", false);
}
void translate_adavector(const Reading& r) {
  translate_variant(r, "tensor_form", "adavector", true);
}
void translate_without_equivariance(const Reading& r) {
  translate_variant(r, "equivariance", false, true);
}

void translate_adayarn(const Reading& r) {
  Json options = tape_options(r);
  const std::int64_t trained = trained_length(r);
  options["scaling"] = "adayarn";
  options["trained_context"] = trained;
  options["factor"] = static_cast<double>(r.result.config.context) / static_cast<double>(trained);
  tell_of_updates(r, true, true);
  r.quirk(
      "rope_scaling's factor is not read: texts are stretched by their own length over the trained "
      "one");
  r.quirk(
      "the code goes back to plain frequencies at the second call of a length; here each call is "
      "the first");
  r.result.config.encoding = {"tape", options};
}

struct Kind {
  const char* rpe_type;
  void (*translate)(const Reading& reading);
};
constexpr Kind kKinds[] = {
    {"rope", &translate_rope},
    {"yarn", &translate_yarn},
    {"xpos", &translate_xpos},
    {"randrope", &translate_random},
    {"nope", &translate_none},
    {"sincos", &translate_sinusoidal},
    {"alibi", &translate_alibi},
    {"fire", &translate_fire},
    {"t5rb", &translate_t5},
    {"adape", &translate_tape},
    {"adattention", &translate_attention_only},
    {"adamlp", &translate_mlp_only},
    {"adatensor", &translate_adatensor},
    {"adawoeq", &translate_without_equivariance},
    {"adavector", &translate_adavector},
    {"adayarn", &translate_adayarn},
};

void translate_positions(const Reading& r) {
  const std::string type = r.reader.text_or({"rpe_type"}, "adape");
  r.result.encoding_why = r.reader.has("rpe_type")
                              ? "rpe_type is " + formats::in_quotes(type)
                              : std::string("the tensors pe.up_proj are there");
  std::string known;
  for (const Kind& kind : kKinds) {
    if (type == kind.rpe_type) return kind.translate(r);
    known += (known.empty() ? "" : ", ") + std::string(kind.rpe_type);
  }
  r.problem("rpe_type", formats::in_quotes(type) + " cannot be read yet; known: " + known);
}

// The buffer slope * j, (1, H, 1, M), to the slopes (H).
at::Tensor slopes_of(const at::Tensor& buffer) {
  if (buffer.dim() != 4 || buffer.size(3) < 2) {
    throw formats::bad_input("the alibi buffer has the shape " +
                             formats::shape_text(buffer.sizes()) + ", expected (1, H, 1, M)");
  }
  return buffer.select(3, 1).flatten().clone();
}

// Endings of a layer's tensors, and of their canonical names.
struct Renamed {
  const char* theirs;
  const char* ours;
};
constexpr Renamed kRenamed[] = {
    {"pe.up_proj.weight", "up_proj"},
    {"pe.x_proj.weight", "x_proj"},
    {"pe.down_proj.weight", "down_proj"},
    {"post_attention_linear.weight", "post_attention_linear"},
    {"pe.up_projs.0.weight", "up_proj.0"},
    {"pe.up_projs.1.weight", "up_proj.1"},
    {"pe.down_projs.0.weight", "down_proj.0"},
    {"pe.down_projs.1.weight", "down_proj.1"},
    {"post_attention_linears.0.weight", "post_attention_linear.0"},
    {"post_attention_linears.1.weight", "post_attention_linear.1"},
    {"self_attn.rotary_emb.mlp.0.weight", "fire.0.weight"},
    {"self_attn.rotary_emb.mlp.0.bias", "fire.0.bias"},
    {"self_attn.rotary_emb.mlp.2.weight", "fire.2.weight"},
    {"self_attn.rotary_emb.mlp.2.bias", "fire.2.bias"},
    {"self_attn.rotary_emb.c", "c"},
    {"self_attn.rotary_emb.init_L", "init_L"},
    {"self_attn.rotary_emb.L_multiplier", "L_multiplier"},
    {"self_attn.relative_attention_bias.weight", "table"},
};

TensorPlace place(const std::string& name) {
  if (name == "model.rotary_emb.inv_freq") return {"model.encoding.inv_freq"};
  const auto renamed = [&](const std::string& from, const std::string& to) {
    return name.substr(0, name.size() - from.size()) + "encoding." + to;
  };
  if (name.ends_with(".self_attn.alibi")) {
    return {.name = renamed("self_attn.alibi", "slopes"), .convert = &slopes_of};
  }
  for (const Renamed& tensor : kRenamed) {
    if (name.ends_with("." + std::string(tensor.theirs))) {
      return {renamed(tensor.theirs, tensor.ours)};
    }
  }
  return llama_place(name);
}

Translation translate(const FamilyInput& input) {
  formats::ConfigProblems problems;
  const formats::ConfigReader reader(input.config, problems);
  Translation result;
  result.config.family = "tape_public";
  read_llama_sizes(reader, result.config);
  result.config.attention.padding = "added";
  result.quirks.emplace_back(
      "masks of padding are added to the causal one: a text that begins with padding spreads the "
      "weights of those rows over the padded past and the future");
  translate_positions({reader, input, result});
  if (problems.empty()) check_model_config(result.config, problems);
  problems.throw_if_any(input.where);
  for (const std::string& note : reader.notes()) result.warnings.push_back(note);
  result.place = &place;
  return result;
}

}  // namespace
}  // namespace tape_public

Family tape_public_family() {
  return {"tape_public", &tape_public::claims, &tape_public::translate};
}

}  // namespace phasescope::model
