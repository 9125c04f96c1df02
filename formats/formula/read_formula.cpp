#include <cmath>
#include <set>

#include "formats/formula/formula_reader.h"
#include "formats/formula/units.h"
#include "formats/near_names.h"
#include "formats/utf8.h"

namespace phasescope::formula {

namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 16;

const std::map<std::string, Parameter::Start>& starts() {
  using Start = Parameter::Start;
  static const std::map<std::string, Start> list = {
      {"zeros", Start::zeros},     {"ones", Start::ones},     {"constant", Start::constant},
      {"uniform", Start::uniform}, {"normal", Start::normal}, {"slopes", Start::slopes}};
  return list;
}

int numbers_after(Parameter::Start start) {
  using Start = Parameter::Start;
  if (start == Start::uniform) return 2;
  return start == Start::constant || start == Start::normal ? 1 : 0;
}

}  // namespace

const std::map<std::string, Function>& functions() {
  static const std::map<std::string, Function> list = [] {
    std::map<std::string, Function> out = {
        {"min", {Op::min, 2, 2}},         {"max", {Op::max, 2, 2}},
        {"where", {Op::where, 3, 3}},     {"sum", {Op::sum, 1, 1}},
        {"dot", {Op::dot, 2, 2}},         {"rms", {Op::rms, 1, 1}},
        {"inphase", {Op::inphase, 2, 2}}, {"quadrature", {Op::quadrature, 2, 2}},
        {"heads", {Op::heads, 1, 1}},     {"own", {Op::own, 1, 1}},
        {"join", {Op::join, 1, 64}},      {"linear", {Op::linear, 2, 2}},
        {"lookup", {Op::lookup, 2, 2}},   {"t5_bucket", {Op::t5_bucket, 3, 3}}};
    for (int op = static_cast<int>(Op::exp); op <= static_cast<int>(Op::silu); ++op) {
      out[name_of(static_cast<Op>(op))] = {static_cast<Op>(op), 1, 1};
    }
    return out;
  }();
  return list;
}

std::string counted(std::int64_t count, const char* word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

FormulaReader::FormulaReader(const std::string& text, const Sizes& sizes)
    : text_(text), tokens_(tokens_of(text)) {
  formula_.sizes = sizes;
  add_built_ins();
}

Formula FormulaReader::read() {
  while (!is_name("score")) statement();
  const int column = next().column;
  expect("=");
  formula_.score = expression();
  if (formula_.at(formula_.score).width != 1) {
    fail(column, "a score is one number, but this has " +
                     counted(formula_.at(formula_.score).width, "number"));
  }
  if (is_sign(";")) next();
  if (peek().kind != Token::Kind::end) {
    fail(peek().column, found(peek()) + " stands after the score, which ends a formula");
  }
  find_units(formula_);
  warn_of_zeros(formula_);
  warn_of_idle_parameters(formula_);
  return std::move(formula_);
}

std::string FormulaReader::found(const Token& token) {
  return token.kind == Token::Kind::end ? "the end of the formula" : formats::in_quotes(token.text);
}

void FormulaReader::expect(const char* sign) {
  if (is_sign(sign)) {
    next();
    return;
  }
  fail(peek().column, "expected '" + std::string(sign) + "' but found " + found(peek()));
}

std::string FormulaReader::near(const std::string& name,
                                const std::vector<std::string>& known) const {
  std::string text;
  for (const std::string& one : formats::names_near(name, known)) {
    text += (text.empty() ? "near: " : ", ") + one;
  }
  return text;
}

void FormulaReader::statement() {
  if (is_name("let")) {
    next();
    const std::string name = new_name();
    expect("=");
    values_[name] = expression();
  } else if (is_name("param") || is_name("shared")) {
    parameter();
  } else {
    fail(peek().column, "expected param, let or score but found " + found(peek()),
         peek().kind == Token::Kind::name ? near(peek().text, {"param", "shared", "let", "score"})
                                          : "a formula ends with score = ...");
  }
  expect(";");
}

std::string FormulaReader::new_name() {
  const Token token = next();
  if (token.kind != Token::Kind::name) {
    fail(token.column, "expected a name but found " + found(token));
  }
  static const std::set<std::string> reserved = {"param", "shared", "let",  "score",
                                                 "in",    "head",   "plane"};
  if (reserved.contains(token.text) || functions().contains(token.text) ||
      starts().contains(token.text) || values_.contains(token.text) ||
      parameters_.contains(token.text)) {
    fail(token.column, formats::in_quotes(token.text) + " has a meaning already");
  }
  return token.text;
}

void FormulaReader::parameter() {
  Parameter parameter;
  if (is_name("shared")) {
    parameter.shared = true;
    next();
    if (!is_name("param")) {
      fail(peek().column, "expected param after shared but found " + found(peek()));
    }
  }
  next();
  parameter.column = peek().column;
  parameter.name = new_name();
  if (is_sign("[")) sizes(parameter);
  expect("~");
  start(parameter);
  if (is_name("in")) limits(parameter);
  parameters_[parameter.name] = static_cast<int>(formula_.parameters.size());
  formula_.parameters.push_back(std::move(parameter));
}

void FormulaReader::sizes(Parameter& parameter) {
  do {
    next();  // "[" or ","
    if (parameter.shape.size() == 2) fail(peek().column, "a parameter has two sizes at most");
    size(parameter);
  } while (is_sign(","));
  expect("]");
  double entries = 1;
  for (const std::int64_t n : parameter.shape) entries *= static_cast<double>(n);
  if (entries > 16 * kLargestSize) fail(parameter.column, "a parameter of more than 16 Mi numbers");
}

void FormulaReader::size(Parameter& parameter) {
  const Token token = next();
  const bool by_name = token.kind == Token::Kind::name;
  const std::int64_t heads = formula_.sizes.heads;
  parameter.by_head.push_back(by_name && token.text == "head");
  if (by_name && token.text == "head") return parameter.shape.push_back(heads);
  if (by_name && token.text == "d") return parameter.shape.push_back(formula_.sizes.head_dim);
  if (by_name && token.text == "plane") return parameter.shape.push_back(planes(token.column));
  if (token.kind != Token::Kind::number) {
    fail(token.column,
         "a size is a whole number, head, a number * head, d or plane, not " + found(token));
  }
  if (token.number < 1 || token.number > kLargestSize || token.number != std::floor(token.number)) {
    fail(token.column, "a size is a whole number from 1 to 1048576, not " + token.text);
  }
  auto count = static_cast<std::int64_t>(token.number);
  if (is_sign("*")) {
    next();
    if (!is_name("head")) fail(peek().column, "expected head but found " + found(peek()));
    next();
    count *= heads;
  }
  parameter.shape.push_back(count);
}

std::int64_t FormulaReader::planes(int column) const {
  if (formula_.sizes.head_dim % 2 == 0) return formula_.sizes.head_dim / 2;
  fail(column, "planes are pairs of channels, and a head has " +
                   counted(formula_.sizes.head_dim, "channel"));
}

double FormulaReader::signed_number() {
  double sign = 1;
  while (is_sign("-")) sign = -sign, next();
  const Token token = next();
  if (token.kind != Token::Kind::number) {
    fail(token.column, "expected a number but found " + found(token));
  }
  return sign * token.number;
}

void FormulaReader::start(Parameter& parameter) {
  const Token token = next();
  const auto found_start = starts().find(token.text);
  if (token.kind != Token::Kind::name || found_start == starts().end()) {
    std::vector<std::string> known;
    for (const auto& [name, one] : starts()) known.push_back(name);
    fail(token.column, found(token) + " is no start of a parameter",
         "known: zeros, ones, constant(x), uniform(a, b), normal(sd), slopes");
  }
  parameter.start = found_start->second;
  const int count = numbers_after(parameter.start);
  for (int n = 0; n < count; ++n) {
    expect(n == 0 ? "(" : ",");
    (n == 0 ? parameter.first : parameter.second) = signed_number();
  }
  if (count > 0) expect(")");
  check_start(parameter, token.column);
}

void FormulaReader::check_start(const Parameter& parameter, int column) const {
  using Start = Parameter::Start;
  if (parameter.start == Start::uniform && parameter.first > parameter.second) {
    fail(column, "the limits of a uniform start are in the wrong order");
  }
  if (parameter.start == Start::normal && parameter.first <= 0) {
    fail(column, "the deviation of a normal start is above 0");
  }
  if (parameter.start == Start::slopes &&
      (parameter.by_head.empty() || !parameter.by_head.back())) {
    fail(column, "slopes are one of each head, so the parameter's last size must be head");
  }
}

void FormulaReader::limits(Parameter& parameter) {
  const int column = next().column;
  expect("[");
  parameter.low = signed_number();
  expect(",");
  parameter.high = signed_number();
  expect("]");
  if (*parameter.low > *parameter.high) {
    fail(column, "the limits of a parameter are in the wrong order");
  }
}

Formula read_formula(const std::string& text, const Sizes& sizes) {
  if (text.size() > kLongestText) fail_at("", 1, "a formula has 65536 characters at most");
  return FormulaReader(text, sizes).read();
}

}  // namespace phasescope::formula
