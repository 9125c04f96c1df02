// The lists of problems that tests of every variant go through.
#include <iterator>

#include "tests/kernels/cases.h"

namespace phasescope::kernels::testing {
namespace {

std::size_t number_of(Kind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

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
  add(1, kLongSize, 16, number_of(kind) % 2 == 0);
  return problems;
}

std::vector<Problem> window_problems(Kind kind, const MaskSizes& sizes, bool every) {
  std::vector<Problem> problems;
  std::size_t turn = number_of(kind);
  const auto add = [&](const AttentionShape& shape) {
    problems.push_back({.kind = kind, .shape = shape});
  };
  AttentionShape shape = sizes.window;
  for (const std::int64_t window : sizes.windows) {
    shape.window = window;
    for (const bool causal : {true, false}) {
      shape.causal = causal;
      if (every || causal == (turn % 2 == 0)) add(shape);
    }
    ++turn;
  }
  add(sizes.late);
  shape = sizes.late;
  shape.query_offset = -20;  // the first queries see no key
  add(shape);
  return problems;
}

std::vector<Problem> padding_problems(Kind kind, const MaskSizes& sizes, bool every) {
  std::vector<Problem> problems;
  std::size_t turn = 0;
  for (const Padding padding : {Padding::left, Padding::right, Padding::holes}) {
    const bool its_causal = (turn + number_of(kind)) % 2 == 0;
    const bool its_window = ((turn + 1) / 2 + number_of(kind) / 2) % 2 == 1;
    for (const bool causal : {true, false}) {
      for (const bool window : {false, true}) {
        if (!every && (causal != its_causal || window != its_window)) continue;
        problems.push_back({.kind = kind, .shape = sizes.padding, .padding = padding});
        problems.back().shape.causal = causal;
        problems.back().shape.window = window ? sizes.padding_window : 0;
      }
    }
    ++turn;
  }
  return problems;
}

std::vector<Problem> document_problems(Kind kind, const MaskSizes& sizes, bool every) {
  std::vector<Problem> problems;
  std::size_t turn = number_of(kind);
  for (const Documents documents : {Documents::packed, Documents::in_turn, Documents::mixed}) {
    Problem causal{.kind = kind, .shape = sizes.documents, .documents = documents};
    Problem full = causal;
    full.shape.causal = false;
    Problem masked = full;
    masked.shape.window = sizes.documents_window;
    masked.padding = Padding::holes;
    std::size_t mask = 0;
    for (const Problem& problem : {causal, full, masked}) {
      if (every || mask == turn % 3) problems.push_back(problem);
      ++mask;
    }
    ++turn;
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
  for (const Sinks sinks : {Sinks::even, Sinks::off}) {  // large ones come below
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

std::vector<Problem> gate_problems(Kind kind, const MaskSizes& sizes, bool every) {
  Problem alone{.kind = kind, .shape = sizes.cap};
  Problem late{.kind = kind, .shape = sizes.late, .sinks = Sinks::even};
  late.shape.query_offset = -20;  // the first queries see no key
  Problem masked{.kind = kind, .shape = sizes.cap_and_masks, .soft_cap = 1.5f};
  masked.padding = Padding::holes;
  std::vector<Problem> problems;
  std::size_t turn = number_of(kind);
  for (Problem problem : {alone, late, masked}) {
    for (const Gates gates : {Gates::by_channel, Gates::by_row}) {
      problem.gates = gates;
      if (every || (gates == Gates::by_row) == (turn % 2 == 1)) problems.push_back(problem);
    }
    ++turn;
  }
  return problems;
}

std::vector<Problem> every_mask_problem(Kind kind, const MaskSizes& sizes) {
  std::vector<Problem> problems;
  for (const auto list : {window_problems, padding_problems, document_problems, gate_problems}) {
    const std::vector<Problem> some = list(kind, sizes, true);
    problems.insert(problems.end(), some.begin(), some.end());
  }
  return problems;
}

}  // namespace phasescope::kernels::testing
