// Nodes of a formula: what they are called, how wide they are, and numbers of numbers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "formats/formula/formula.h"

namespace phasescope::formula {

namespace {

constexpr double kLeakOfLeaky = 0.01;

void append_bits(std::string& key, double number) {
  char bytes[sizeof(double)];
  std::memcpy(bytes, &number, sizeof(double));
  key.append(bytes, sizeof(double));
}

std::string key_of(const Node& node) {
  std::string key = std::to_string(static_cast<int>(node.op)) + ':' +
                    std::to_string(node.parameter) + ':' + std::to_string(node.from) + ':' +
                    std::to_string(node.to) + ':' + std::to_string(node.width);
  for (const int arg : node.args) key += ',' + std::to_string(arg);
  key += ';';
  for (const double number : node.numbers) append_bits(key, number);
  return key;
}

bool takes_two(Op op) {
  return (op >= Op::add && op <= Op::power) || (op >= Op::less && op <= Op::equal) ||
         op == Op::min || op == Op::max;
}

bool takes_one(Op op) { return op == Op::negate || (op >= Op::exp && op <= Op::silu); }

double entry(const Node& node, std::int64_t n) {
  return node.numbers[node.numbers.size() == 1 ? 0 : static_cast<std::size_t>(n)];
}

// The numbers of an operation on numbers; empty where it is not computed here.
std::vector<double> computed(const Formula& f, const Node& node) {
  for (const int arg : node.args) {
    if (f.at(arg).op != Op::number) return {};
  }
  if (node.args.empty()) return {};
  std::vector<double> out;
  const Node& x = f.at(node.args[0]);
  if (takes_one(node.op)) {
    for (const double number : x.numbers) out.push_back(apply(node.op, number));
  } else if (takes_two(node.op)) {
    for (std::int64_t n = 0; n < node.width; ++n) {
      out.push_back(apply(node.op, entry(x, n), entry(f.at(node.args[1]), n)));
    }
  } else if (node.op == Op::sum) {
    double sum = 0;
    for (std::int64_t n = 0; n < x.width; ++n) sum += entry(x, n);
    out = {sum};
  } else if (node.op == Op::slice) {
    for (std::int64_t n = node.from; n < node.to; ++n) out.push_back(entry(x, n));
  } else if (node.op == Op::join) {
    for (const int arg : node.args) {
      for (std::int64_t n = 0; n < f.at(arg).width; ++n) out.push_back(entry(f.at(arg), n));
    }
  }
  return out;
}

}  // namespace

const char* name_of(Op op) {
  static const char* const names[] = {
      "number",    "content", "q",          "k",     "lam", "i - j", "i",       "j",
      "length",    "param",   "+",          "-",     "*",   "/",     "^",       "-",
      "<",         "<=",      ">",          ">=",    "==",  "exp",   "log",     "log1p",
      "sqrt",      "cos",     "sin",        "tanh",  "abs", "floor", "sigmoid", "softplus",
      "relu",      "leaky",   "silu",       "min",   "max", "where", "sum",     "dot",
      "rms",       "inphase", "quadrature", "heads", "own", "join",  "linear",  "lookup",
      "t5_bucket", "slice"};
  return names[static_cast<int>(op)];
}

double apply(Op op, double x) {
  switch (op) {
    case Op::negate:
      return -x;
    case Op::exp:
      return std::exp(x);
    case Op::log:
      return std::log(x);
    case Op::log1p:
      return std::log1p(x);
    case Op::sqrt:
      return std::sqrt(x);
    case Op::cos:
      return std::cos(x);
    case Op::sin:
      return std::sin(x);
    case Op::tanh:
      return std::tanh(x);
    case Op::abs:
      return std::abs(x);
    case Op::floor:
      return std::floor(x);
    case Op::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Op::softplus:
      return x > 30 ? x : std::log1p(std::exp(x));
    case Op::relu:
      return std::max(x, 0.0);
    case Op::leaky:
      return x > 0 ? x : kLeakOfLeaky * x;
    case Op::silu:
      return x / (1 + std::exp(-x));
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

double apply(Op op, double x, double y) {
  switch (op) {
    case Op::add:
      return x + y;
    case Op::subtract:
      return x - y;
    case Op::multiply:
      return x * y;
    case Op::divide:
      return x / y;
    case Op::power:
      return std::pow(x, y);
    case Op::less:
      return x < y;
    case Op::less_equal:
      return x <= y;
    case Op::greater:
      return x > y;
    case Op::greater_equal:
      return x >= y;
    case Op::equal:
      return x == y;
    case Op::min:
      return std::min(x, y);
    case Op::max:
      return std::max(x, y);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

namespace {

// The width of those operations whose arguments say it.
std::int64_t width_of(const Formula& f, const Node& node) {
  std::int64_t widest = 1;
  for (const int arg : node.args) widest = std::max(widest, f.at(arg).width);
  switch (node.op) {
    case Op::sum:
    case Op::dot:
    case Op::rms:
    case Op::own:
    case Op::lookup:
      return 1;
    case Op::inphase:
    case Op::quadrature:
      return widest / 2;
    case Op::heads:
      return f.sizes.heads;
    case Op::slice:
      return node.to - node.from;
    case Op::linear:
      return f.parameters[static_cast<std::size_t>(node.parameter)].shape[0];
    case Op::join: {
      std::int64_t all = 0;
      for (const int arg : node.args) all += f.at(arg).width;
      return all;
    }
    default:
      return std::max(widest, node.width);
  }
}

unsigned reads_of(const Formula& f, const Node& node) {
  unsigned reads = node.reads;
  for (const int arg : node.args) reads |= f.at(arg).reads;
  if (node.op == Op::linear || node.op == Op::lookup) reads |= kReadsParameters;
  if (node.op == Op::lookup) reads |= kVariesByHead;
  if (node.op == Op::heads) reads = (reads | kReadsAllHeads) & ~unsigned{kVariesByHead};
  if (node.op == Op::own) reads |= kReadsAllHeads | kVariesByHead;
  return reads;
}

}  // namespace

int Formula::add(Node node) {
  node.width = width_of(*this, node);
  node.reads = reads_of(*this, node);
  std::vector<double> numbers = computed(*this, node);
  if (!numbers.empty()) {
    node.op = Op::number, node.numbers = std::move(numbers), node.args.clear();
    node.from = node.to = 0, node.parameter = -1;
  }
  // A difference of places is the distance, wherever no key stands after its query.
  if (node.op == Op::subtract && at(node.args[0]).op == Op::i && at(node.args[1]).op == Op::j) {
    node.op = sizes.causal ? Op::distance : Op::difference;
    node.args.clear(), node.reads = kReadsDistance;
  }
  const std::string key = key_of(node);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  nodes.push_back(std::move(node));
  const int id = static_cast<int>(nodes.size()) - 1;
  known_.emplace(key, id);
  return id;
}

}  // namespace phasescope::formula
