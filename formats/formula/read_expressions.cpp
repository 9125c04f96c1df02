#include <algorithm>
#include <cmath>
#include <numbers>

#include "formats/formula/formula_reader.h"
#include "formats/utf8.h"

namespace phasescope::formula {

namespace {

constexpr std::int64_t kWidest = 4096;                        // numbers of a value
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 20;  // of all constants

}  // namespace

int FormulaReader::expression() {
  const Deeper deeper(*this);
  int left = sum();
  while (peek().kind == Token::Kind::sign) {
    Op op = Op::less;
    if (is_sign("<")) {
      op = Op::less;
    } else if (is_sign("<=")) {
      op = Op::less_equal;
    } else if (is_sign(">")) {
      op = Op::greater;
    } else if (is_sign(">=")) {
      op = Op::greater_equal;
    } else if (is_sign("==")) {
      op = Op::equal;
    } else {
      break;
    }
    const int column = next().column;
    left = both(op, left, sum(), column);
  }
  return left;
}

int FormulaReader::sum() {
  int left = product();
  while (is_sign("+") || is_sign("-")) {
    const Token& sign = next();
    const Op op = sign.text == "+" ? Op::add : Op::subtract;
    const int column = sign.column;
    left = both(op, left, product(), column);
  }
  return left;
}

int FormulaReader::product() {
  int left = unary();
  while (is_sign("*") || is_sign("/")) {
    const Token& sign = next();
    const Op op = sign.text == "*" ? Op::multiply : Op::divide;
    const int column = sign.column;
    left = both(op, left, unary(), column);
  }
  return left;
}

int FormulaReader::unary() {
  const Deeper deeper(*this);
  if (!is_sign("-")) return power();
  const int column = next().column;
  return made({.op = Op::negate, .args = {unary()}, .column = column});
}

int FormulaReader::power() {
  const int base = sliced();
  if (!is_sign("^")) return base;
  const int column = next().column;
  return both(Op::power, base, unary(), column);
}

int FormulaReader::sliced() {
  int value = atom();
  while (is_sign("[")) value = slice(value);
  return value;
}

int FormulaReader::atom() {
  const Token token = next();
  if (token.kind == Token::Kind::number) return constant({token.number}, token.column);
  if (token.kind == Token::Kind::sign && token.text == "(") {
    const int inner = expression();
    expect(")");
    return inner;
  }
  if (token.kind != Token::Kind::name) {
    fail(token.column, "expected a value but found " + found(token));
  }
  if (is_sign("(")) return call(token);
  return named(token);
}

int FormulaReader::named(const Token& token) {
  const auto value = values_.find(token.text);
  if (value != values_.end()) return value->second;
  const auto parameter = parameters_.find(token.text);
  if (parameter != parameters_.end()) return value_of(parameter->second, token);
  if (token.text == "planes") return all_planes(token.column);
  std::vector<std::string> known{"planes"};
  for (const auto& [name, id] : values_) known.push_back(name);
  for (const auto& [name, id] : parameters_) known.push_back(name);
  if (functions().contains(token.text)) {
    fail(token.column, token.text + " is a function: it is followed by '('");
  }
  fail(token.column, formats::in_quotes(token.text) + " is not known here",
       near(token.text, known));
}

int FormulaReader::all_planes(int column) {
  std::vector<double> numbers;
  for (std::int64_t n = 0; n < planes(column); ++n) numbers.push_back(static_cast<double>(n));
  return constant(std::move(numbers), column);
}

int FormulaReader::value_of(int index, const Token& token) {
  const Parameter& p = formula_.parameters[static_cast<std::size_t>(index)];
  const bool first = !p.by_head.empty() && p.by_head[0];
  if (p.shape.size() == 2 && !first) {
    fail(token.column,
         formats::in_quotes(p.name) + " is a matrix, which linear(w, v) and lookup(b, index) read");
  }
  Node node{.op = Op::parameter, .parameter = index, .column = token.column};
  node.reads = kReadsParameters | (first ? unsigned{kVariesByHead} : 0);
  if (p.shape.size() == 2 || (p.shape.size() == 1 && !first)) node.width = p.shape.back();
  return made(std::move(node));
}

int FormulaReader::call(const Token& token) {
  const auto function = functions().find(token.text);
  if (function == functions().end()) {
    std::vector<std::string> known;
    for (const auto& [name, one] : functions()) known.push_back(name);
    fail(token.column, formats::in_quotes(token.text) + " is no function", near(token.text, known));
  }
  const Op op = function->second.op;
  next();  // "("
  Node node{.op = op, .column = token.column};
  if (op == Op::linear || op == Op::lookup) {
    node.parameter = matrix(op);
    if (!is_sign(",")) wrong_count(token, function->second, 1);
    next();
  }
  arguments(token, function->second, node);
  return checked(std::move(node), token);
}

void FormulaReader::arguments(const Token& token, const Function& function, Node& node) {
  const int given = node.parameter >= 0 ? 1 : 0;
  if (is_sign(")")) {
    next();
  } else {
    node.args.push_back(expression());
    while (is_sign(",")) {
      next();
      node.args.push_back(expression());
    }
    expect(")");
  }
  const int count = given + static_cast<int>(node.args.size());
  if (count < function.least || count > function.most) wrong_count(token, function, count);
}

int FormulaReader::matrix(Op op) {
  const Token token = next();
  const auto found_one = parameters_.find(token.text);
  const Parameter* p = found_one == parameters_.end()
                           ? nullptr
                           : &formula_.parameters[static_cast<std::size_t>(found_one->second)];
  const bool fits = p != nullptr && p->shape.size() == 2 && (op == Op::linear || p->by_head[1]);
  if (!fits) {
    fail(token.column, std::string(op == Op::linear ? "linear reads a parameter [out, in]"
                                                    : "lookup reads a parameter [n, head]") +
                           " here, not " + found(token));
  }
  if (op == Op::linear) {
    formula_.parameters[static_cast<std::size_t>(found_one->second)].matrix = true;
  }
  return found_one->second;
}

int FormulaReader::checked(Node node, const Token& token) {
  const auto width = [&](std::size_t n) { return formula_.at(node.args[n]).width; };
  switch (node.op) {
    case Op::where:
      require_same(token, node.args);
      break;
    case Op::min:
    case Op::max:
    case Op::dot:
      require_same(token, node.args);
      break;
    case Op::inphase:
    case Op::quadrature:
      require_same(token, node.args);
      if (std::max(width(0), width(1)) % 2 != 0) {
        fail(token.column, token.text + " reads pairs of channels, and here are " +
                               counted(std::max(width(0), width(1)), "number"));
      }
      // Both have all channels.
      if (width(0) != width(1)) {
        fail(token.column, token.text + " of " + std::to_string(width(0)) + " and " +
                               std::to_string(width(1)) + " numbers");
      }
      break;
    case Op::heads:
      if (width(0) != 1) {
        fail(token.column, "heads reads one number, but here are " + std::to_string(width(0)));
      }
      break;
    case Op::own:
      if (width(0) != formula_.sizes.heads) {
        fail(token.column, "own reads one number of each of " +
                               counted(formula_.sizes.heads, "head") + ", but here " +
                               (width(0) == 1 ? "is 1" : "are " + std::to_string(width(0))));
      }
      break;
    case Op::linear: {
      const Parameter& p = formula_.parameters[static_cast<std::size_t>(node.parameter)];
      if (p.shape[1] != width(0)) {
        fail(token.column, "linear of a matrix of " + std::to_string(p.shape[0]) + " by " +
                               std::to_string(p.shape[1]) + " and " + counted(width(0), "number"));
      }
      break;
    }
    case Op::lookup:
      if (width(0) != 1) fail(token.column, "an index is one number");
      break;
    case Op::t5_bucket:
      check_buckets(node, token);
      break;
    default:
      break;
  }
  return made(std::move(node));
}

void FormulaReader::check_buckets(const Node& node, const Token& token) const {
  const double n = constant_of(node.args[1], token, "the number of buckets");
  const double most = constant_of(node.args[2], token, "the last bucket's distance");
  if (formula_.at(node.args[0]).width != 1) fail(token.column, "a distance is one number");
  if (n < 2 || n > kLargestSize || n != std::floor(n) || most <= std::floor(n / 2) || most > 1e9 ||
      most != std::floor(most)) {
    fail(token.column,
         "t5_bucket needs at least 2 buckets, and a distance above half of them, both whole");
  }
}

double FormulaReader::constant_of(int id, const Token& token, const char* what) const {
  const Node& node = formula_.at(id);
  if (node.op == Op::number && node.width == 1) return node.numbers[0];
  fail(token.column, std::string(what) + " must be known before the run");
}

void FormulaReader::require_same(const Token& token, const std::vector<int>& args) const {
  std::int64_t width = 1;
  for (const int arg : args) {
    const std::int64_t here = formula_.at(arg).width;
    if (width != 1 && here != 1 && here != width) {
      fail(token.column, token.text + " of " + std::to_string(width) + " and " +
                             std::to_string(here) + " numbers");
    }
    width = std::max(width, here);
  }
}

int FormulaReader::both(Op op, int left, int right, int column) {
  Token token;
  token.text = std::string("'") + name_of(op) + "'", token.column = column;
  require_same(token, {left, right});
  if (op == Op::divide) refuse_division_by_zero(right, column);
  return made({.op = op, .args = {left, right}, .column = column});
}

void FormulaReader::refuse_division_by_zero(int by, int column) const {
  const Node& node = formula_.at(by);
  const auto zero = std::ranges::find(node.numbers, 0.0);
  if (zero == node.numbers.end()) return;
  if (node.width == 1) fail(column, "this divides by 0");
  fail(column, "number " + std::to_string(zero - node.numbers.begin() + 1) + " of the " +
                   std::to_string(node.width) + " that this divides by is 0");
}

int FormulaReader::slice(int value) {
  const int column = next().column;
  const std::int64_t width = formula_.at(value).width;
  const std::int64_t from = is_sign(":") ? 0 : end_of_slice();
  expect(":");
  const std::int64_t to = is_sign("]") ? width : end_of_slice();
  expect("]");
  if (from < 0 || to > width || from >= to) {
    fail(column, "the slice [" + std::to_string(from) + ":" + std::to_string(to) +
                     "] lies outside " + counted(width, "number") + ", or is empty");
  }
  if (from == 0 && to == width) return value;
  return made({.op = Op::slice, .args = {value}, .from = from, .to = to, .column = column});
}

std::int64_t FormulaReader::end_of_slice() {
  const int column = peek().column;
  const Node& node = formula_.at(expression());
  const bool whole = node.op == Op::number && node.width == 1 &&
                     node.numbers[0] == std::floor(node.numbers[0]) &&
                     std::abs(node.numbers[0]) <= kLargestSize;
  if (!whole) fail(column, "the end of a slice is a whole number known before the run");
  return static_cast<std::int64_t>(node.numbers[0]);
}

int FormulaReader::constant(std::vector<double> numbers, int column) {
  Node node{.op = Op::number, .column = column};
  node.width = static_cast<std::int64_t>(numbers.size());
  node.numbers = std::move(numbers);
  return made(std::move(node));
}

int FormulaReader::made(Node node) {
  const int column = node.column;
  const Op op = node.op;
  const std::size_t before = formula_.nodes.size();
  const int id = formula_.add(std::move(node));
  const Node& here = formula_.at(id);
  if (!std::ranges::all_of(here.numbers, [](double number) { return std::isfinite(number); })) {
    fail(column, std::string("what ") + formats::in_quotes(name_of(op)) +
                     " makes of these numbers is infinite or no number");
  }
  if (here.width > kWidest) {
    fail(column, "a value of " + std::to_string(here.width) + " numbers; 4096 are the most");
  }
  if (formula_.nodes.size() > before) {
    numbers_ += static_cast<std::int64_t>(here.numbers.size());
    if (numbers_ > kMostNumbers) fail(column, "this formula has more than a million constants");
  }
  return id;
}

void FormulaReader::add_built_ins() {
  const auto add = [&](const char* name, Op op, unsigned reads, std::int64_t width = 1) {
    Node node{.op = op};
    node.reads = reads, node.width = width;
    values_[name] = formula_.add(std::move(node));
  };
  const std::int64_t d = formula_.sizes.head_dim;
  add("content", Op::content, kReadsPair | kVariesByHead);
  add("q", Op::q, kReadsQuery | kVariesByHead, d);
  add("k", Op::k, kReadsKey | kVariesByHead, d);
  add("lam", Op::distance, kReadsDistance);
  add("i", Op::i, kReadsQueryPlace);
  add("j", Op::j, kReadsKeyPlace);
  add("length", Op::length, kReadsLength);
  values_["d"] = constant({static_cast<double>(d)}, 1);
  values_["scale"] = constant({formula_.sizes.scale}, 1);
  values_["pi"] = constant({std::numbers::pi}, 1);
}

}  // namespace phasescope::formula
