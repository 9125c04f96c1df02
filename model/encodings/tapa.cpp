#include "model/encodings/tapa.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "formats/error.h"
#include "model/encoding_cost.h"

namespace phasescope::model {
namespace {

const EncodingInfo& tapa_info() {
  static const EncodingInfo info = {
      .key = "tapa",
      .title = "TAPA (token-aware phase attention)",
      .formula =
          "s_ij = (qA.kA / sqrt(t d)) cos(2 pi |i-j|^alpha phi), "
          "phi = qP.kP / sqrt((1-t) d)",
      .source = "arXiv 2509.12635, Definition 3.1",
      .departure = "",
      .options =
          {{"alpha", 0.1, "exponent of the distance", {}, 0, 1},
           {"split", 0.5, "t, the amplitude part's share of the head", {}, 0, 1},
           {"phase", "quadratic", "phi: qP.kP, or sum(qP) + sum(kP)", {"quadratic", "linear"}},
           only_where({"phase_norm", {0.0}}, {"phase_gain",
                                              1.0,
                                              "multiplies qP and kP; folds into the weights",
                                              {},
                                              0,
                                              kNoLimit}),
           {"phase_norm",
            0.0,
            "root mean square that qP and kP are brought to; 0: off",
            {},
            0,
            kNoLimit},
           {"two_pi", true, "the 2 pi in the cosine (the released kernel has none)"}},
      .under_shift = {UnderShift::Kind::stays, "positions enter as distances alone"},
      .has_state = false,
  };
  return info;
}

// Keeps the normaliser finite for a phase part of zeros.
constexpr double kNormEps = 1e-6;

// Channels of the amplitude part.
std::int64_t content_size(const Json& options, std::int64_t head_dim) {
  return std::llround(options.at("split").get<double>() * static_cast<double>(head_dim));
}

class Tapa final : public Encoding {
 public:
  Tapa(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    content_dim_ = content_size(options_, head_dim_);
    if (content_dim_ < 1 || content_dim_ >= head_dim_) {
      throw formats::bad_input("tapa.split " + options_["split"].dump() + " of a head of " +
                               std::to_string(head_dim_) + " leaves one part empty");
    }
    const AttentionConfig& a = model.attention;
    if (a.scale > 0 || a.scale_by_width || a.scale_by_layer || a.layer_gain) {
      throw formats::bad_input("tapa has scales of its own, and takes no other one of the scores",
                               "attention");
    }
  }

  const EncodingInfo& info() const override { return tapa_info(); }

  std::string departure() const override {
    if (number("phase_norm") <= 0) return {};
    return "qP and kP are normalised to a root mean square of " + options_["phase_norm"].dump() +
           " first, which the paper does not do";
  }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    const double content_dim = static_cast<double>(content_dim_);
    const double phase_dim = static_cast<double>(head_dim_ - content_dim_);
    AttentionProgram program = unrotated(q, k, state);
    if (changes_phase_part()) program.transform(with_phase_part(q), with_phase_part(k));
    program.scale = 1.0 / std::sqrt(content_dim);
    program.variant = TapaProgram{content_dim_, program.scale, 1.0 / std::sqrt(phase_dim),
                                  text("phase") == "linear",
                                  powers(state.positions.largest_distance() + 1, q.options())};
    return program;
  }

  // Two multiplications and a cosine on each score; the dot products stay those of plain attention.
  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    return {score_cost("cosine of the phase", s, 3)};
  }

 private:
  bool changes_phase_part() const {
    return number("phase_norm") > 0 || number("phase_gain") != 1.0;
  }

  // The phase part brought to its norm, or multiplied by its gain.
  at::Tensor with_phase_part(const at::Tensor& x) const {
    const double norm = number("phase_norm");
    const double gain = number("phase_gain");
    const at::Tensor part = x.narrow(-1, content_dim_, head_dim_ - content_dim_);
    const at::Tensor changed =
        norm > 0 ? part * (norm * at::rsqrt(part.square().mean(-1, true) + kNormEps)) : part * gain;
    return at::cat({x.narrow(-1, 0, content_dim_), changed}, -1);
  }

  // |lambda|^alpha, with any 2 pi.
  at::Tensor powers(std::int64_t length, const at::TensorOptions& options) const {
    const at::Tensor distance = distances(length, options.device());
    const double turn = flag("two_pi") ? 2 * std::numbers::pi : 1.0;
    return (turn * distance.pow(number("alpha"))).to(table_options(options));
  }

  std::int64_t content_dim_ = 0;
};

std::unique_ptr<Encoding> make_tapa(const Json& options, const ModelConfig& model) {
  return std::make_unique<Tapa>(options, model);
}

}  // namespace

void fold_phase_gain(ModelConfig& config, Weights& weights) {
  if (config.encoding.key != "tapa") return;
  formats::ConfigProblems problems;
  const Json options = resolve_options(tapa_info(), config.encoding.options, problems);
  problems.throw_if_any("encoding");
  const double gain = options["phase_gain"].get<double>();
  if (gain == 1.0 || options["phase_norm"].get<double>() > 0) return;
  const std::int64_t content = content_size(options, config.head_dim);
  at::Tensor factors = at::ones({config.head_dim}, at::kDouble);
  factors.slice(0, content).fill_(gain);
  const auto folded = [&](const at::Tensor& rows) {  // (heads d, C) or a bias (heads d)
    if (!rows.defined()) return rows;
    const at::Tensor all = factors.repeat({rows.size(0) / config.head_dim}).to(rows.scalar_type());
    return rows * (rows.dim() == 2 ? all.unsqueeze(1) : all);
  };
  for (LayerWeights& layer : weights.layers) {
    layer.wq = folded(layer.wq);
    layer.wk = folded(layer.wk);
    layer.bq = folded(layer.bq);
    layer.bk = folded(layer.bk);
  }
  config.encoding.options["phase_gain"] = 1.0;
}

EncodingEntry tapa_entry() { return {&tapa_info(), &make_tapa}; }

}  // namespace phasescope::model
