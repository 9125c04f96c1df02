#pragma once
// cape.surface: what f makes of a content score and a bias (CAPE, arXiv 2405.14722, Section 3.2, "f
// replaces a + b and a * b", corrected).
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck cape_surface();

// f of (content of all heads, bias of all heads): w2 leaky(w1 z + b1) + b2.
struct Correction {
  at::Tensor w1, b1, w2, b2;  // (D, in), (D), (H, D), (H)
  bool gelu = false;          // in place of the leaky rectifier: a surface without creases
  at::Tensor of(const at::Tensor& z) const;  // (..., in) to (..., H)
};

// Those of the layers of a CAPE model whose f reads content and bias of a pair: none of any other
// model, nor of layers without maps or with another encoding.
std::map<std::int64_t, Correction> corrections_of(const model::Model& model);

// Along a straight line of `samples` points between two inputs: second differences of one head's f
// that are not 0 (1e-12 of the largest value), and creases that the line crosses.
struct LineCorners {
  std::int64_t found = 0, crossed = 0;
};
LineCorners corners_on_line(const Correction& f, std::int64_t head, const at::Tensor& from,
                            const at::Tensor& to, std::int64_t samples = 4001);

// f of one head over its own content a and bias b, the other inputs held: (A, B).
at::Tensor surface_of(const Correction& f, std::int64_t head, const at::Tensor& held,
                      const at::Tensor& a, const at::Tensor& b);
// Shares of the surface's variance.
struct SurfaceShares {
  double affine = 0, content = 0, bias = 0, interaction = 0;
  double product_cosine = 0;  // of the interaction with a b
};
SurfaceShares surface_shares(const at::Tensor& surface, const at::Tensor& a, const at::Tensor& b);

// Pairs drawn from texts, and what a layer's f reads of them.
struct PairsRead {
  at::Tensor inputs;                           // (P, 2 H) float64: content scores, then base biases
  std::vector<std::int64_t> text, query, key;  // of each
};
// As many pairs of each of the first texts, 16 at most, `pairs` in all; a query and a key it sees
// are drawn uniformly. Without pairs where the base is no table of distances.
PairsRead pairs_read(const CheckContext& context, std::int64_t layer, std::int64_t pairs);

// The smallest convex region that holds points: its corners in order, the first one again at last.
struct ConvexRegion {
  std::vector<double> x, y;
};
ConvexRegion region_around(std::vector<std::pair<double, double>> points);
// How many of f's creases in (own content, own bias) cross a region, the other inputs held.
std::int64_t creases_inside(const Correction& f, std::int64_t head, const at::Tensor& held,
                            const ConvexRegion& region);

// |f - a b| on |a|, |b| <= 1 of the best f that ridges along a + b and a - b give, `width` units a
// multiple of 4; 4/(D + 2)^2 by construction. No f of that width is better than 1/(2 (D + 1)^2).
double product_error(std::int64_t width);

// 16 random lines: no more than 2 samples a crease crossed.
CheckResult judge_surface(const Correction& f, std::uint64_t seed);

}  // namespace phasescope::analysis
