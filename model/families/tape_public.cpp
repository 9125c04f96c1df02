#include "model/families/tape_public.h"

#include <ATen/ATen.h>

#include <cmath>

#include "formats/error.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace {

constexpr const char* kTapeTensor = "model.layers.0.pe.up_proj.weight";

bool claims(const FamilyInput& input) {
  return input.config.contains("rpe_type") || input.tensors.find(kTapeTensor) != nullptr;
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

void refuse_log_scale(const Reading& r) {
  if (r.reader.boolean_or({"log_scale"}, false)) {
    r.problem("log_scale", "queries scaled by the logarithm of their position cannot be read yet");
  }
}

void translate_rope(const Reading& r) {
  refuse_log_scale(r);
  Json options = {
      {"base", 10000.0}, {"layout", "half"}, {"shift", r.reader.integer_or({"shift"}, 0)}};
  if (r.reader.has("rope_theta")) r.quirk("rope_theta is not read by this code: the base is 10000");
  if (const auto scaling = read_scaling(r.reader)) {
    if (scaling->type == "linear" || scaling->type == "dynamic") {
      options["scaling"] = scaling->type;
      options["factor"] = scaling->factor;
    } else {
      r.problem("rope_scaling", "\"" + scaling->type + "\" cannot be read yet");
    }
  }
  r.result.config.encoding = {"rope", options};
}

void translate_none(const Reading& r) {
  refuse_log_scale(r);
  r.result.config.encoding = {"none", Json::object()};
}

void translate_alibi(const Reading& r) {
  refuse_log_scale(r);
  r.result.config.encoding = {"alibi", Json::object()};
  r.quirk(
      "the code adds slope * j to the score; ours is -slope * (i - j), which gives the same "
      "weights and other raw scores");
}

std::int64_t tape_hidden(const Reading& r) {
  const formats::TensorEntry* tensor = r.input.tensors.find(kTapeTensor);
  if (tensor != nullptr && tensor->shape.size() == 2) return tensor->shape[0];
  return r.reader.integer_or({"position_size"}, 4 * r.result.config.heads, formats::kCountRange);
}

void translate_tape(const Reading& r) {
  const ModelConfig& config = r.result.config;
  Json options = {{"base", r.reader.number_or({"rope_theta"}, 10000.0, formats::kPositiveRange)},
                  {"hidden", tape_hidden(r)},
                  {"post_attention_linear", "rowsum"},
                  {"gate_input", "mlp_output"},
                  {"gate_activation", config.mlp.activation},
                  {"layout", "half"},
                  {"shift", r.reader.integer_or({"shift"}, 0)},
                  {"shift_limit", config.context}};
  r.quirk("the post-attention linear multiplies each head by the sum of its row");
  r.quirk("the position MLP's gate reads the MLP's output before the residual");
  if (options["shift"] != 0) {
    r.quirk("the shift of position ids is dropped for texts longer than max_position_embeddings");
  }
  if (const auto scaling = read_scaling(r.reader)) {
    options["scaling"] = "linear";
    options["factor"] = scaling->factor;
    r.quirk("rope_scaling is position interpolation whatever its type (here \"" + scaling->type +
            "\")");
  }
  if (r.input.tensors.find("model.rotary_emb.inv_freq") != nullptr) {
    r.quirk("rotary_emb.inv_freq is used as stored");
  }
  r.result.config.encoding = {"tape", options};
}

struct Kind {
  const char* rpe_type;
  void (*translate)(const Reading& reading);
};
constexpr Kind kKinds[] = {
    {"rope", &translate_rope},
    {"nope", &translate_none},
    {"alibi", &translate_alibi},
    {"adape", &translate_tape},
};

void translate_positions(const Reading& r) {
  const std::string type = r.reader.text_or({"rpe_type"}, "adape");
  r.result.encoding_why = r.reader.has("rpe_type")
                              ? "rpe_type is \"" + type + "\""
                              : std::string("the tensors pe.up_proj are there");
  std::string known;
  for (const Kind& kind : kKinds) {
    if (type == kind.rpe_type) return kind.translate(r);
    known += (known.empty() ? "" : ", ") + std::string(kind.rpe_type);
  }
  r.problem("rpe_type", "\"" + type + "\" cannot be read yet; known: " + known);
}

// The buffer slope * j, (1, H, 1, M), to the slopes (H).
at::Tensor slopes_of(const at::Tensor& buffer) {
  if (buffer.dim() != 4 || buffer.size(3) < 2) {
    throw formats::bad_input("the alibi buffer has the shape " +
                             formats::shape_text(buffer.sizes()) + ", expected (1, H, 1, M)");
  }
  return buffer.select(3, 1).flatten().clone();
}

TensorPlace place(const std::string& name) {
  if (name == "model.rotary_emb.inv_freq") return {"model.encoding.inv_freq"};
  const auto renamed = [&](const std::string& from, const std::string& to) {
    return name.substr(0, name.size() - from.size()) + to;
  };
  if (name.ends_with(".self_attn.alibi")) {
    return {.name = renamed("self_attn.alibi", "encoding.slopes"), .convert = &slopes_of};
  }
  for (const char* matrix : {"up_proj", "x_proj", "down_proj"}) {
    const std::string ending = "pe." + std::string(matrix) + ".weight";
    if (name.ends_with("." + ending)) {
      return {renamed(ending, "encoding." + std::string(matrix))};
    }
  }
  if (name.ends_with(".post_attention_linear.weight")) {
    return {renamed("post_attention_linear.weight", "encoding.post_attention_linear")};
  }
  return llama_place(name);
}

Translation translate(const FamilyInput& input) {
  formats::ConfigProblems problems;
  const formats::ConfigReader reader(input.config, problems);
  Translation result;
  result.config.family = "tape_public";
  read_llama_sizes(reader, result.config);
  translate_positions({reader, input, result});
  if (problems.empty()) check_model_config(result.config, problems);
  problems.throw_if_any(input.where);
  for (const std::string& note : reader.notes()) result.warnings.push_back(note);
  result.place = &place;
  return result;
}

}  // namespace

Family tape_public_family() { return {"tape_public", &claims, &translate}; }

}  // namespace phasescope::model
