// What the papers print of tasks that are evaluated here too: shares of right answers.
#include <array>

#include "app/figures/published.h"

namespace phasescope::app {

namespace {

// An encoding here and what the paper calls it.
struct Printed {
  const char *encoding, *name;
};

// CAPE (arXiv 2405.14722), Table 2: percent right, mean over lengths 41 to 500 of models trained to
// 40; the columns in their order.
constexpr std::array<Printed, 10> kColumns = {{{"learned", "learned"},
                                               {"sinusoidal", "sinusoidal"},
                                               {"rope", "rope"},
                                               {"shaw", "shaw"},
                                               {"alibi", "alibi"},
                                               {"kerple_log", "kerple"},
                                               {"fire", "fire"},
                                               {"cape", "cape_alibi"},
                                               {"cape", "cape_kerple"},
                                               {"cape", "cape_fire"}}};
struct TaskLine {
  const char* task;
  std::array<double, kColumns.size()> percent;
};
constexpr TaskLine kLines[] = {
    {"even_pairs", {50.04, 91.27, 99.98, 96.6, 73.52, 57.5, 73.86, 99.99, 99.58, 100}},
    {"modular_arithmetic_simple",
     {19.95, 20.39, 21.35, 20.84, 20.02, 21.79, 21.09, 23.58, 24.47, 24.46}},
    {"parity_check", {50.14, 50.52, 50.05, 50.09, 50.09, 50.07, 50.97, 50.3, 50.07, 50.04}},
    {"cycle_navigation", {24.97, 25.37, 27.63, 26.95, 24.64, 29.47, 28.41, 22.99, 34.53, 27.54}},
    {"stack_manipulation", {59.92, 65.92, 61.49, 64.73, 66.42, 66.93, 69.33, 68.18, 72.04, 70.9}},
    {"reverse_string", {52.76, 67.28, 65.23, 65.59, 71.09, 71.54, 65.89, 73.37, 70.74, 76.4}},
    {"modular_arithmetic", {31.0, 30.7, 31.25, 31.74, 30.56, 24.79, 30.92, 31.34, 32.37, 31.5}},
    {"solve_equation", {20.0, 19.97, 21.85, 22.93, 19.92, 21.15, 22.06, 20.03, 22.49, 22.42}},
    {"duplicate_string", {52.77, 65.44, 64.97, 67.66, 65.13, 66.72, 69.03, 70.84, 72.95, 72.71}},
    {"missing_duplicate", {50.38, 49.78, 63.37, 72.34, 74.21, 79.06, 79.27, 83.41, 87.57, 89.17}},
    {"odds_first", {52.77, 58.61, 61.0, 61.57, 59.88, 62.59, 63.28, 63.78, 67.08, 66.34}},
    {"binary_addition", {54.63, 55.78, 55.59, 56.96, 54.72, 56.35, 55.7, 59.71, 60.88, 56.62}},
    {"compute_sqrt", {50.47, 51.11, 51.88, 51.63, 50.63, 51.11, 50.8, 51.64, 51.33, 52.46}},
    {"bucket_sort", {98.32, 98.92, 98.12, 99.31, 98.45, 99.38, 99.57, 99.38, 98.81, 99.37}},
};

// TAPE (arXiv 2501.00712): percent of sums that are right, mean over the grid to twice the trained
// digits.
struct Sum {
  Printed printed;
  double digits, percent;
};
constexpr Sum kSums[] = {
    {{"rope", "rope"}, 80, 26.32}, {{"randomized_rope", "randomized_rope"}, 80, 26.56},
    {{"none", "none"}, 80, 22.45}, {{"fire", "fire"}, 80, 26.98},
    {{"tape", "tape"}, 80, 32.82}, {{"tape", "tape + yarn"}, 80, 33.92},
    {{"rope", "rope"}, 40, 26.12}, {{"randomized_rope", "randomized_rope"}, 40, 26.12},
    {{"fire", "fire"}, 40, 39.44}, {{"tape", "tape"}, 40, 41.42},
};

std::string figure_of_sum(const Sum& sum) {
  if (sum.digits == 40) return "Figure 5";
  return std::string(sum.printed.name) == "tape + yarn" ? "Figure 6" : "Figure 2";
}

}  // namespace

std::vector<PublishedSeries> published_of_tasks() {
  std::vector<PublishedSeries> all;
  for (const TaskLine& line : kLines) {
    for (std::size_t n = 0; n < kColumns.size(); ++n) {
      const double share = line.percent[n] / 100;
      all.push_back({kColumns[n].encoding,
                     std::string("accuracy ") + line.task,
                     "CAPE 2405.14722, Table 2",
                     "trained to 40, mean over lengths 41 to 500",
                     kColumns[n].name,
                     "order only",
                     {41, 500},
                     {share, share}});
    }
  }
  for (const Sum& sum : kSums) {
    const std::string digits = sum.digits == 40 ? "20" : "40",
                      twice = sum.digits == 40 ? "40" : "80";
    all.push_back(
        {sum.printed.encoding,
         "exact_match addition",
         "TAPE 2501.00712, " + figure_of_sum(sum),
         "trained to " + digits + " digits, mean over the grid to " + twice + " x " + twice,
         sum.printed.name,
         "order only",
         {sum.digits},
         {sum.percent / 100}});
  }
  return all;
}

}  // namespace phasescope::app
