#include "formats/formula/units.h"

#include <charconv>
#include <cmath>

namespace phasescope::formula {

namespace {

constexpr double kNone = 1e-9;  // exponents below it are rounding

// Exponents of tokens and radians, and of the parameters' own units.
struct Unit {
  std::map<int, double> parameters;
  double tokens = 0, radians = 0;
  bool known = true;
};

Unit times(const Unit& a, const Unit& b, double exponent = 1) {
  Unit out = a;
  out.known = a.known && b.known;
  for (const auto& [parameter, n] : b.parameters) out.parameters[parameter] += exponent * n;
  out.tokens += exponent * b.tokens, out.radians += exponent * b.radians;
  return out;
}

// The units of all nodes, and what must be equal for the formula to be whole.
class Units {
 public:
  explicit Units(Formula& formula) : f_(formula) {
    for (const Node& node : f_.nodes) units_.push_back(unit_of(node));
    equal(units_[static_cast<std::size_t>(f_.score)], {});
  }

  void write() {
    eliminate();
    for (std::size_t p = 0; p < f_.parameters.size(); ++p) {
      f_.parameters[p].unit = text_of(static_cast<int>(p));
    }
  }

 private:
  const Unit& arg(const Node& node, std::size_t n) const {
    return units_[static_cast<std::size_t>(node.args[n])];
  }

  void equal(const Unit& a, const Unit& b) {
    const Unit difference = times(a, b, -1);
    if (difference.known) equations_.push_back(difference);
  }

  Unit unit_of(const Node& node) {
    switch (node.op) {
      case Op::distance:
      case Op::difference:
      case Op::i:
      case Op::j:
      case Op::length:
        return {{}, 1, 0, true};
      case Op::parameter:
        return {{{node.parameter, 1.0}}, 0, 0, true};
      case Op::lookup:
        return {{{node.parameter, 1.0}}, 0, 0, true};
      case Op::linear:
        return times(arg(node, 0), {{{node.parameter, 1.0}}, 0, 0, true});
      case Op::add:
      case Op::subtract:
      case Op::min:
      case Op::max:
      case Op::join:
        for (std::size_t n = 1; n < node.args.size(); ++n) equal(arg(node, 0), arg(node, n));
        return arg(node, 0);
      case Op::where:
        equal(arg(node, 1), arg(node, 2));
        return arg(node, 1);
      case Op::multiply:
      case Op::dot:
      case Op::inphase:
      case Op::quadrature:
        return times(arg(node, 0), arg(node, 1));
      case Op::divide:
        return times(arg(node, 0), arg(node, 1), -1);
      case Op::power:
        return of_power(node);
      case Op::sqrt:
        return times({}, arg(node, 0), 0.5);
      case Op::cos:
      case Op::sin:
        equal(arg(node, 0), {{}, 0, 1, true});
        return {};
      case Op::exp:
      case Op::log:
      case Op::log1p:
      case Op::tanh:
      case Op::sigmoid:
      case Op::softplus:
      case Op::silu:
        equal(arg(node, 0), {});
        return {};
      case Op::less:
      case Op::less_equal:
      case Op::greater:
      case Op::greater_equal:
      case Op::equal:
        equal(arg(node, 0), arg(node, 1));
        return {};
      case Op::negate:
      case Op::abs:
      case Op::floor:
      case Op::relu:
      case Op::leaky:
      case Op::sum:
      case Op::rms:
      case Op::heads:
      case Op::own:
      case Op::slice:
        return arg(node, 0);
      default:
        return {};
    }
  }

  Unit of_power(const Node& node) {
    const Node& exponent = f_.at(node.args[1]);
    if (exponent.op == Op::number && exponent.width == 1) {
      return times({}, arg(node, 0), exponent.numbers[0]);
    }
    equal(arg(node, 1), {});
    Unit open;
    // A power of pure numbers is a pure number.
    open.known = exponent.op == Op::number || f_.at(node.args[0]).op == Op::number;
    if (open.known) equal(arg(node, 0), {});
    return open;
  }

  // Gauss and Jordan: every pivot's parameter is left with one equation of its own.
  void eliminate() {
    for (Unit row : equations_) {
      for (const auto& [pivot, known] : solved_) reduce(row, pivot, known);
      const auto pivot = largest(row);
      if (pivot < 0) continue;
      const Unit scaled = times({}, row, 1 / row.parameters[pivot]);
      for (auto& [other, known] : solved_) reduce(known, pivot, scaled);
      solved_[pivot] = scaled;
    }
  }

  static void reduce(Unit& row, int pivot, const Unit& known) {
    const auto found = row.parameters.find(pivot);
    if (found == row.parameters.end() || std::abs(found->second) < kNone) return;
    row = times(row, known, -found->second);
  }

  static int largest(const Unit& row) {
    int best = -1;
    double size = kNone;
    for (const auto& [parameter, n] : row.parameters) {
      if (std::abs(n) > size) best = parameter, size = std::abs(n);
    }
    return best;
  }

  static std::string with_exponent(const char* word, double exponent) {
    if (std::abs(exponent - 1) < kNone) return word;
    char digits[32];
    const auto end =
        std::to_chars(digits, digits + sizeof(digits), exponent, std::chars_format::general, 4);
    return std::string(word) + "^" + std::string(digits, end.ptr);
  }

  std::string text_of(int parameter) const {
    const auto found = solved_.find(parameter);
    if (found == solved_.end()) return "not determined";
    for (const auto& [other, n] : found->second.parameters) {
      if (other != parameter && std::abs(n) > kNone) return "not determined";
    }
    // The equation says: unit + constants = 0.
    const double tokens = -found->second.tokens, radians = -found->second.radians;
    std::string above, below;
    const auto put = [&](const char* word, double n) {
      if (std::abs(n) < kNone) return;
      std::string& side = n > 0 ? above : below;
      side += (side.empty() ? "" : " ") + with_exponent(word, std::abs(n));
    };
    put("radians", radians);
    put("tokens", tokens);
    if (above.empty() && below.empty()) return "none";
    if (below.empty()) return above;
    return (above.empty() ? "1" : above) + "/" + below;
  }

  Formula& f_;
  std::vector<Unit> units_, equations_;
  std::map<int, Unit> solved_;
};

using Known = std::optional<double>;

// The value where lam, i and j are 0 and no parameter is; nothing where it is not known.
Known at_zero(const Formula& f, const Node& node, const std::vector<Known>& values) {
  const auto arg = [&](std::size_t n) { return values[static_cast<std::size_t>(node.args[n])]; };
  switch (node.op) {
    case Op::number:
      return node.width == 1 ? Known(node.numbers[0]) : Known();
    case Op::distance:
    case Op::difference:
    case Op::i:
    case Op::j:
      return 0.0;
    case Op::multiply:
      if (arg(0) == 0.0 || arg(1) == 0.0) return 0.0;
      return arg(0) && arg(1) ? Known(*arg(0) * *arg(1)) : Known();
    case Op::power:
      if (arg(0) == 0.0 && f.at(node.args[1]).op != Op::number) return {};
      return arg(0) && arg(1) ? Known(apply(Op::power, *arg(0), *arg(1))) : Known();
    case Op::divide:
      if (arg(0) == 0.0) return 0.0;
      return arg(0) && arg(1) ? Known(*arg(0) / *arg(1)) : Known();
    case Op::add:
    case Op::subtract:
    case Op::min:
    case Op::max:
      return arg(0) && arg(1) ? Known(apply(node.op, *arg(0), *arg(1))) : Known();
    case Op::slice:
    case Op::sum:
      return arg(0) == 0.0 ? arg(0) : Known();
    default:
      if (node.args.size() == 1 && node.op >= Op::negate && node.op <= Op::silu && arg(0)) {
        return apply(node.op, *arg(0));
      }
      return {};
  }
}

}  // namespace

void find_units(Formula& formula) { Units(formula).write(); }

void warn_of_zeros(Formula& formula) {
  std::vector<Known> values;
  for (const Node& node : formula.nodes) {
    values.push_back(at_zero(formula, node, values));
    const auto is = [&](std::size_t arg, double number) {
      return values[static_cast<std::size_t>(node.args[arg])] == number;
    };
    const bool logarithm =
        (node.op == Op::log && is(0, 0.0)) || (node.op == Op::log1p && is(0, -1.0));
    if (!logarithm && !(node.op == Op::divide && is(1, 0.0))) continue;
    formula.warnings.push_back("column " + std::to_string(node.column) +
                               (logarithm ? ": the logarithm is of 0" : ": this divides by 0") +
                               " where lam is 0");
  }
}

void warn_of_idle_parameters(Formula& formula) {
  std::vector<char> wanted(formula.nodes.size(), 0), read(formula.parameters.size(), 0);
  wanted[static_cast<std::size_t>(formula.score)] = 1;
  for (int n = formula.score; n >= 0; --n) {
    if (!wanted[static_cast<std::size_t>(n)]) continue;
    const Node& node = formula.at(n);
    for (const int arg : node.args) wanted[static_cast<std::size_t>(arg)] = 1;
    if (node.parameter >= 0) read[static_cast<std::size_t>(node.parameter)] = 1;
  }
  for (std::size_t p = 0; p < read.size(); ++p) {
    if (read[p]) continue;
    const Parameter& idle = formula.parameters[p];
    formula.warnings.push_back("column " + std::to_string(idle.column) +
                               ": the score does not read " + idle.name);
  }
}

}  // namespace phasescope::formula
