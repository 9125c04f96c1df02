#include "analysis/theory/rope_angles.h"

#include <cmath>

#include "analysis/intrinsic_bias.h"
#include "analysis/theory/equality.h"

namespace phasescope::analysis {

GeometricAngles geometric_angles_of(const CheckContext& context) {
  TextPass pass(context.model, first_ids(context, 64), asked_options(context));
  const std::optional<Rotation> rotation = rotation_of_all(pass);
  GeometricAngles out;
  if (!rotation || rotation->frequencies.size() < 2) {
    out.missing = "premise: q and k rotated by angles base^(-2d/D); this model does not";
    return out;
  }
  const std::vector<double>& angles = rotation->frequencies;
  const double ratio = angles[1] / angles[0];
  for (std::size_t d = 0; d < angles.size(); ++d) {
    const double wanted = std::pow(ratio, static_cast<double>(d));
    // Stored in float32, whose rounding the power multiplies.
    if (std::abs(angles[d] / wanted - 1) <= 1e-6 * static_cast<double>(d + 1)) continue;
    out.missing = "premise: angles base^(-2d/D); here the angle of plane " + std::to_string(d) +
                  " is " + short_number(angles[d]) + " in place of " + short_number(wanted);
    return out;
  }
  const auto planes = static_cast<double>(angles.size());
  out.dim = static_cast<std::int64_t>(2 * angles.size());
  out.base = std::pow(ratio, -planes);
  // A base that was a round number is one again.
  const double round = std::round(out.base);
  if (std::abs(out.base / round - 1) < 1e-5) out.base = round;
  return out;
}

std::vector<HeadCoefficients> coefficients_of(const CheckContext& context) {
  TextPass pass(context.model, first_ids(context, 512), asked_options(context));
  const std::optional<Rotation> rotation = rotation_of_all(pass);
  std::vector<HeadCoefficients> all;
  if (!rotation) return all;
  pass.visit_layers_with_maps([&](const AttentionPointer& attention) {
    std::int64_t head = 0;
    for (const PlaneMeans& means : causal_plane_means(*attention, rotation->layout)) {
      all.push_back({attention->layer(), head++, means.mean_mu() * rotation->gain,
                     means.mean_nu() * rotation->gain});
    }
  });
  return all;
}

}  // namespace phasescope::analysis
