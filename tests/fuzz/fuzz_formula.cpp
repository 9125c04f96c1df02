// Bytes from anywhere as a formula: it is read, or refused with one sentence; what is read has its
// sizes, its units and a form.
#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/formula/terms.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace phasescope;
using phasescope::fuzz::require;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    formula::Formula read = formula::read_formula(text, {.heads = 3, .head_dim = 8});
    require(read.at(read.score).width == 1);
    for (const formula::Parameter& p : read.parameters) require(!p.unit.empty());
    const formula::Recognised form = formula::recognised(read);
    require((form.form == formula::Recognised::Form::term) == !form.why.empty());
  } catch (const formats::Error& error) {
    require(error.code() == "bad_input" && error.message().find("column ") != std::string::npos);
  }
  return 0;
}

std::string phasescope::fuzz::seed(std::mt19937& random) {
  if (const auto kept = case_of_tests(random, ".formula")) return *kept;
  static const std::vector<std::string> seeds = {
      "param m[head] ~ slopes; score = content - m*lam",
      "let w = 10000^(-2*planes/d); score = scale*sum(inphase(q,k)*cos(lam*w) + "
      "quadrature(q,k)*sin(lam*w))",
      "let t = d/2; score = dot(q[:t],k[:t])/sqrt(t) * cos(2*pi*lam^0.1 * "
      "dot(q[t:],k[t:])/sqrt(d-t))",
      "shared param b[32, head] ~ normal(0.02) in [-1, 1]; score = content + lookup(b, "
      "t5_bucket(lam, 32, 128)) + where(i < 3, 0, -1)",
      "param w[2, 2*head] ~ zeros; param o[head, 2] ~ uniform(-1, 1); let b = -lam; score = "
      "content + b + own(linear(o, leaky(linear(w, join(heads(content), heads(b))))))",
  };
  return seeds[random() % seeds.size()];
}
