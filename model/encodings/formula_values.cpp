#include "model/encodings/formula_values.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "model/encodings/t5.h"

namespace phasescope::model {

using formula::Node;
using formula::Op;

namespace {

constexpr double kLeakOfUnits = 0.01;
constexpr double kRmsFloor = 1e-6;

bool is_number(const Node& node) { return node.op == Op::number && node.width == 1; }

// Nodes that a value is made of, itself among them.
std::vector<char> needed(const formula::Formula& f, int id) {
  std::vector<char> wanted(static_cast<std::size_t>(id) + 1, 0);
  wanted.back() = 1;
  for (int n = id; n >= 0; --n) {
    if (!wanted[static_cast<std::size_t>(n)]) continue;
    for (const int arg : f.at(n).args) wanted[static_cast<std::size_t>(arg)] = 1;
  }
  return wanted;
}

// sum_c u_c v_c of every pair: as a matrix product where one has no keys and the other no queries.
at::Tensor products_of(const at::Tensor& u, const at::Tensor& v) {
  if (u.size(-1) == v.size(-1) && u.size(3) == 1 && v.size(2) == 1) {
    return at::matmul(u.squeeze(3), v.squeeze(2).transpose(-1, -2)).unsqueeze(-1);
  }
  if (u.size(-1) == v.size(-1) && u.size(2) == 1 && v.size(3) == 1) return products_of(v, u);
  return (u * v).sum(-1, true);
}

// x of all heads as numbers of one value: (B, 1, rows, columns, heads).
at::Tensor all_heads(const at::Tensor& x, std::int64_t heads) {
  const at::Tensor own = x.squeeze(-1);  // (B, heads or 1, rows, columns)
  return own.expand({-1, heads, -1, -1}).permute({0, 2, 3, 1}).unsqueeze(1);
}

// The entry of each head in its own numbers: (B, heads, rows, columns, 1).
at::Tensor own_entries(const at::Tensor& v) {
  const at::Tensor each = v.size(1) == 1 ? v.squeeze(1) : at::diagonal(v, 0, 1, 4);
  return each.permute({0, 3, 1, 2}).unsqueeze(-1);
}

at::Tensor of_one(Op op, const at::Tensor& x) {
  switch (op) {
    case Op::negate:
      return -x;
    case Op::exp:
      return x.exp();
    case Op::log:
      return x.log();
    case Op::log1p:
      return x.log1p();
    case Op::cos:
      return x.cos();
    case Op::sin:
      return x.sin();
    case Op::tanh:
      return x.tanh();
    case Op::abs:
      return x.abs();
    case Op::floor:
      return x.floor();
    case Op::sigmoid:
      return x.sigmoid();
    case Op::softplus:
      return at::softplus(x, 1, 30);
    case Op::relu:
      return at::relu(x);
    case Op::leaky:
      return at::leaky_relu(x, kLeakOfUnits);
    case Op::silu:
      return at::silu(x);
    case Op::sum:
      return x.sum(-1, true);
    case Op::rms:
      return (x.square().mean(-1, true) + kRmsFloor).sqrt();
    case Op::own:
      return own_entries(x);
    default:
      return {};
  }
}

// 1 where a number is 0, itself elsewhere: what a power or a root is taken of, so that its slope at
// 0, infinite, never meets a 0.
at::Tensor off_zero(const at::Tensor& x) { return at::where(x == 0, at::ones_like(x), x); }

}  // namespace

FormulaValues::FormulaValues(const formula::Formula& formula, const Parameters& parameters,
                             FormulaAxes axes, RotationLayout layout)
    : f_(formula), parameters_(parameters), axes_(std::move(axes)), layout_(layout) {}

at::Tensor FormulaValues::of(int id) const {
  const std::vector<char> wanted = needed(f_, id);
  std::vector<int> uses(wanted.size(), 0);
  for (int n = 0; n <= id; ++n) {
    if (!wanted[static_cast<std::size_t>(n)]) continue;
    for (const int arg : f_.at(n).args) ++uses[static_cast<std::size_t>(arg)];
  }
  std::vector<at::Tensor> values(wanted.size());
  for (int n = 0; n <= id; ++n) {
    if (!wanted[static_cast<std::size_t>(n)]) continue;
    values[static_cast<std::size_t>(n)] = of_node(f_.at(n), values);
    for (const int arg : f_.at(n).args) {
      if (--uses[static_cast<std::size_t>(arg)] == 0) {
        values[static_cast<std::size_t>(arg)] = at::Tensor();
      }
    }
  }
  return values.back();
}

at::Tensor FormulaValues::of(const formula::Terms& terms) const {
  const at::TensorOptions options = axes_.options();
  at::Tensor sum = at::zeros({1, 1, 1, 1, 1}, options);
  for (const auto& [product, c] : terms) {
    at::Tensor value = at::full({1, 1, 1, 1, 1}, c, options);
    for (const formula::Factor& factor : product) {
      at::Tensor parts;
      for (const auto& [id, power] : factor.parts) {
        const at::Tensor part = power == 1 ? of(id) : of(id).pow(power);
        parts = parts.defined() ? parts * part : part;
      }
      value = value * (factor.summed ? parts.sum(-1, true) : parts);
    }
    sum = sum + value;
  }
  return sum;
}

at::Tensor FormulaValues::parameter(int index) const {
  const formula::Parameter& p = f_.parameters[static_cast<std::size_t>(index)];
  const at::Tensor stored = parameters_.at(p.name).to(axes_.dtype);
  return p.low ? stored.clamp(*p.low, *p.high) : stored;
}

at::Tensor FormulaValues::of_parameter(int index) const {
  const formula::Parameter& p = f_.parameters[static_cast<std::size_t>(index)];
  at::Tensor value = parameter(index);
  if (p.shape.empty()) return value.view({1, 1, 1, 1, 1});
  if (!p.by_head[0]) return value.view({1, 1, 1, 1, -1});
  value = value.narrow(0, axes_.first_head, axes_.heads);
  return value.view({1, axes_.heads, 1, 1, p.shape.size() == 2 ? p.shape[1] : 1});
}

at::Tensor FormulaValues::of_node(const Node& node, const std::vector<at::Tensor>& values) const {
  const auto arg = [&](std::size_t n) { return values[static_cast<std::size_t>(node.args[n])]; };
  switch (node.op) {
    case Op::number:
      return tensor_of(node.numbers, axes_.options().dtype(at::kDouble))
          .to(axes_.dtype)
          .view({1, 1, 1, 1, -1});
    case Op::content:
      return axes_.content;
    case Op::q:
      return axes_.q;
    case Op::k:
      return axes_.k;
    case Op::distance:
      return axes_.distance;
    case Op::difference:
      return axes_.difference;
    case Op::i:
      return axes_.query_place;
    case Op::j:
      return axes_.key_place;
    case Op::length:
      return at::full({1, 1, 1, 1, 1}, axes_.length, axes_.options());
    case Op::parameter:
      return of_parameter(node.parameter);
    case Op::where:
      return at::where(arg(0) != 0, arg(1), arg(2));
    case Op::sqrt:
      return at::where(arg(0) == 0, at::zeros_like(arg(0)), off_zero(arg(0)).sqrt());
    case Op::heads:
      return all_heads(arg(0), f_.sizes.heads);
    case Op::linear:
      return at::linear(arg(0), parameter(node.parameter));
    case Op::lookup:
      return looked_up(node.parameter, arg(0));
    case Op::t5_bucket:
      return bucket(node, arg(0));
    case Op::slice:
      return arg(0).slice(-1, node.from, node.to);
    case Op::join: {
      std::vector<at::Tensor> parts;
      for (const int id : node.args) parts.push_back(values[static_cast<std::size_t>(id)]);
      std::vector<at::Tensor> same;
      std::vector<std::int64_t> sizes{1, 1, 1, 1};
      for (const at::Tensor& part : parts) {
        for (std::size_t n = 0; n < 4; ++n) {
          sizes[n] = std::max(sizes[n], part.size(static_cast<std::int64_t>(n)));
        }
      }
      for (const at::Tensor& part : parts) {
        same.push_back(part.expand({sizes[0], sizes[1], sizes[2], sizes[3], -1}));
      }
      return at::cat(same, -1);
    }
    default:
      return node.args.size() == 1 ? of_one(node.op, arg(0)) : of_two(node, arg(0), arg(1));
  }
}

at::Tensor FormulaValues::of_two(const Node& node, const at::Tensor& a, const at::Tensor& b) const {
  switch (node.op) {
    case Op::add:
      return a + b;
    case Op::subtract:
      return a - b;
    case Op::multiply:
      return a * b;
    case Op::divide:
      return a / b;
    case Op::power:
      return power(node, a, b);
    case Op::less:
      return (a < b).to(axes_.dtype);
    case Op::less_equal:
      return (a <= b).to(axes_.dtype);
    case Op::greater:
      return (a > b).to(axes_.dtype);
    case Op::greater_equal:
      return (a >= b).to(axes_.dtype);
    case Op::equal:
      return (a == b).to(axes_.dtype);
    case Op::min:
      return at::minimum(a, b);
    case Op::max:
      return at::maximum(a, b);
    case Op::dot:
      return products_of(a, b);
    case Op::inphase:
      return planes(a, false) * planes(b, false) + planes(a, true) * planes(b, true);
    case Op::quadrature:
      return planes(a, false) * planes(b, true) - planes(a, true) * planes(b, false);
    default:
      return {};
  }
}

// 0 to a positive power is 0, and its slopes are 0.
at::Tensor FormulaValues::power(const Node& node, const at::Tensor& base,
                                const at::Tensor& exponent) const {
  const Node& given = f_.at(node.args[1]);
  if (is_number(given) && given.numbers[0] >= 1 &&
      given.numbers[0] == std::floor(given.numbers[0])) {
    return at::pow(base, given.numbers[0]);
  }
  if (f_.at(node.args[0]).op == Op::number) return at::pow(base, exponent);
  const at::Tensor at_zero = at::pow(at::zeros_like(base), exponent.detach());  // 0, 1 or infinite
  return at::where(base == 0, at_zero, at::pow(off_zero(base), exponent));
}

// The real or imaginary parts of pairs of channels.
at::Tensor FormulaValues::planes(const at::Tensor& x, bool second) const {
  const std::int64_t half = x.size(-1) / 2;
  if (layout_ == RotationLayout::half) return x.narrow(-1, second ? half : 0, half);
  return x.slice(-1, second ? 1 : 0, x.size(-1), 2);
}

// Entries of a table [n, head] at places rounded down and kept inside.
at::Tensor FormulaValues::looked_up(int index, const at::Tensor& places) const {
  const at::Tensor table = parameter(index).t().narrow(0, axes_.first_head, axes_.heads);
  const at::Tensor at =
      places.detach().floor().clamp(0, static_cast<double>(table.size(1) - 1)).to(at::kLong);
  if (at.size(1) == 1) {
    return table.index_select(1, at.flatten())
        .unflatten(1, at.select(1, 0).squeeze(-1).sizes())
        .transpose(0, 1)
        .unsqueeze(-1);
  }
  const at::Tensor by_head = at.squeeze(-1).transpose(0, 1);  // (heads, B, rows, columns)
  return table.gather(1, by_head.flatten(1))
      .unflatten(1, by_head.sizes().slice(1))
      .transpose(0, 1)
      .unsqueeze(-1);
}

at::Tensor FormulaValues::bucket(const Node& node, const at::Tensor& distance) const {
  const auto whole = [&](std::size_t n) {
    return static_cast<std::int64_t>(f_.at(node.args[n]).numbers[0]);
  };
  const at::Tensor places = distance.detach().trunc().clamp_min(0).to(at::kLong);
  return one_sided_bucket(places, whole(1), whole(2)).to(axes_.dtype);
}

std::int64_t formula_arrays(const formula::Formula& f) {
  using namespace formula;
  const std::vector<char> wanted = needed(f, f.score);
  std::int64_t arrays = 0;
  for (int n = 0; n <= f.score; ++n) {
    const Node& node = f.at(n);
    const bool of_query = (node.reads & (kReadsQuery | kReadsQueryPlace)) != 0;
    const bool of_key = (node.reads & (kReadsKey | kReadsKeyPlace)) != 0;
    const bool of_pairs = (node.reads & kReadsDistance) || (of_query && of_key);
    if (!wanted[static_cast<std::size_t>(n)] || !of_pairs) continue;
    arrays += node.width * ((node.reads & kVariesByHead) ? f.sizes.heads : 1);
  }
  return 2 * arrays;
}

}  // namespace phasescope::model
