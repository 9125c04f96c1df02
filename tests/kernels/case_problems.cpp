// The lists of problems that tests of every variant go through.
#include <iterator>

#include "tests/kernels/cases.h"

namespace phasescope::kernels::testing {

std::vector<Problem> paired_problems(Kind kind) {
  std::vector<Problem> problems;
  const auto add = [&](std::int64_t group, std::int64_t size, std::int64_t dim, bool causal) {
    Problem problem{kind};
    problem.shape = {1, group, 1, size, size, dim};
    problem.shape.causal = causal;
    problems.push_back(problem);
  };
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    for (std::size_t j = 0; j < std::size(kDims); ++j) {
      // Large in all three costs most of the time and adds no pair.
      const bool large = kSizes[i] > 100 && kDims[j] >= 80;
      add(kGroups[(i + j) % (large ? 2 : 3)], kSizes[i], kDims[j], (i + j / 2) % 2 == 0);
    }
  }
  add(1, kLongSize, 16, true);
  add(1, kLongSize, 64, false);
  return problems;
}

std::vector<Problem> window_problems(Kind kind, const MaskSizes& sizes) {
  std::vector<Problem> problems;
  const auto add = [&](const AttentionShape& shape) {
    problems.push_back({.kind = kind, .shape = shape});
  };
  AttentionShape shape = sizes.window;
  for (const std::int64_t window : sizes.windows) {
    shape.window = window;
    for (const bool causal : {true, false}) {
      shape.causal = causal;
      add(shape);
    }
  }
  add(sizes.late);
  shape = sizes.late;
  shape.query_offset = -20;  // the first queries see no key
  add(shape);
  return problems;
}

std::vector<Problem> padding_problems(Kind kind, const MaskSizes& sizes, bool every) {
  std::vector<Problem> problems;
  for (const Padding padding : {Padding::left, Padding::right, Padding::holes}) {
    for (const bool causal : {true, false}) {
      for (const std::int64_t window : {std::int64_t{0}, sizes.padding_window}) {
        const bool alike = causal == (window == 0);
        if (!every && alike == (padding == Padding::right)) continue;
        problems.push_back({.kind = kind, .shape = sizes.padding, .padding = padding});
        problems.back().shape.causal = causal;
        problems.back().shape.window = window;
      }
    }
  }
  return problems;
}

std::vector<Problem> document_problems(Kind kind, const MaskSizes& sizes) {
  std::vector<Problem> problems;
  for (const Documents documents : {Documents::packed, Documents::in_turn, Documents::mixed}) {
    Problem problem{.kind = kind, .shape = sizes.documents, .documents = documents};
    for (const bool causal : {true, false}) {
      problem.shape.causal = causal;
      problems.push_back(problem);
    }
    problem.shape.window = sizes.documents_window;
    problem.padding = Padding::holes;
    problems.push_back(problem);
  }
  // Rows that see no key: a query before the first key has a document of its own.
  Problem problem{.kind = kind, .shape = sizes.late, .documents = Documents::in_turn};
  for (const std::int64_t offset : {sizes.late.query_offset, std::int64_t{-20}}) {
    problem.shape.query_offset = offset;
    problems.push_back(problem);
  }
  return problems;
}

std::vector<Problem> soft_cap_problems(Kind kind, const MaskSizes& sizes) {
  std::vector<Problem> problems;
  for (const float cap : {50.0f, 1.5f, 0.1f}) {
    problems.push_back({.kind = kind, .shape = sizes.cap, .soft_cap = cap});
  }
  problems.push_back(
      {.kind = kind, .shape = sizes.cap_and_masks, .soft_cap = 0.1f, .padding = Padding::holes});
  return problems;
}

std::vector<Problem> sink_problems(Kind kind, const MaskSizes& sizes) {
  std::vector<Problem> problems;
  for (const Sinks sinks : {Sinks::even, Sinks::large, Sinks::off}) {
    problems.push_back({.kind = kind, .shape = sizes.cap, .sinks = sinks});
  }
  problems.push_back({.kind = kind, .shape = sizes.late, .sinks = Sinks::even});
  problems.back().shape.query_offset = -20;  // the first queries see no key
  problems.push_back({.kind = kind,
                      .shape = sizes.padding,
                      .padding = Padding::left,
                      .documents = Documents::packed,
                      .sinks = Sinks::large});
  problems.push_back({.kind = kind,
                      .shape = sizes.cap_and_masks,
                      .soft_cap = 1.5f,
                      .padding = Padding::holes,
                      .sinks = Sinks::even});
  problems.back().shape.causal = false;
  return problems;
}

std::vector<Problem> gate_problems(Kind kind, const MaskSizes& sizes) {
  std::vector<Problem> problems;
  for (const Gates gates : {Gates::by_channel, Gates::by_row}) {
    problems.push_back({.kind = kind, .shape = sizes.cap, .gates = gates});
    problems.push_back({.kind = kind, .shape = sizes.late, .sinks = Sinks::even, .gates = gates});
    problems.back().shape.query_offset = -20;  // the first queries see no key
    problems.push_back({.kind = kind,
                        .shape = sizes.cap_and_masks,
                        .soft_cap = 1.5f,
                        .padding = Padding::holes,
                        .gates = gates});
  }
  return problems;
}

}  // namespace phasescope::kernels::testing
