#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// An attention score as a formula: its text is read, checked against a model's sizes, and kept as a
// list of nodes. Sections: sizes, parameters, nodes, the formula.
//
//   formula = { (param | let) ";" } "score" "=" expr [";"]
//   param   = ["shared"] "param" name ["[" size {"," size} "]"] "~" start ["in" "[" num "," num
//   "]"] size    = integer | "head" | integer "*" "head" | "d" | "plane" start   = zeros | ones |
//   constant(x) | uniform(a, b) | normal(sd) | slopes let     = "let" name "=" expr

namespace phasescope::formula {

// ---- Sizes and parameters ----------------------------------------------------------------------

// The sizes of the model that the formula is for.
struct Sizes {
  std::int64_t heads = 4, head_dim = 48;
  double scale = 0.14433756729740643;  // of q.k; 1 / sqrt(48)
  bool causal = true;                  // i - j is then the distance
};

struct Parameter {
  enum class Start { zeros, ones, constant, uniform, normal, slopes };
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<bool> by_head;  // which sizes are "head"
  bool shared = false;        // one for all layers
  Start start = Start::zeros;
  double first = 0, second = 0;  // of `start`
  std::optional<double> low, high;
  bool matrix = false;  // linear() reads it, so that weight decay applies
  int column = 0;
  std::string unit;  // "1/tokens"; "not determined" where the formula leaves it open
};

// ---- Nodes -------------------------------------------------------------------------------------

enum class Op {
  number,
  content,
  q,
  k,
  distance,    // lam = max(i - j, 0)
  difference,  // i - j where a key may stand after its query
  i,
  j,
  length,
  parameter,
  add,
  subtract,
  multiply,
  divide,
  power,
  negate,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  exp,
  log,
  log1p,
  sqrt,
  cos,
  sin,
  tanh,
  abs,
  floor,
  sigmoid,
  softplus,
  relu,
  leaky,
  silu,
  min,
  max,
  where,
  sum,
  dot,
  rms,
  inphase,
  quadrature,
  heads,
  own,
  join,
  linear,  // by the matrix `parameter`
  lookup,  // in the table `parameter`
  t5_bucket,
  slice
};

// What a value is made of, as bits.
enum Reads : unsigned {
  kReadsQuery = 1,
  kReadsKey = 2,
  kReadsDistance = 4,  // lam, or i - j
  kReadsQueryPlace = 8,
  kReadsKeyPlace = 16,
  kReadsLength = 32,
  kReadsParameters = 64,
  kReadsAllHeads = 128,  // heads() or own()
  kVariesByHead = 256,
};
inline constexpr unsigned kReadsPair = kReadsQuery | kReadsKey;
inline constexpr unsigned kReadsPlaces = kReadsQueryPlace | kReadsKeyPlace;

// One value. Its arguments stand before it in the list.
struct Node {
  Op op = Op::number;
  std::vector<int> args = {};
  int parameter = -1;
  std::int64_t from = 0, to = 0;     // of a slice
  std::int64_t width = 1;            // numbers it has
  unsigned reads = 0;                // Reads
  std::vector<double> numbers = {};  // of Op::number, one or `width`
  int column = 0;                    // where it was written
};

// ---- The formula -------------------------------------------------------------------------------

struct Formula {
  Sizes sizes;
  std::vector<Parameter> parameters;
  std::vector<Node> nodes;
  int score = -1;
  std::vector<std::string> warnings;

  // Whether a shift of all position ids changes nothing, as far as the text says.
  bool shift_invariant() const { return !(nodes[std::size_t(score)].reads & kReadsPlaces); }
  const Node& at(int id) const { return nodes[static_cast<std::size_t>(id)]; }
  // The node of these arguments, one for all that are the same; its width and what it reads follow
  // from them. Numbers of numbers are computed.
  int add(Node node);

 private:
  std::map<std::string, int> known_;
};

// Reads and checks. Throws formats::Error "bad_input" alone: "column C: sentence", counted from 1
// in characters ("line L, column C" where there are several lines), with the nearest names where
// one is not known.
Formula read_formula(const std::string& text, const Sizes& sizes);

// "cos", "lookup": what an operation is called in a formula.
const char* name_of(Op op);
// What an operation of one argument makes of a number. NaN for the other operations.
double apply(Op op, double x);
// The same for operations of two arguments.
double apply(Op op, double x, double y);

}  // namespace phasescope::formula
