#include "formats/formula/terms.h"

#include <algorithm>

namespace phasescope::formula {

namespace {

constexpr std::size_t kMostProducts = 64;
constexpr std::size_t kMostFactors = 32;

// Whether sums and products of it are taken apart.
bool is_open(const Node& node) {
  switch (node.op) {
    case Op::add:
    case Op::subtract:
    case Op::negate:
    case Op::multiply:
    case Op::divide:
    case Op::sum:
    case Op::own:
      return true;
    default:
      return false;
  }
}

Factor alone(int id, int power = 1) { return {false, {{id, power}}}; }

class Expansion {
 public:
  explicit Expansion(Formula& formula) : f_(formula) {}

  std::optional<Terms> of(int id) {
    std::vector<char> wanted(static_cast<std::size_t>(id) + 1, 0);
    wanted.back() = 1;
    for (int n = id; n >= 0; --n) {
      if (!wanted[static_cast<std::size_t>(n)] || !is_open(f_.at(n))) continue;
      for (const int arg : f_.at(n).args) wanted[static_cast<std::size_t>(arg)] = 1;
    }
    for (int n = 0; n <= id; ++n) {
      if (!wanted[static_cast<std::size_t>(n)]) continue;
      known_[n] = of_node(n);
      if (known_[n].size() > kMostProducts || too_long_) return {};
    }
    return known_[id];
  }

 private:
  Terms of_node(int id) {
    const Node node = f_.at(id);
    const auto arg = [&](std::size_t n) -> const Terms& { return known_[node.args[n]]; };
    switch (node.op) {
      case Op::number:
        return node.width == 1 ? Terms{{{}, node.numbers[0]}} : Terms{{{alone(id)}, 1.0}};
      case Op::add:
        return sum(arg(0), arg(1), 1);
      case Op::subtract:
        return sum(arg(0), arg(1), -1);
      case Op::negate:
        return sum({}, arg(0), -1);
      case Op::multiply:
        return product(arg(0), arg(1));
      case Op::divide:
        return product(arg(0), inverse(node.args[1]));
      case Op::sum:
        return summed(arg(0), f_.at(node.args[0]).width);
      case Op::own:
        return own(id, arg(0));
      case Op::dot:
        return of_dot(id, node);
      default:
        return {{{alone(id)}, 1.0}};
    }
  }

  // The product of the query and the key themselves is the content over its scale.
  Terms of_dot(int id, const Node& node) {
    const Op a = f_.at(node.args[0]).op, b = f_.at(node.args[1]).op;
    if ((a == Op::q && b == Op::k) || (a == Op::k && b == Op::q)) {
      Node content{.op = Op::content};
      content.reads = kReadsPair | kVariesByHead;
      return {{{alone(f_.add(std::move(content)))}, 1 / f_.sizes.scale}};
    }
    return {{{alone(id)}, 1.0}};
  }

  static Terms sum(Terms a, const Terms& b, double sign) {
    for (const auto& [product, c] : b) a[product] += sign * c;
    std::erase_if(a, [](const auto& one) { return one.second == 0; });
    return a;
  }

  Product merged(const Product& a, const Product& b) {
    std::map<int, int> powers;
    Product out;
    for (const Product* side : {&a, &b}) {
      for (const Factor& factor : *side) {
        if (factor.summed) {
          out.push_back(factor);
        } else {
          powers[factor.parts[0].first] += factor.parts[0].second;
        }
      }
    }
    for (const auto& [id, power] : powers) {
      if (power != 0) out.push_back(alone(id, power));
    }
    std::sort(out.begin(), out.end());
    if (out.size() > kMostFactors) too_long_ = true;
    return out;
  }

  Terms product(const Terms& a, const Terms& b) {
    if (a.size() * b.size() > 4 * kMostProducts) {
      too_long_ = true;
      return {};
    }
    Terms out;
    for (const auto& [left, c] : a) {
      for (const auto& [right, e] : b) out[merged(left, right)] += c * e;
    }
    std::erase_if(out, [](const auto& one) { return one.second == 0; });
    return out;
  }

  // One product without sums over channels turns round; all else is one thing to the power -1.
  Terms inverse(int id) {
    const Terms& terms = known_[id];
    const bool single = terms.size() == 1 && terms.begin()->second != 0 &&
                        std::ranges::none_of(terms.begin()->first, &Factor::summed);
    if (!single) return {{{alone(id, -1)}, 1.0}};
    Product turned = terms.begin()->first;
    for (Factor& factor : turned) factor.parts[0].second *= -1;
    std::sort(turned.begin(), turned.end());
    return {{turned, 1 / terms.begin()->second}};
  }

  // Over the channels: what is one number stands outside.
  Terms summed(const Terms& terms, std::int64_t width) {
    Terms out;
    for (const auto& [product, c] : terms) {
      Product outside;
      Factor inside{true, {}};
      for (const Factor& factor : product) {
        if (!factor.summed && f_.at(factor.parts[0].first).width > 1) {
          inside.parts.push_back(factor.parts[0]);
        } else {
          outside.push_back(factor);
        }
      }
      const bool constant = inside.parts.empty();
      if (!constant) outside.push_back(std::move(inside));
      std::sort(outside.begin(), outside.end());
      out[outside] += constant ? c * static_cast<double>(width) : c;
    }
    return out;
  }

  // The own head's entry of each product, where one thing in it has an entry a head.
  Terms own(int id, const Terms& terms) {
    Terms out;
    for (const auto& [product, c] : terms) {
      Product own;
      int vectors = 0;
      for (const Factor& factor : product) {
        const auto [part, power] = factor.parts[0];
        if (factor.summed || f_.at(part).width == 1) {
          own.push_back(factor);
          continue;
        }
        ++vectors;
        own.push_back(
            alone(f_.add({.op = Op::own, .args = {part}, .column = f_.at(id).column}), power));
      }
      if (vectors > 1) return {{{alone(id)}, 1.0}};
      std::sort(own.begin(), own.end());
      out[own] += c;
    }
    return out;
  }

  Formula& f_;
  std::map<int, Terms> known_;
  bool too_long_ = false;
};

}  // namespace

std::optional<Terms> expanded(Formula& formula, int id) { return Expansion(formula).of(id); }

unsigned reads_of(const Formula& formula, const Factor& factor) {
  unsigned reads = 0;
  for (const auto& [id, power] : factor.parts) reads |= formula.at(id).reads;
  return reads;
}

unsigned reads_of(const Formula& formula, const Terms& terms) {
  unsigned reads = 0;
  for (const auto& [product, c] : terms) {
    for (const Factor& factor : product) reads |= reads_of(formula, factor);
  }
  return reads;
}

}  // namespace phasescope::formula
