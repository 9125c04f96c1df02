// The reader of formulas: recursive descent to nodes, which are checked as they are made.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "formats/error.h"
#include "formats/formula/formula.h"
#include "formats/formula/tokens.h"
#include "formats/formula/units.h"
#include "formats/near_names.h"
#include "formats/utf8.h"

namespace phasescope::formula {

namespace {

constexpr int kDeepest = 200;
constexpr std::size_t kLongestText = std::size_t{1} << 16;
constexpr std::int64_t kWidest = 4096;                        // numbers of a value
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 20;  // of all constants
constexpr double kLargestSize = 1 << 20;                      // of a parameter

struct Function {
  Op op;
  int least, most;  // arguments
};

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

std::string counted(std::int64_t count, const char* word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

class Reader {
 public:
  Reader(const std::string& text, const Sizes& sizes) : text_(text), tokens_(tokens_of(text)) {
    formula_.sizes = sizes;
    add_built_ins();
  }

  Formula read() {
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
    warn_of_logarithms(formula_);
    warn_of_idle_parameters(formula_);
    return std::move(formula_);
  }

 private:
  // ---- words ----------------------------------------------------------------------------------

  [[noreturn]] void fail(int column, const std::string& sentence,
                         const std::string& hint = {}) const {
    fail_at(text_, column, sentence, hint);
  }
  const Token& peek() const { return tokens_[at_]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_sign(const char* sign) const {
    return peek().kind == Token::Kind::sign && peek().text == sign;
  }
  bool is_name(const char* name) const {
    return peek().kind == Token::Kind::name && peek().text == name;
  }
  static std::string found(const Token& token) {
    return token.kind == Token::Kind::end ? "the end of the formula"
                                          : formats::in_quotes(token.text);
  }
  void expect(const char* sign) {
    if (is_sign(sign)) {
      next();
      return;
    }
    fail(peek().column, "expected '" + std::string(sign) + "' but found " + found(peek()));
  }
  std::string near(const std::string& name, const std::vector<std::string>& known) const {
    std::string text;
    for (const std::string& one : formats::names_near(name, known)) {
      text += (text.empty() ? "near: " : ", ") + one;
    }
    return text;
  }

  // ---- statements -----------------------------------------------------------------------------

  void statement() {
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

  std::string new_name() {
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

  void parameter() {
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

  void sizes(Parameter& parameter) {
    do {
      next();  // "[" or ","
      if (parameter.shape.size() == 2) fail(peek().column, "a parameter has two sizes at most");
      size(parameter);
    } while (is_sign(","));
    expect("]");
    double entries = 1;
    for (const std::int64_t n : parameter.shape) entries *= static_cast<double>(n);
    if (entries > 16 * kLargestSize)
      fail(parameter.column, "a parameter of more than 16 Mi numbers");
  }

  void size(Parameter& parameter) {
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
    if (token.number < 1 || token.number > kLargestSize ||
        token.number != std::floor(token.number)) {
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

  std::int64_t planes(int column) const {
    if (formula_.sizes.head_dim % 2 == 0) return formula_.sizes.head_dim / 2;
    fail(column, "planes are pairs of channels, and a head has " +
                     counted(formula_.sizes.head_dim, "channel"));
  }

  double signed_number() {
    double sign = 1;
    while (is_sign("-")) sign = -sign, next();
    const Token token = next();
    if (token.kind != Token::Kind::number) {
      fail(token.column, "expected a number but found " + found(token));
    }
    return sign * token.number;
  }

  void start(Parameter& parameter) {
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

  void check_start(const Parameter& parameter, int column) const {
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

  void limits(Parameter& parameter) {
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

  // ---- expressions ----------------------------------------------------------------------------

  class Deeper {
   public:
    explicit Deeper(Reader& reader) : reader_(reader) {
      if (++reader_.depth_ > kDeepest) {
        reader_.fail(reader_.peek().column, "this is nested more than 200 levels deep");
      }
    }
    ~Deeper() { --reader_.depth_; }
    Deeper(const Deeper&) = delete;

   private:
    Reader& reader_;
  };

  int expression() {
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

  int sum() {
    int left = product();
    while (is_sign("+") || is_sign("-")) {
      const Token& sign = next();
      const Op op = sign.text == "+" ? Op::add : Op::subtract;
      const int column = sign.column;
      left = both(op, left, product(), column);
    }
    return left;
  }

  int product() {
    int left = unary();
    while (is_sign("*") || is_sign("/")) {
      const Token& sign = next();
      const Op op = sign.text == "*" ? Op::multiply : Op::divide;
      const int column = sign.column;
      left = both(op, left, unary(), column);
    }
    return left;
  }

  int unary() {
    const Deeper deeper(*this);
    if (!is_sign("-")) return power();
    const int column = next().column;
    return made({.op = Op::negate, .args = {unary()}, .column = column});
  }

  int power() {
    const int base = sliced();
    if (!is_sign("^")) return base;
    const int column = next().column;
    return both(Op::power, base, unary(), column);
  }

  int sliced() {
    int value = atom();
    while (is_sign("[")) value = slice(value);
    return value;
  }

  int atom() {
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

  int named(const Token& token) {
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

  int all_planes(int column) {
    std::vector<double> numbers;
    for (std::int64_t n = 0; n < planes(column); ++n) numbers.push_back(static_cast<double>(n));
    return constant(std::move(numbers), column);
  }

  // A parameter where a value stands.
  int value_of(int index, const Token& token) {
    const Parameter& p = formula_.parameters[static_cast<std::size_t>(index)];
    const bool first = !p.by_head.empty() && p.by_head[0];
    if (p.shape.size() == 2 && !first) {
      fail(token.column, formats::in_quotes(p.name) +
                             " is a matrix, which linear(w, v) and lookup(b, index) read");
    }
    Node node{.op = Op::parameter, .parameter = index, .column = token.column};
    node.reads = kReadsParameters | (first ? unsigned{kVariesByHead} : 0);
    if (p.shape.size() == 2 || (p.shape.size() == 1 && !first)) node.width = p.shape.back();
    return made(std::move(node));
  }

  int call(const Token& token) {
    const auto function = functions().find(token.text);
    if (function == functions().end()) {
      std::vector<std::string> known;
      for (const auto& [name, one] : functions()) known.push_back(name);
      fail(token.column, formats::in_quotes(token.text) + " is no function",
           near(token.text, known));
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

  void arguments(const Token& token, const Function& function, Node& node) {
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

  [[noreturn]] void wrong_count(const Token& token, const Function& function, int count) const {
    fail(token.column, token.text + " takes " + counted(function.least, "argument") + ", not " +
                           std::to_string(count));
  }

  // The parameter that linear and lookup read.
  int matrix(Op op) {
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

  int checked(Node node, const Token& token) {
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
                                 std::to_string(p.shape[1]) + " and " +
                                 counted(width(0), "number"));
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

  void check_buckets(const Node& node, const Token& token) const {
    const double n = constant_of(node.args[1], token, "the number of buckets");
    const double most = constant_of(node.args[2], token, "the last bucket's distance");
    if (formula_.at(node.args[0]).width != 1) fail(token.column, "a distance is one number");
    if (n < 2 || n > kLargestSize || n != std::floor(n) || most <= std::floor(n / 2) ||
        most > 1e9 || most != std::floor(most)) {
      fail(token.column,
           "t5_bucket needs at least 2 buckets, and a distance above half of them, both whole");
    }
  }

  double constant_of(int id, const Token& token, const char* what) const {
    const Node& node = formula_.at(id);
    if (node.op == Op::number && node.width == 1) return node.numbers[0];
    fail(token.column, std::string(what) + " must be known before the run");
  }

  void require_same(const Token& token, const std::vector<int>& args) const {
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

  int both(Op op, int left, int right, int column) {
    Token token;
    token.text = std::string("'") + name_of(op) + "'", token.column = column;
    require_same(token, {left, right});
    return made({.op = op, .args = {left, right}, .column = column});
  }

  // [from:to]
  int slice(int value) {
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

  std::int64_t end_of_slice() {
    const int column = peek().column;
    const Node& node = formula_.at(expression());
    const bool whole = node.op == Op::number && node.width == 1 &&
                       node.numbers[0] == std::floor(node.numbers[0]) &&
                       std::abs(node.numbers[0]) <= kLargestSize;
    if (!whole) fail(column, "the end of a slice is a whole number known before the run");
    return static_cast<std::int64_t>(node.numbers[0]);
  }

  // ---- nodes ----------------------------------------------------------------------------------

  int constant(std::vector<double> numbers, int column) {
    Node node{.op = Op::number, .column = column};
    node.width = static_cast<std::int64_t>(numbers.size());
    node.numbers = std::move(numbers);
    return made(std::move(node));
  }

  int made(Node node) {
    const int column = node.column;
    const std::size_t before = formula_.nodes.size();
    const int id = formula_.add(std::move(node));
    const Node& here = formula_.at(id);
    if (here.width > kWidest) {
      fail(column, "a value of " + std::to_string(here.width) + " numbers; 4096 are the most");
    }
    if (formula_.nodes.size() > before) {
      numbers_ += static_cast<std::int64_t>(here.numbers.size());
      if (numbers_ > kMostNumbers) fail(column, "this formula has more than a million constants");
    }
    return id;
  }

  void add_built_ins() {
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

  const std::string& text_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::int64_t numbers_ = 0;
  Formula formula_;
  std::map<std::string, int> values_, parameters_;
};

}  // namespace

Formula read_formula(const std::string& text, const Sizes& sizes) {
  if (text.size() > kLongestText) fail_at("", 1, "a formula has 65536 characters at most");
  return Reader(text, sizes).read();
}

}  // namespace phasescope::formula
