#include "model/checkpoints/conversions/conversion.h"

#include <ATen/ATen.h>

#include <cmath>
#include <set>
#include <utility>

#include "formats/error.h"
#include "model/checkpoints/conversions/ape_to_rope.h"
#include "model/checkpoints/conversions/rope_to_ape.h"
#include "model/checkpoints/conversions/rope_to_tape.h"
#include "model/checkpoints/conversions/to_own_form.h"
#include "model/checkpoints/conversions/to_random.h"
#include "model/checkpoints/conversions/to_safetensors.h"
#include "model/checkpoints/tensor_io.h"
#include "model/settings.h"

namespace phasescope::model {
namespace {

std::function<void(const formats::TensorSource::Write&)> producer(std::function<at::Tensor()> make,
                                                                  at::ScalarType dtype) {
  return [make = std::move(make), dtype](const formats::TensorSource::Write& write) {
    const at::Tensor tensor = make().to(dtype).contiguous();
    write({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  };
}

std::string layer_name(std::int64_t layer, const std::string& rest) {
  return "model.layers." + std::to_string(layer) + ".self_attn." + rest;
}

}  // namespace

const std::vector<Conversion>& conversions() {
  static const std::vector<Conversion> list = {
      to_safetensors_conversion(), to_own_form_conversion(), rope_to_tape_conversion(),
      rope_to_ape_conversion(),    ape_to_rope_conversion(), to_random_conversion(),
  };
  return list;
}

ModelConfig changed_config(const CheckpointReader& reader, const ConvertOptions& options) {
  ModelConfig config = reader.config();
  set_fields(config, options.overrides);
  return config;
}

ConversionPlan canonical_plan(CheckpointReader& reader, const ConvertOptions& options,
                              ModelConfig config, Changes changes) {
  ConversionPlan plan;
  const std::vector<std::string> names = reader.names();
  const std::set<std::string> there(names.begin(), names.end());
  for (const TensorSpec& spec : tensor_specs(config, *make_encoding(config))) {
    const auto change = changes.find(spec.name);
    std::function<at::Tensor()> make;
    at::ScalarType dtype = at::kDouble;
    if (change != changes.end()) {
      make = change->second.make;
      dtype = change->second.dtype;
    } else if (there.contains(spec.name)) {
      dtype = reader.stored_dtype(spec.name);
      make = [&reader, name = spec.name, dtype] { return reader.read(name, dtype); };
    } else if (spec.optional) {
      continue;
    } else {
      throw formats::bad_input("the model has no tensor " + spec.name, reader.report().path);
    }
    dtype = options.dtype.value_or(dtype);
    plan.tensors.push_back({spec.name, file_dtype(dtype), spec.shape, producer(make, dtype)});
  }
  plan.config = write_model_config(config);
  return plan;
}

void require_one_rotation(const ModelConfig& config, const std::string& form) {
  if (config.encoder_layers > 0) {
    throw formats::bad_input("an encoder-decoder cannot be converted to " + form, "model");
  }
  if (config.local_encoding) {
    throw formats::bad_input(
        "its local layers have an encoding of their own, so the model cannot be "
        "converted to " +
            form,
        "model");
  }
}

FixedRotation fixed_rotation(const ModelConfig& config, const std::string& form) {
  // Whoever reads what is written stretches the positions again, by the same map.
  ModelConfig unmapped = config;
  if (config.positions.map == "interpolate") unmapped.positions.map = "identity";
  const std::unique_ptr<Encoding> encoding = make_encoding(unmapped);
  const Json& options = encoding->options();
  const auto refuse = [&](const std::string& why) {
    throw formats::bad_input("only a RoPE model can be converted to " + form + ": " + why, "model");
  };
  if (encoding->info().key != "rope") refuse("this one has " + encoding->info().key);
  const std::string scaling = options.at("scaling");
  if (scaling == "dynamic" || scaling == "longrope") {
    refuse("the angles of " + scaling + " change with the text's length");
  }
  if (options.at("table_rows") != 0) refuse("this one reads a stored table");
  if (options.at("stored_angles") == true) refuse("each head of this one has angles of its own");
  if (options.at("rotate_values") == true) refuse("this one rotates its values too");
  StartContext context;
  context.positions = {2, 0, {}};
  context.dtype = context.angle_dtype = at::kDouble;
  FixedRotation rotation;
  rotation.frequencies = encoding->frequencies(context);
  const at::Tensor z = encoding->start(context).z;  // (1, 1, 2, 2, planes)
  rotation.magnitude = at::hypot(z.select(-2, 0), z.select(-2, 1)).mean().item<double>();
  if (std::abs(rotation.magnitude - 1) < 1e-14) rotation.magnitude = 1;
  rotation.interleaved = options.at("layout") == "interleaved";
  return rotation;
}

void expand_heads(CheckpointReader& reader, ModelConfig& config, double magnitude, Changes& changes,
                  std::vector<std::string>& notes) {
  const AttentionConfig& a = config.attention;
  const std::int64_t copies = config.heads / config.kv_heads, dim = config.head_dim;
  const bool multiplied = magnitude != 1, normed = a.qk_norm != "none";
  if (copies > 1 && a.qk_norm == "full") {
    throw formats::bad_input(
        "all key heads are normalised together, so that copies of them would change the keys",
        "model");
  }
  if (multiplied && !normed && a.clip > 0) {
    throw formats::bad_input(
        "q and k are clipped after their projections, which can then not be multiplied", "model");
  }
  if (copies == 1 && !multiplied) return;
  const auto add = [&](const std::string& name, std::int64_t times, double factor) {
    const at::ScalarType dtype = factor == 1 ? reader.stored_dtype(name) : at::kDouble;
    const auto make = [&reader, name, times, factor, dim, dtype] {
      const at::Tensor tensor = reader.read(name, dtype);
      const at::Tensor copied =
          tensor.unflatten(0, {-1, dim}).repeat_interleave(times, 0).flatten(0, 1);
      return factor == 1 ? copied : copied * factor;
    };
    changes[name] = {make, dtype};
  };
  // What a norm multiplies by is 1 + weight in some models; `offset` is that 1.
  const auto multiply_norm = [&](const std::string& name, double offset) {
    changes[name] = {[&reader, name, offset, magnitude] {
      return (reader.read(name, at::kDouble) + offset) * magnitude - offset;
    }};
  };
  // Behind a norm the projections' lengths do not count: the factor goes into the norm.
  const double in_projections = normed ? 1 : magnitude;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    for (const char* norm : {"q_norm", "k_norm"}) {
      if (!normed || !multiplied) break;
      multiply_norm(layer_name(layer, norm + std::string(".weight")), config.norm.unit_offset);
      if (config.norm.bias) multiply_norm(layer_name(layer, norm + std::string(".bias")), 0);
    }
    if (in_projections != 1) {
      add(layer_name(layer, "q_proj.weight"), 1, magnitude);
      if (a.q_bias) add(layer_name(layer, "q_proj.bias"), 1, magnitude);
    }
    add(layer_name(layer, "k_proj.weight"), copies, in_projections);
    if (a.k_bias) add(layer_name(layer, "k_proj.bias"), copies, in_projections);
    if (copies == 1) continue;
    add(layer_name(layer, "v_proj.weight"), copies, 1);
    if (a.v_bias) add(layer_name(layer, "v_proj.bias"), copies, 1);
  }
  if (copies > 1) {
    notes.push_back("every query head gets a key and a value head of its own: " +
                    std::to_string(config.kv_heads) + " become " + std::to_string(config.heads));
    config.kv_heads = config.heads;
  }
  if (multiplied) {
    notes.push_back(std::string("the scaling's factor on q and k is in their ") +
                    (normed ? "norms" : "projections"));
  }
}

}  // namespace phasescope::model
