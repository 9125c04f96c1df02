#pragma once
// cape.cost: what CAPE's correction costs (CAPE, arXiv 2405.14722, Section 3.2, corrected).
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck cape_cost();

struct CapeSizes {
  double tokens = 512, heads = 12, hidden = 32;
  bool causal = false;
  double pairs() const { return causal ? tokens * (tokens + 1) / 2 : tokens * tokens; }
};
// Multiply-accumulates of f's two layers in one layer of a model.
using CapeMacs = std::function<double(const CapeSizes& sizes)>;
// As the encoding of this project counts them ("published": every pair).
CapeMacs encoding_macs(const std::string& form);
// c of c H D P: 3 where f reads content and bias, 2 where one of them, 9 for three keys of both.
double cape_constant(const std::string& form);

// Exponents fitted over N 128 .. 8192, H 4 .. 16, D 4 .. 64 must be 2, 1, 1 and c as above, to
// 1e-9.
struct CostFit {
  double tokens = 0, heads = 0, hidden = 0, constant = 0, spread = 0;
};
CostFit fit_cost(const CapeMacs& macs);
CheckResult judge_cost(const CapeMacs& macs, double constant);

// The paper's Table 1 at 2048 tokens: milliseconds a unit of D, and what is left at D = 0.
struct PublishedTime {
  std::string base;
  double without = 0, width_16 = 0, width_32 = 0;
  double a_unit() const { return (width_32 - width_16) / 16; }
  double at_zero() const { return 2 * width_16 - width_32 - without; }
};
std::vector<PublishedTime> published_times();

}  // namespace phasescope::analysis
