#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/formula/formula.h"

// A formula as a sum of products, and what the fused kernels can make of it.

namespace phasescope::formula {

// Nodes to whole powers; of numbers over channels their product is summed (`summed`).
struct Factor {
  bool summed = false;
  std::vector<std::pair<int, int>> parts;  // node, power; sorted
  auto operator<=>(const Factor&) const = default;
};

// Products, each with its coefficient.
using Product = std::vector<Factor>;  // sorted
using Terms = std::map<Product, double>;

// Every product of a value of one number; nothing where there are too many of them.
std::optional<Terms> expanded(Formula& formula, int id);

unsigned reads_of(const Formula& formula, const Factor& factor);
unsigned reads_of(const Formula& formula, const Terms& terms);

// What a formula is, as the attention kernels know it.
struct Recognised {
  enum class Form { term, plain, table, multiplied, rotated, tapa, cape };
  Form form = Form::term;
  std::string why;  // of a term: what has no fused form

  // The product that scores are made of: nodes of the query's and the key's side; -1: the content
  // itself. `gain` multiplies the query's side; it reads nothing of the key.
  int query = -1, key = -1;
  Terms gain;
  Terms table;  // added (or of `multiplied`, what multiplies), by distance

  // rotated: cos(angle) with `turn` 1, or -1 where the other way round. What decays, a factor each.
  int angle = -1;
  int turn = 1;
  std::vector<std::pair<int, int>> decays;

  // tapa: the content's channels; the phase's two sides; its power by distance.
  std::int64_t content_width = 0;
  int phase_query = -1, phase_key = -1;
  Terms power;

  // cape: the layers' parameters, or nodes of numbers a unit; -1 where there is none.
  int first = -1, second = -1, first_bias = -1;
  bool with_base = true;  // reads the base's biases beside the content
  Terms base, last_bias;  // by distance; of each head
};

// "plain", "table, multiplied".
const char* name_of(Recognised::Form form);

// May add nodes to the formula, whose meaning stays.
Recognised recognised(Formula& formula);

}  // namespace phasescope::formula
