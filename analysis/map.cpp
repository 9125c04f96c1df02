#include "analysis/map.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "analysis/content_attention.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "protocol/sink_words.h"

namespace phasescope::analysis {
namespace {

using model::MapQuantity;

MapQuantity quantity_of(const std::string& of) {
  if (of == "weight") return MapQuantity::weight;
  if (of == "score") return MapQuantity::score;
  if (of == "content") return MapQuantity::content;
  if (of == "positional") return MapQuantity::positional;
  throw formats::bad_usage("a map is of weight, score, content or positional, not \"" + of + "\"",
                           "of");
}

model::Range range_of(const std::optional<protocol::Range>& range, std::int64_t tokens,
                      const char* name) {
  if (!range) return {0, tokens};
  if (range->begin < 0 || range->end > tokens || range->begin >= range->end) {
    throw formats::bad_usage("the range " + std::to_string(range->begin) + ":" +
                                 std::to_string(range->end) + " is not within the text's " +
                                 std::to_string(tokens) + " tokens",
                             name);
  }
  return {range->begin, range->end};
}

}  // namespace

HeadName parse_head(const std::string& name) {
  const auto fail = [&name]() -> HeadName {
    throw formats::bad_usage(
        "expected a head like L3H5, or a layer like L3, but got \"" + name + "\"", "head");
  };
  HeadName out;
  const std::size_t dot = name.find('.');
  const std::size_t start = dot == name.npos ? 0 : dot + 1;
  if (start > 0) out.stack = name.substr(0, dot);
  if (dot == 0 || name.size() <= start || name[start] != 'L') return fail();
  const char* end = name.data() + name.size();
  auto [at, error] = std::from_chars(name.data() + start + 1, end, out.layer);
  if (error != std::errc()) return fail();
  if (at == end) return out;
  if (*at != 'H') return fail();
  auto [last, second_error] = std::from_chars(at + 1, end, out.head);
  if (second_error != std::errc() || last != end || out.head < 0) return fail();
  return out;
}

namespace {

std::vector<HeadName> heads_named_in(const std::vector<std::string>& names) {
  if (names.empty()) throw formats::bad_usage("no head is named", "head", "write L3H5");
  std::vector<HeadName> heads;
  for (const std::string& name : names) heads.push_back(parse_head(name));
  return heads;
}

Stack stack_of(const std::vector<HeadName>& heads, const model::ModelConfig& config) {
  const Stack stack = stack_named(heads.front().stack, config, "head");
  for (const HeadName& head : heads) {
    if (stack_named(head.stack, config, "head") == stack) continue;
    throw formats::bad_usage("heads of different stacks have no mean in common", "head");
  }
  return stack;
}

// The mean over heads of cells that come layer by layer.
class MeanOfHeads {
 public:
  // `of_weights`: what is hidden from some heads is a weight of 0 there; of other quantities it is
  // hidden in the mean.
  explicit MeanOfHeads(bool of_weights) : of_weights_(of_weights) {}
  // (heads, ...), -inf where hidden.
  void add(const at::Tensor& cells) {
    for (std::int64_t head = 0; head < cells.size(0); ++head) {
      if (++heads_ == 1) {
        first_ = cells[head];
        continue;
      }
      if (heads_ == 2) take(first_);
      take(cells[head]);
    }
  }
  // In the cells' dtype; of one head those themselves.
  at::Tensor mean() const {
    if (heads_ == 1) return first_;
    const at::Tensor mean = sum_ / heads_;
    return mean.masked_fill_(hidden_, -std::numeric_limits<double>::infinity())
        .to(first_.scalar_type());
  }

 private:
  void take(const at::Tensor& cells) {
    const at::Tensor values = cells.to(at::kDouble, false, true);
    const at::Tensor hidden = values.isneginf();
    if (of_weights_) values.masked_fill_(hidden, 0);
    if (!sum_.defined()) {
      sum_ = values, hidden_ = hidden;
      return;
    }
    sum_.add_(values), hidden_.logical_and_(hidden);
  }

  const bool of_weights_;
  std::int64_t heads_ = 0;
  at::Tensor first_;
  at::Tensor sum_, hidden_;  // where there are several; in float64
};

class MapAnalysis {
 public:
  MapAnalysis(TextPass& pass, const protocol::MapRequest& asked)
      : pass_(pass),
        asked_(asked),
        config_(pass.model().config()),
        named_(heads_named_in(asked.head)),
        stack_(stack_of(named_, config_)),
        is_weight_(quantity_of(asked.of) == MapQuantity::weight),
        cells_(is_weight_),
        by_row_{.mean = MeanOfHeads(is_weight_)},
        by_column_{.mean = MeanOfHeads(is_weight_)} {
    if (asked.pool != "mean" && asked.pool != "max") {
      throw formats::bad_usage("cells are pooled by mean or max, not \"" + asked.pool + "\"",
                               "pool");
    }
    if (asked.top > 0 && (named_.size() > 1 || named_.front().head < 0)) {
      throw formats::bad_usage("the top keys of a query are those of one head, like L3H5", "top");
    }
  }

  MapOutput run(protocol::Progress& progress) {
    const at::NoGradGuard no_gradients;
    MapOutput out;
    const std::set<std::int64_t> layers = this->layers();
    double done = 0;
    for (const std::int64_t layer : layers) {
      const auto all = static_cast<double>(layers.size());
      protocol::PartOfProgress part(progress, done / all, (done + 1) / all);
      const Watching watching(pass_, part);  // each may run a pass of its own
      ++done;
      attention_ = pass_.layer(layer, stack_);
      kernels_.insert(pass_.kernels().begin(), pass_.kernels().end());
      prepare();
      for (const model::Range& heads : heads_of(layer)) {
        request_.region.heads = heads;
        add_heads();
      }
    }
    const at::Tensor cells = cells_.mean();
    describe(cells, out.result);
    out.tensors.push_back(tensor_ref("map", cells));
    out.tensors.push_back(tensor_ref("row_profile", profile_of(by_row_)));
    out.tensors.push_back(tensor_ref("column_profile", profile_of(by_column_)));
    if (sinks_.defined()) add_sink(out);
    if (asked_.top != 0) add_top_keys(out.result);
    out.result.provenance.set_ran(protocol::listed(kernels_));
    return out;
  }

 private:
  // Means along one edge, and what share of their pairs is unmasked; of weights alone.
  struct Profile {
    MeanOfHeads mean;
    at::Tensor share = {};  // summed over heads
  };

  std::set<std::int64_t> layers() const {
    std::set<std::int64_t> layers;
    for (const HeadName& head : named_) layers.insert(head.layer);
    return layers;
  }

  // The heads of a layer that were named, as ranges of heads that follow each other.
  std::vector<model::Range> heads_of(std::int64_t layer) const {
    const std::int64_t all = attention_->heads();
    std::set<std::int64_t> chosen;
    for (const HeadName& name : named_) {
      if (name.layer != layer) continue;
      if (name.head >= all) {
        throw formats::bad_usage("there is no head " + std::to_string(name.head) +
                                     "; a layer has " + std::to_string(all) + ", counted from 0",
                                 "head");
      }
      if (name.head >= 0) chosen.insert(name.head);
      for (std::int64_t h = 0; name.head < 0 && h < all; ++h) chosen.insert(h);
    }
    std::vector<model::Range> ranges;
    for (const std::int64_t head : chosen) {
      if (ranges.empty() || ranges.back().end != head) ranges.push_back({head, head});
      ranges.back().end = head + 1;
    }
    return ranges;
  }

  // The region and its cells, the same in every layer of a stack.
  void prepare() {
    request_.region.rows = range_of(asked_.rows, attention_->length(), "rows");
    request_.region.columns = range_of(asked_.cols, attention_->keys(), "cols");
    request_.height = std::clamp<std::int64_t>(asked_.size.height, 1, request_.region.rows.size());
    request_.width = std::clamp<std::int64_t>(asked_.size.width, 1, request_.region.columns.size());
    request_.quantity = quantity_of(asked_.of);
    request_.maximum = asked_.pool == "max";
  }

  void add_heads() {
    const model::MapResult map = map_of(request_);
    cells_.add(request_.maximum ? map.maximum : map.mean);
    add_profile(true, by_row_), add_profile(false, by_column_);
    heads_ += request_.region.heads.size();
    if (is_weight_) add_sinks_of_heads();
  }

  // Those of all keys, whichever are shown: one pass over the layer.
  void add_top_keys(protocol::MapResult& result) {
    model::ProbeRequest request;
    request.top_keys = asked_.top;
    const model::ProbeResult probe = attention_->probe(request);
    kernels_.insert(probe.ran);
    const model::Range rows = request_.region.rows;
    const auto of_rows = [&](const at::Tensor& x) {
      return x[0][named_.front().head].slice(0, rows.begin, rows.end);
    };
    const auto keys = to_vector<std::int64_t>(of_rows(probe.top_key));
    const auto weights = to_vector<double>(of_rows(probe.top_weight));
    for (std::size_t n = 0; n < keys.size(); ++n) {
      if (n % static_cast<std::size_t>(asked_.top) == 0) {
        result.top.push_back({rows.begin + static_cast<std::int64_t>(result.top.size()), {}, {}});
      }
      if (keys[n] < 0) continue;  // the query sees fewer
      result.top.back().keys.push_back(keys[n]);
      result.top.back().weights.push_back(weights[n]);
    }
  }

  model::MapResult recorded(model::MapResult map) {
    kernels_.insert(map.ran);
    return map;
  }

  // Content scores are a pass of their own over the region, and positional terms are what they
  // lack; only the largest positional term of a cell needs every pair's.
  model::MapResult map_of(const model::MapRequest& request) {
    const bool content = request.quantity == MapQuantity::content;
    const bool positional = request.quantity == MapQuantity::positional;
    if ((!content && !positional) || (positional && request.maximum)) {
      return recorded(attention_->map(request));
    }
    model::MapRequest scores = request;
    scores.quantity = MapQuantity::score;
    model::MapResult map = recorded(content_attention(*attention_).map(scores));
    if (positional) {
      const at::Tensor score = recorded(attention_->map(scores)).mean;
      map.mean = at::where(score.isneginf(), score, score - map.mean);  // masked cells: -inf
    }
    return map;
  }

  void describe(const at::Tensor& cells, protocol::MapResult& result) {
    const bool several = named_.size() > 1;
    result.layer = named_.front().layer, result.head = several ? -1 : named_.front().head;
    if (several) result.heads = asked_.head;
    result.stack = name_of(stack_, config_);
    result.tokens = attention_->length(), result.keys = attention_->keys();
    result.row_begin = request_.region.rows.begin, result.row_end = request_.region.rows.end;
    result.column_begin = request_.region.columns.begin;
    result.column_end = request_.region.columns.end;
    result.height = request_.height, result.width = request_.width;
    result.of = asked_.of, result.pool = asked_.pool;
    const std::vector<double> values = to_vector<double>(cells);
    result.low = std::numeric_limits<double>::infinity(), result.high = -result.low;
    for (const double value : values) {
      if (!std::isfinite(value)) continue;
      result.low = std::min(result.low, value);
      result.high = std::max(result.high, value);
    }
    if (result.low > result.high) result.low = result.high = std::nan("");
  }

  // Means over the unmasked pairs of each row and column of cells: two maps of one column and of
  // one row of cells, -inf where there is no such pair. A mean map of weights counts masked pairs,
  // which the share of the others undoes.
  void add_profile(bool of_rows, Profile& profile) {
    model::MapRequest request = request_;
    request.maximum = false;
    request.share = is_weight_;
    (of_rows ? request.width : request.height) = 1;
    const model::MapResult map = map_of(request);
    profile.mean.add(map.mean);
    if (!request.share) return;
    const at::Tensor share = map.share[0].to(at::kDouble) * request.region.heads.size();
    profile.share = profile.share.defined() ? profile.share + share : share;
  }
  at::Tensor profile_of(const Profile& profile) const {
    const at::Tensor mean = profile.mean.mean();
    if (!profile.share.defined()) return mean.flatten();
    const at::Tensor share = profile.share / heads_;
    return at::where(share > 0, mean / share, mean.to(at::kDouble))
        .to(mean.scalar_type())
        .flatten();
  }

  // The weight on the sinks of the heads shown, by row of cells; those without one have 0 on it.
  void add_sinks_of_heads() {
    const at::Tensor sinks = attention_->sink_weights();
    if (!sinks.defined()) return;
    const auto [heads, rows, columns] = request_.region;
    const at::Tensor of_rows = sinks[0]
                                   .slice(0, heads.begin, heads.end)
                                   .slice(1, rows.begin, rows.end)
                                   .sum(0, false, at::kDouble);
    sinks_ = sinks_.defined() ? sinks_ + of_rows : of_rows;
  }

  void add_sink(MapOutput& out) {
    const at::Tensor of_rows = sinks_ / heads_;
    const std::int64_t rows = of_rows.size(0);
    std::vector<at::Tensor> cells;
    for (std::int64_t n = 0; n < request_.height; ++n) {
      const std::int64_t begin = n * rows / request_.height;
      cells.push_back(of_rows.slice(0, begin, (n + 1) * rows / request_.height).mean());
    }
    out.tensors.push_back(tensor_ref("sink_profile", at::stack(cells)));
    out.result.learned_sink = of_rows.mean().item<double>();
    out.result.provenance.note =
        std::string(protocol::kSinksBesideWeights) + ": without it those of the keys sum to less";
  }

  TextPass& pass_;
  const protocol::MapRequest& asked_;
  const model::ModelConfig& config_;
  const std::vector<HeadName> named_;
  const Stack stack_;
  const bool is_weight_;
  AttentionPointer attention_;  // of the layer that is read
  model::MapRequest request_;
  std::int64_t heads_ = 0;  // that were read
  MeanOfHeads cells_;
  Profile by_row_, by_column_;
  at::Tensor sinks_;  // (rows), summed over heads
  model::AllRan kernels_;
};

}  // namespace

MapOutput analyse_map(TextPass& pass, const protocol::MapRequest& asked) {
  protocol::NoProgress nobody;
  return analyse_map(pass, asked, nobody);
}

MapOutput analyse_map(TextPass& pass, const protocol::MapRequest& asked,
                      protocol::Progress& progress) {
  MapOutput out = MapAnalysis(pass, asked).run(progress);
  out.result.model = pass.model().report.name;
  return out;
}

}  // namespace phasescope::analysis
