#include "analysis/theory/orthogonal_matrices.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "analysis/tensors.h"
#include "analysis/worst.h"
#include "model/checkpoints/open_model.h"
#include "model/host_memory.h"

namespace phasescope::analysis {
namespace {

// exp loses some 1e-14, and an eigenvector as much over the distance of its eigenvalue.
constexpr double kSameEigenvalue = 1e-7;

// Columns that complete the orthonormal columns of `part` (d, r) to a basis.
at::Tensor complement(const at::Tensor& part, std::int64_t dim) {
  if (part.size(1) == 0) return at::eye(dim, at::kDouble);
  const at::Tensor q = std::get<0>(at::linalg_qr(part, "complete"));
  return q.narrow(1, part.size(1), dim - part.size(1));
}

// Eigenvectors x + i y of e^(i theta), 0 < theta < pi: planes (x, -y), of length 1.
void add_planes(const at::Tensor& w, std::vector<at::Tensor>& columns,
                std::vector<double>& angles) {
  const at::Tensor symmetric = (w + w.t()) / 2, skew = (w - w.t()) / 2;
  // A Hermitian matrix with the same eigenvectors: 0.3 cos theta + sin theta tells them apart.
  const at::Tensor hermitian = at::complex(0.3 * symmetric, -skew);
  const at::Tensor vectors = std::get<1>(at::linalg_eigh(hermitian));
  for (std::int64_t n = 0; n < w.size(0); ++n) {
    const at::Tensor v = vectors.select(1, n);
    const at::Tensor x = at::real(v), y = at::imag(v);
    const double c = (x.dot(w.mv(x)) + y.dot(w.mv(y))).item<double>();
    const double s = (x.dot(w.mv(y)) - y.dot(w.mv(x))).item<double>();
    const double angle = std::atan2(s, c);
    if (angle < kSameEigenvalue || angle > std::numbers::pi - kSameEigenvalue) continue;
    columns.push_back(x * std::numbers::sqrt2);
    columns.push_back(-y * std::numbers::sqrt2);
    angles.push_back(angle);
  }
}

Matrices of_generator(const at::Tensor& generator) {
  const at::Tensor all = model::on_host(generator).to(at::kDouble).flatten(0, -3);
  Matrices out;
  for (std::int64_t n = 0; n < all.size(0); ++n) {
    out.push_back(at::linalg_matrix_exp(all[n] - all[n].t()));
  }
  return out;
}

Matrices of_turns(const model::Model& model, double period) {
  const model::Parameters& shared = model.decoder.weights().encoding;
  const at::Tensor basis = model::on_host(shared.at("basis")).to(at::kDouble);
  const at::Tensor turns = model::on_host(shared.at("turns")).to(at::kDouble);
  Matrices out;
  for (std::int64_t head = 0; head < basis.size(0); ++head) {
    std::vector<double> angles = to_vector<double>(turns[head]);
    for (double& angle : angles) angle *= 2 * std::numbers::pi / period;
    const at::Tensor p = std::get<0>(at::linalg_qr(basis[head]));
    out.push_back(at::matmul(at::matmul(p, rotation_blocks(angles)), p.t()));
  }
  return out;
}

}  // namespace

at::Tensor normal_tensor(Random& random, std::vector<std::int64_t> shape) {
  at::Tensor out = at::empty(shape, at::kDouble);
  for (std::int64_t n = 0; n < out.numel(); ++n) out.data_ptr<double>()[n] = random.normal();
  return out;
}

at::Tensor drawn_rotation(Random& random, std::int64_t dim, double scale) {
  const at::Tensor upper = normal_tensor(random, {dim, dim}).triu(1) * scale;
  return at::linalg_matrix_exp(upper - upper.t());
}

at::Tensor drawn_orthogonal(Random& random, std::int64_t dim, double sign) {
  at::Tensor q = std::get<0>(at::linalg_qr(normal_tensor(random, {dim, dim}))).contiguous();
  if (sign != 0 && determinant(q) * sign < 0) q.select(1, 0).neg_();
  return q;
}

at::Tensor power_of(const at::Tensor& matrix, std::int64_t power) {
  at::Tensor factor = power < 0 ? matrix.t() : matrix;
  at::Tensor out = at::eye(matrix.size(0), at::kDouble);
  for (auto left = static_cast<std::uint64_t>(std::abs(power)); left > 0; left >>= 1) {
    if (left & 1) out = at::matmul(out, factor);
    factor = at::matmul(factor, factor);
  }
  return out;
}

at::Tensor rotation_blocks(const std::vector<double>& angles) {
  const auto planes = static_cast<std::int64_t>(angles.size());
  at::Tensor out = at::zeros({2 * planes, 2 * planes}, at::kDouble);
  auto at = out.accessor<double, 2>();
  for (std::int64_t m = 0; m < planes; ++m) {
    const double angle = angles[static_cast<std::size_t>(m)];
    at[2 * m][2 * m] = at[2 * m + 1][2 * m + 1] = std::cos(angle);
    at[2 * m + 1][2 * m] = std::sin(angle);
    at[2 * m][2 * m + 1] = -std::sin(angle);
  }
  return out;
}

at::Tensor direct_sum(const Matrices& parts) { return at::block_diag(parts); }

at::Tensor path_matrix(const Matrices& branches, const std::vector<std::int64_t>& path,
                       std::int64_t dim) {
  at::Tensor out = at::eye(dim, at::kDouble);
  for (const std::int64_t branch : path) {
    out = at::matmul(out, branches.at(static_cast<std::size_t>(branch)));
  }
  return out;
}

std::vector<std::int64_t> path_of_node(std::int64_t node) {
  std::vector<std::int64_t> path;
  for (; node > 1; node /= 2) path.push_back(node % 2);
  std::ranges::reverse(path);
  return path;
}

double largest_entry(const at::Tensor& x) { return x.abs().max().item<double>(); }

double spectral_norm(const at::Tensor& matrix) {
  return at::linalg_svdvals(matrix).max().item<double>();
}

double orthogonality_defect(const at::Tensor& matrix) {
  return spectral_norm(at::matmul(matrix.t(), matrix) - at::eye(matrix.size(0), at::kDouble));
}

double determinant(const at::Tensor& matrix) { return at::linalg_det(matrix).item<double>(); }

double score(const at::Tensor& q, const at::Tensor& matrix, const at::Tensor& k) {
  return q.dot(matrix.mv(k)).item<double>();
}

double power_rounding(std::int64_t dim, double power) {
  return 4 * static_cast<double>(dim) * power * 0x1p-53;
}

double product_bound(const Matrices& generators, double power) {
  double defect = 0;
  for (const at::Tensor& w : generators) defect = worst_of(defect, orthogonality_defect(w));
  return std::max(1e-12, power * (defect + power_rounding(generators[0].size(0), 1)));
}

CanonicalForm canonical_form(const at::Tensor& orthogonal) {
  const std::int64_t dim = orthogonal.size(0);
  CanonicalForm form;
  std::vector<at::Tensor> columns;
  add_planes(orthogonal, columns, form.angles);
  const at::Tensor planes =
      columns.empty() ? at::empty({dim, 0}, at::kDouble) : at::stack(columns, 1);
  const at::Tensor rest = complement(planes, dim);
  form.basis = planes;
  if (rest.size(1) == 0) return form;
  const at::Tensor inner = at::matmul(rest.t(), at::matmul(orthogonal, rest));
  const auto [values, vectors] = at::linalg_eigh((inner + inner.t()) / 2);  // ascending
  const std::int64_t minus = values.lt(0).sum().item<std::int64_t>();
  const std::int64_t plus = rest.size(1) - minus;
  form.basis = at::cat({planes, at::matmul(rest, vectors.flip(1))}, 1);
  form.angles.insert(form.angles.end(), static_cast<std::size_t>(plus / 2), 0.0);
  form.plus = plus % 2, form.minus = minus % 2;
  // Single directions stand after the planes: that of +1 goes behind the planes of angle pi.
  if (form.plus == 1 && minus > 1) {
    const std::int64_t at = planes.size(1) + plus - 1;
    form.basis = at::cat(
        {form.basis.narrow(1, 0, at), form.basis.narrow(1, at + 1, minus / 2 * 2),
         form.basis.narrow(1, at, 1), form.basis.narrow(1, at + 1 + minus / 2 * 2, minus % 2)},
        1);
  }
  form.angles.insert(form.angles.end(), static_cast<std::size_t>(minus / 2), std::numbers::pi);
  return form;
}

Generators generators_of(const CheckContext& context, std::int64_t drawn_dim) {
  Generators out;
  if (context.model == nullptr) {
    Random random(context.seed);
    out.kind = "drawn";
    out.matrices = {drawn_rotation(random, drawn_dim), drawn_rotation(random, drawn_dim)};
    return out;
  }
  const model::Model& model = *context.model;
  const std::string& key = model.config().encoding.key;
  if (key == "ape_periodic") {
    out.period = model.encoding().options().at("period").get<std::int64_t>();
    out.matrices = of_turns(model, static_cast<double>(out.period));
  } else if (key.starts_with("ape_")) {
    out.matrices = of_generator(model.decoder.weights().encoding.at("generator"));
  } else {
    out.missing =
        "premise: positions as powers of orthogonal matrices; this model's encoding is " + key;
    return out;
  }
  out.kind = key.substr(4);
  return out;
}

}  // namespace phasescope::analysis
