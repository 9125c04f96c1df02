#pragma once
// The reader of formulas: recursive descent to nodes, which are checked as they are made. For
// read_formula.cpp, which has the statements, and read_expressions.cpp.
#include <map>
#include <string>
#include <vector>

#include "formats/formula/formula.h"
#include "formats/formula/tokens.h"

namespace phasescope::formula {

inline constexpr int kDeepest = 200;
inline constexpr double kLargestSize = 1 << 20;  // of a parameter

struct Function {
  Op op;
  int least, most;  // arguments
};

// By name.
const std::map<std::string, Function>& functions();

// "1 number", "3 numbers".
std::string counted(std::int64_t count, const char* word);

class FormulaReader {
 public:
  FormulaReader(const std::string& text, const Sizes& sizes);
  Formula read();

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
  static std::string found(const Token& token);
  void expect(const char* sign);
  std::string near(const std::string& name, const std::vector<std::string>& known) const;

  // ---- statements -----------------------------------------------------------------------------

  void statement();
  std::string new_name();
  void parameter();
  void sizes(Parameter& parameter);
  void size(Parameter& parameter);
  std::int64_t planes(int column) const;
  double signed_number();
  void start(Parameter& parameter);
  void check_start(const Parameter& parameter, int column) const;
  void limits(Parameter& parameter);

  // ---- expressions ----------------------------------------------------------------------------

  class Deeper {
   public:
    explicit Deeper(FormulaReader& reader) : reader_(reader) {
      if (++reader_.depth_ > kDeepest) {
        reader_.fail(reader_.peek().column, "this is nested more than 200 levels deep");
      }
    }
    ~Deeper() { --reader_.depth_; }
    Deeper(const Deeper&) = delete;

   private:
    FormulaReader& reader_;
  };

  int expression();
  int sum();
  int product();
  int unary();
  int power();
  int sliced();
  int atom();
  int named(const Token& token);
  int all_planes(int column);

  // A parameter where a value stands.
  int value_of(int index, const Token& token);
  int call(const Token& token);
  void arguments(const Token& token, const Function& function, Node& node);
  [[noreturn]] void wrong_count(const Token& token, const Function& function, int count) const {
    fail(token.column, token.text + " takes " + counted(function.least, "argument") + ", not " +
                           std::to_string(count));
  }

  // The parameter that linear and lookup read.
  int matrix(Op op);
  int checked(Node node, const Token& token);
  void check_buckets(const Node& node, const Token& token) const;
  double constant_of(int id, const Token& token, const char* what) const;
  void require_same(const Token& token, const std::vector<int>& args) const;
  int both(Op op, int left, int right, int column);
  void refuse_division_by_zero(int by, int column) const;

  // [from:to]
  int slice(int value);
  std::int64_t end_of_slice();

  // ---- nodes ----------------------------------------------------------------------------------

  int constant(std::vector<double> numbers, int column);
  int made(Node node);
  void add_built_ins();

  const std::string& text_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::int64_t numbers_ = 0;
  Formula formula_;
  std::map<std::string, int> values_, parameters_;
};

}  // namespace phasescope::formula
