#include "model/checkpoints/conversions/ape_to_rope.h"

#include <ATen/ATen.h>

#include <memory>
#include <numbers>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/error.h"

namespace phasescope::model {
namespace {

constexpr double kNoTurn = 1e-12;  // of the largest angle: planes that turn less are no planes yet

at::Tensor skew_of(const at::Tensor& generator) { return generator - generator.transpose(-1, -2); }

void require_convertible(const ModelConfig& config) {
  require_one_rotation(config, "rope");
  const std::unique_ptr<Encoding> encoding = make_encoding(config);
  const auto refuse = [](const std::string& why, const std::string& hint = {}) {
    throw formats::bad_input("only an APE model on sequences can be converted to rope: " + why,
                             "model", hint);
  };
  if (encoding->info().key != "ape_sequence") refuse("this one has " + encoding->info().key);
  if (encoding->options().at("decay") != 1.0) {
    refuse("this one's scores decay with the distance, and RoPE's do not",
           "--set encoding.decay=1 leaves the decay out, which changes the logits");
  }
  if (config.attention.qk_norm != "none" || config.attention.clip > 0) {
    refuse("q and k are changed between their projections and the rotation");
  }
}

// (H d, ...) of a projection or its bias, each head's rows times its P^T.
at::Tensor folded(const at::Tensor& rows, const at::Tensor& bases) {
  const at::Tensor by_head = rows.reshape({bases.size(0), bases.size(1), -1});  // (H, d, C or 1)
  return at::matmul(bases.transpose(1, 2), by_head).reshape(rows.sizes());
}

ConversionPlan plan(CheckpointReader& reader, const ConvertOptions& options) {
  ModelConfig config = changed_config(reader, options);
  require_convertible(config);
  const at::Tensor generators = reader.read("model.encoding.generator", at::kDouble);
  std::vector<at::Tensor> basis, angles;
  for (std::int64_t head = 0; head < config.heads; ++head) {
    const NormalForm form = normal_form(skew_of(generators[head]));
    basis.push_back(form.basis);
    angles.push_back(form.angles);
  }
  const at::Tensor bases = at::stack(basis), all_angles = at::stack(angles);
  Changes changes;
  changes["model.encoding.angles"] = {[all_angles] { return all_angles; }};
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    for (const auto& [projection, bias] : {std::pair{"q_proj", config.attention.q_bias},
                                           std::pair{"k_proj", config.attention.k_bias}}) {
      for (const char* tensor : {".weight", ".bias"}) {
        if (!bias && tensor == std::string_view(".bias")) continue;
        const std::string name =
            "model.layers." + std::to_string(layer) + ".self_attn." + projection + tensor;
        changes[name] = {
            [&reader, name, bases] { return folded(reader.read(name, at::kDouble), bases); }};
      }
    }
  }
  const Json base = make_encoding(config)->options().at("base");
  config.encoding = {"rope", {{"base", base}, {"layout", "interleaved"}, {"stored_angles", true}}};
  ConversionPlan plan = canonical_plan(reader, options, std::move(config), std::move(changes));
  plan.notes.emplace_back(
      "W = P Q P^T: P is in the projections of q and k, Q's angles are stored for "
      "each head");
  return plan;
}

}  // namespace

// i S is Hermitian; an eigenvector x + i y of the eigenvalue theta > 0 has S x = theta y, S y =
// -theta x: the plane of x and y turns by theta. What does not turn fills the rest of the basis.
NormalForm normal_form(const at::Tensor& skew) {
  const std::int64_t dim = skew.size(0);
  const auto [values, vectors] =
      at::linalg_eigh(at::complex(at::zeros_like(skew), skew));  // ascending
  const double largest = values[-1].item<double>();
  std::vector<at::Tensor> columns;
  for (std::int64_t n = dim - 1; n >= dim / 2; --n) {
    if (!(values[n].item<double>() > kNoTurn * largest)) break;
    columns.push_back(at::real(vectors.select(1, n)));
    columns.push_back(at::imag(vectors.select(1, n)));
  }
  NormalForm form;
  form.basis = columns.empty() ? at::eye(dim, skew.options())
                               : std::get<0>(at::linalg_qr(at::stack(columns, 1), "complete"));
  const at::Tensor turned = at::matmul(form.basis.t(), at::matmul(skew, form.basis));
  const at::Tensor first = at::arange(0, dim, 2, at::kLong);
  const at::Tensor angle = turned.index({first + 1, first});
  const double turn = 2 * std::numbers::pi;
  form.angles = angle - turn * at::round(angle / turn);
  return form;
}

Conversion ape_to_rope_conversion() {
  return {"rope", "an APE model on sequences as RoPE with angles of its own", &plan};
}

}  // namespace phasescope::model
