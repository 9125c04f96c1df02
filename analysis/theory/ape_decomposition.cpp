#include "analysis/theory/ape_decomposition.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/theory/verdicts.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kApeDecompositionPlaces = 9;

// Down one word after the way up of another, both without what they share.
at::Tensor relative_path(const Matrices& branches, std::vector<std::int64_t> up,
                         std::vector<std::int64_t> down) {
  const auto [a, b] = std::ranges::mismatch(up, down);
  up.erase(up.begin(), a), down.erase(down.begin(), b);
  at::Tensor out = at::eye(branches[0].size(0), at::kDouble);
  for (auto branch = up.rbegin(); branch != up.rend(); ++branch) {
    out = at::matmul(out, branches.at(static_cast<std::size_t>(*branch)).t());
  }
  return at::matmul(out, path_matrix(branches, down, out.size(0)));
}

Matrices inflated(const Matrices& matrices, double factor) {
  Matrices out;
  for (const at::Tensor& w : matrices) out.push_back(w * factor);
  return out;
}

struct DrawnPlaces {
  std::vector<std::int64_t> sequence, nodes;
  std::vector<std::vector<std::int64_t>> grid;
};
DrawnPlaces drawn_places(Random& random) {
  DrawnPlaces out;
  for (std::int64_t n = 0; n < kApeDecompositionPlaces; ++n) {
    out.sequence.push_back(random.below(2000));
    out.nodes.push_back(1 + random.below(63));
    out.grid.push_back({random.below(20), random.below(20)});
  }
  return out;
}

std::vector<Places> structures(const Matrices& two, const DrawnPlaces& drawn,
                               const std::string& kind) {
  std::vector<Places> out;
  if (kind == "drawn" || kind == "sequence" || kind == "periodic") {
    out.push_back(sequence_places(two[0], drawn.sequence));
  }
  if (kind == "drawn" || kind == "tree") out.push_back(tree_places(two, drawn.nodes));
  if (kind == "drawn" || kind == "grid") out.push_back(grid_places(two, drawn.grid));
  return out;
}

CheckResult run_ape_decomposition(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  const Generators generators = generators_of(context);
  if (!generators.missing.empty()) {
    return not_measured(Verdict::premise_not_met, generators.missing);
  }
  Random random(context.seed + 3);
  const DrawnPlaces drawn = drawn_places(random);
  const std::size_t axes = generators.kind == "grid" ? generators.matrices.size() / 2 : 1;
  const Matrices two = {generators.matrices.front(),
                        generators.matrices[std::min(axes, generators.matrices.size() - 1)]};
  const std::vector<Places> right = structures(two, drawn, generators.kind);
  const std::vector<Places> wrong = structures(inflated(two, 1.02), drawn, generators.kind);
  Parts parts;
  CheckCurve curve =
      curve_of("relative against absolute", {"structure", "of |q| |k|", false, true}, {}, {});
  for (std::size_t n = 0; n < right.size(); ++n) {
    const std::int64_t dim = right[n].absolute(0).size(0);
    const at::Tensor q = normal_tensor(random, {kApeDecompositionPlaces, dim}),
                     k = normal_tensor(random, {kApeDecompositionPlaces, dim});
    const double off = decomposition_difference(right[n], q, k);
    const double bound = product_bound(two, right[n].largest_power);
    parts.below(right[n].name, off, bound);
    // 1.02^4000 leaves no number of a long sequence, which is no small one.
    const double broken = decomposition_difference(wrong[n], q, k);
    parts.control(right[n].name + " with generators times 1.02",
                  std::isfinite(broken) ? broken : 1e300, bound);
    curve.x.push_back(static_cast<double>(n)), curve.y.push_back(off);
    curve.bound.push_back(bound);
  }
  CheckResult result = parts.result();
  result.samples =
      static_cast<std::int64_t>(right.size()) * kApeDecompositionPlaces * kApeDecompositionPlaces;
  result.detail += "; numbers stored: 2 N d^2 in place of N^2 d^2";
  result.curves = {std::move(curve)};
  return result;
}

}  // namespace

Places sequence_places(const at::Tensor& generator, std::vector<std::int64_t> places) {
  Places out{"sequence", static_cast<std::int64_t>(places.size()), 2000, {}, {}};
  out.absolute = [generator, places](std::int64_t n) {
    return power_of(generator, places[static_cast<std::size_t>(n)]);
  };
  out.relative = [generator, places](std::int64_t m, std::int64_t n) {
    return power_of(generator,
                    places[static_cast<std::size_t>(n)] - places[static_cast<std::size_t>(m)]);
  };
  return out;
}

Places tree_places(const Matrices& branches, std::vector<std::int64_t> nodes) {
  Places out{"tree", static_cast<std::int64_t>(nodes.size()), 12, {}, {}};
  const auto path = [nodes](std::int64_t n) {
    return path_of_node(nodes[static_cast<std::size_t>(n)]);
  };
  out.absolute = [branches, path](std::int64_t n) {
    return path_matrix(branches, path(n), branches[0].size(0));
  };
  out.relative = [branches, path](std::int64_t m, std::int64_t n) {
    return relative_path(branches, path(m), path(n));
  };
  return out;
}

Places grid_places(const Matrices& axes, std::vector<std::vector<std::int64_t>> places) {
  Places out{"grid", static_cast<std::int64_t>(places.size()), 40, {}, {}};
  const auto map = [axes](std::int64_t row, std::int64_t column) {
    return direct_sum({power_of(axes[0], row), power_of(axes[1], column)});
  };
  const auto at = [places](std::int64_t n) { return places[static_cast<std::size_t>(n)]; };
  out.absolute = [map, at](std::int64_t n) { return map(at(n)[0], at(n)[1]); };
  out.relative = [map, at](std::int64_t m, std::int64_t n) {
    return map(at(n)[0] - at(m)[0], at(n)[1] - at(m)[1]);
  };
  return out;
}

at::Tensor relative_scores(const Places& places, const at::Tensor& q, const at::Tensor& k) {
  at::Tensor out = at::empty({places.count, places.count}, at::kDouble);
  for (std::int64_t m = 0; m < places.count; ++m) {
    for (std::int64_t n = 0; n < places.count; ++n) {
      out[m][n] = score(q[m], places.relative(m, n), k[n]);
    }
  }
  return out;
}

at::Tensor absolute_scores(const Places& places, const at::Tensor& q, const at::Tensor& k) {
  std::vector<at::Tensor> queries, keys;
  for (std::int64_t n = 0; n < places.count; ++n) {
    const at::Tensor map = places.absolute(n);
    queries.push_back(map.mv(q[n])), keys.push_back(map.mv(k[n]));
  }
  return at::matmul(at::stack(queries), at::stack(keys).t());
}

double decomposition_difference(const Places& places, const at::Tensor& q, const at::Tensor& k) {
  const at::Tensor size = q.norm(2, 1).unsqueeze(1) * k.norm(2, 1);
  return largest_entry((relative_scores(places, q, k) - absolute_scores(places, q, k)) / size);
}

TheoryCheck ape_decomposition() {
  return {{.id = "ape.decomposition",
           .statement = "The relative map from m to n is A_m^T A_n, so scores by N^2 relative maps "
                        "are scores by 2N absolute ones, for sequences, trees and grids.",
           .source = "arXiv 2312.16045, Equations 5 to 7",
           .title = "Relative maps are composed of absolute ones",
           .needs = "nothing, or an APE model",
           .rule = "holds where both scores agree in float64 to max(1e-12, p (defect + 4 d 2^-53)) "
                   "of |q| |k|, and not with generators times 1.02"},
          &run_ape_decomposition,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
