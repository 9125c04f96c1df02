#include "tasks/chomsky/binary.h"
#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

// Numbers as bits, highest first; of one length.
bool not_below(const Ids& a, const Ids& b) { return a >= b; }

void subtract(Ids& a, const Ids& b) {
  std::int64_t borrow = 0;
  for (std::size_t i = a.size(); i-- > 0;) {
    const std::int64_t digit = a[i] - b[i] - borrow;
    borrow = digit < 0 ? 1 : 0;
    a[i] = digit + 2 * borrow;
  }
}

void append(Ids& bits, std::int64_t bit) {
  bits.erase(bits.begin());
  bits.push_back(bit);
}

// Digit by digit: the remainder takes two bits more, and where it holds 4 root + 1, the root's next
// bit is 1.
Ids compute_sqrt_target(const Ids& input) {
  Ids bits = input;
  if (bits.size() % 2 == 1) bits.insert(bits.begin(), 0);
  const std::size_t pairs = bits.size() / 2, room = pairs + 3;
  Ids remainder(room), root(room);
  for (std::size_t p = 0; p < pairs; ++p) {
    append(remainder, bits[2 * p]);
    append(remainder, bits[2 * p + 1]);
    Ids trial = root;
    append(trial, 0);
    append(trial, 1);
    const bool fits = not_below(remainder, trial);
    if (fits) subtract(remainder, trial);
    append(root, fits ? 1 : 0);
  }
  return {root.end() - static_cast<std::ptrdiff_t>(pairs), root.end()};
}

}  // namespace

std::unique_ptr<Task> compute_sqrt() {
  return chomsky_task({.key = "compute_sqrt",
                       .public_name = "compute_sqrt",
                       .title = "Square root",
                       .help = "the whole part of a binary number's root, highest bit first",
                       .input = number_above_zero,
                       .target = compute_sqrt_target});
}

}  // namespace phasescope::tasks
