#include "tasks/chomsky/arithmetic.h"

#include <vector>

#include "formats/error.h"

namespace phasescope::tasks {
namespace {

constexpr std::int64_t kModulus = 5;
// Brackets within brackets; drawn expressions of 4096 symbols stay below.
constexpr int kDeepest = 2000;

std::int64_t wrapped(std::int64_t value) { return (value % kModulus + kModulus) % kModulus; }

std::int64_t applied(int op, std::int64_t a, std::int64_t b) {
  return wrapped(op == 0 ? a + b : op == 1 ? a - b : a * b);
}

void append_expression(std::int64_t n, const Signs& signs, Random& random, Ids& out) {
  if (n <= 4) {
    if (n >= 3) out.push_back(signs.open);
    if (n % 2 == 0) out.push_back(signs.minus);
    out.push_back(random.below(kModulus));
    if (n >= 3) out.push_back(signs.close);
    return;
  }
  const std::int64_t left = random.between(1, n - 4);
  out.push_back(signs.open);
  append_expression(left, signs, random, out);
  const std::int64_t op = random.below(signs.times < 0 ? 2 : 3);
  out.push_back(op == 0 ? signs.plus : op == 1 ? signs.minus : signs.times);
  append_expression(n - 3 - left, signs, random, out);
  out.push_back(signs.close);
}

class Reader {
 public:
  Reader(const Ids& ids, const Signs& signs, std::int64_t unknown)
      : ids_(ids), signs_(signs), unknown_(unknown) {}

  std::int64_t whole() {
    const std::int64_t value = operand(0);
    if (at_ != ids_.size()) throw wrong();
    return value;
  }

 private:
  formats::Error wrong() const {
    return formats::bad_input("an expression is not of the grammar at symbol " +
                              std::to_string(at_));
  }

  std::int64_t next() {
    if (at_ >= ids_.size()) throw wrong();
    return ids_[at_++];
  }

  std::int64_t digit() {
    const std::int64_t id = next();
    if (id == signs_.unknown) return unknown_;
    if (id < 0 || id >= kModulus) throw wrong();
    return id;
  }

  std::int64_t operand(int depth) {
    if (depth > kDeepest) throw formats::bad_input("an expression is nested too deep");
    const std::int64_t id = at_ < ids_.size() ? ids_[at_] : -1;
    if (id == signs_.minus) return ++at_, wrapped(-digit());
    if (id != signs_.open) return digit();
    ++at_;
    std::int64_t value = operand(depth + 1);
    std::int64_t sign = next();
    if (sign == signs_.close) return value;
    const int op = sign == signs_.plus ? 0 : sign == signs_.minus ? 1 : 2;
    if (op == 2 && (signs_.times < 0 || sign != signs_.times)) throw wrong();
    value = applied(op, value, operand(depth + 1));
    if (next() != signs_.close) throw wrong();
    return value;
  }

  const Ids& ids_;
  const Signs& signs_;
  std::int64_t unknown_;
  std::size_t at_ = 0;
};

}  // namespace

Ids expression(std::int64_t n, const Signs& signs, Random& random) {
  Ids out;
  append_expression(n, signs, random, out);
  return out;
}

std::int64_t value_of(const Ids& expression, const Signs& signs, std::int64_t unknown) {
  return Reader(expression, signs, unknown).whole();
}

std::array<double, 5> values_with_times(std::int64_t n) {
  std::array<double, 5> even{};
  even.fill(0.2);
  std::vector<std::array<double, 5>> of(static_cast<std::size_t>(n) + 1, even);
  for (std::int64_t m = 5; m <= n; ++m) {
    std::array<double, 5> sum{};
    for (std::int64_t left = 1; left <= m - 4; ++left) {
      const auto& l = of[static_cast<std::size_t>(left)];
      const auto& r = of[static_cast<std::size_t>(m - 3 - left)];
      for (std::int64_t a = 0; a < kModulus; ++a) {
        for (std::int64_t b = 0; b < kModulus; ++b) {
          const double both = l[static_cast<std::size_t>(a)] * r[static_cast<std::size_t>(b)];
          for (int op = 0; op < 3; ++op) sum[static_cast<std::size_t>(applied(op, a, b))] += both;
        }
      }
    }
    for (double& one : sum) one /= static_cast<double>(3 * (m - 4));
    of[static_cast<std::size_t>(m)] = sum;
  }
  return of.back();
}

}  // namespace phasescope::tasks
