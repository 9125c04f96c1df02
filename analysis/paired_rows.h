#pragma once
// One quantity of every row of some texts, added text by text: its mean over all rows with its
// interval, and the same block by block. Differences of two models are made row by row before, so
// that they are paired.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "analysis/intervals/intervals.h"

namespace phasescope::analysis {

// Many texts: the ratio of sums, by text. One text: 8 blocks of its rows. Rows that are not finite
// make the mean what they are, without an interval.
class RowMean {
 public:
  // rows: of one text, any shape.
  void add(const at::Tensor& rows);
  Interval interval(const Draws& draws) const;
  // The same of rows that are 1 or 0, the share that has a property.
  Interval share(const Draws& draws) const;
  std::int64_t texts() const { return static_cast<std::int64_t>(texts_.size()); }

 private:
  std::vector<Part> texts_;
  at::Tensor only_;  // the rows of the only text
};

// The same of blocks of rows of equal length, `count` of them at most on the longest text.
class RowBlocks {
 public:
  struct Block {
    std::int64_t begin = 0, end = 0;
    Interval mean;
  };
  explicit RowBlocks(std::int64_t longest, std::int64_t count = 32);
  // rows: (R) of one text, R at most `longest`.
  void add(const at::Tensor& rows);
  // Those that some text has rows in.
  std::vector<Block> blocks(const Draws& draws) const;

 private:
  std::int64_t longest_, step_;
  std::vector<RowMean> means_;
};

}  // namespace phasescope::analysis
