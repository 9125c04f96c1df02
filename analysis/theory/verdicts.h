#pragma once
// How checks put their answers together. Nothing here knows of LibTorch.
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/theory/check.h"
#include "protocol/messages/provenance.h"

namespace phasescope::analysis {

// "3.24e-07"
std::string short_number(double value);
// "0.39 [0.31, 0.48]", or "0.39 [-]" where there is no interval.
std::string interval_text(const protocol::Interval& interval);

// An answer of a check that could measure nothing.
CheckResult not_measured(Verdict verdict, const std::string& detail);

// What was measured, against its bound.
struct Measured {
  double value = 0, bound = 0, noise = 0;
  std::int64_t samples = 1;
};
CheckResult answer(Verdict verdict, const Measured& measured, const std::string& detail);
// holds where value <= bound; a NaN fails.
CheckResult answer_below(const Measured& measured, const std::string& detail);

// The points of a curve whose axes are both linear unless they are said to be logarithmic.
struct Axes {
  std::string x, y;
  bool log_x = false, log_y = false;
};
CheckCurve curve_of(const std::string& label, const Axes& axes, std::vector<double> x,
                    std::vector<double> y, std::vector<double> bound = {});

// Parts of one statement (heads, layers, identities): the worst of value over bound of all, and a
// verdict that holds where every part does.
class Parts {
 public:
  // An identity or a bound: holds where value <= bound.
  void below(const std::string& name, double value, double bound);
  // A control: what a broken input gives must lie above the bound, or the comparison could not
  // fail.
  void control(const std::string& name, double value, double bound);
  // A number without verdict.
  void report(const std::string& name, double value);

  bool hold() const { return hold_; }
  // "name value (at most bound); ..."
  const std::string& detail() const { return detail_; }
  CheckResult result(double noise = 0) const;

 private:
  void add(const std::string& text);

  bool hold_ = true, any_ = false;
  double worst_ = -1, value_ = 0, bound_ = 0;
  std::int64_t count_ = 0;
  std::string detail_;
};

}  // namespace phasescope::analysis
