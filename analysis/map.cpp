#include "analysis/map.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

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

class MapAnalysis {
 public:
  MapAnalysis(TextPass& pass, const protocol::MapRequest& asked)
      : asked_(asked),
        head_(parse_head(asked.head)),
        config_(pass.model().config()),
        stack_(stack_named(head_.stack, config_, "head")),
        attention_(pass.layer(head_.layer, stack_)),
        kernels_(pass.kernels()) {
    const std::int64_t heads = attention_->heads();
    if (head_.head >= heads) {
      throw formats::bad_usage("there is no head " + std::to_string(head_.head) + "; a layer has " +
                                   std::to_string(heads) + ", counted from 0",
                               "head");
    }
    const bool mean = head_.head < 0;
    request_.region.heads =
        mean ? model::Range{0, heads} : model::Range{head_.head, head_.head + 1};
    request_.region.rows = range_of(asked.rows, attention_->length(), "rows");
    request_.region.columns = range_of(asked.cols, attention_->keys(), "cols");
    request_.height = std::clamp<std::int64_t>(asked.size.height, 1, request_.region.rows.size());
    request_.width = std::clamp<std::int64_t>(asked.size.width, 1, request_.region.columns.size());
    request_.quantity = quantity_of(asked.of);
    if (asked.pool != "mean" && asked.pool != "max") {
      throw formats::bad_usage("cells are pooled by mean or max, not \"" + asked.pool + "\"",
                               "pool");
    }
    request_.maximum = asked.pool == "max";
    if (asked.top > 0 && mean) {
      throw formats::bad_usage("the top keys of a query are those of one head, like L3H5", "top");
    }
  }

  MapOutput run() {
    const at::NoGradGuard no_gradients;
    const model::MapResult map = map_of(request_);
    const at::Tensor cells = (request_.maximum ? map.maximum : map.mean).mean(0);
    MapOutput out;
    describe(cells, out.result);
    out.tensors.push_back(tensor_ref("map", cells));
    add_profiles(out);
    if (request_.quantity == MapQuantity::weight) add_sink(out);
    if (asked_.top != 0) add_top_keys(out.result);
    out.result.provenance.set_ran(protocol::listed(kernels_));
    return out;
  }

 private:
  // Those of all keys, whichever are shown: one pass over the layer.
  void add_top_keys(protocol::MapResult& result) {
    model::ProbeRequest request;
    request.top_keys = asked_.top;
    const model::ProbeResult probe = attention_->probe(request);
    kernels_.insert(probe.ran);
    const model::Range rows = request_.region.rows;
    const auto of_rows = [&](const at::Tensor& x) {
      return x[0][head_.head].slice(0, rows.begin, rows.end);
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
    result.layer = head_.layer, result.head = head_.head;
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
  void add_profiles(MapOutput& out) {
    for (const bool of_rows : {true, false}) {
      model::MapRequest request = request_;
      request.maximum = false;
      request.share = request_.quantity == MapQuantity::weight;
      (of_rows ? request.width : request.height) = 1;
      const model::MapResult map = map_of(request);
      at::Tensor profile = map.mean.mean(0);
      if (request.share) profile = at::where(map.share[0] > 0, profile / map.share[0], profile);
      out.tensors.push_back(
          tensor_ref(of_rows ? "row_profile" : "column_profile", profile.flatten()));
    }
  }

  // The mean over the heads shown of the weight on their sinks, by row of cells.
  void add_sink(MapOutput& out) {
    const at::Tensor sinks = attention_->sink_weights();
    if (!sinks.defined()) return;
    const auto [heads, rows, columns] = request_.region;
    const at::Tensor of_rows = sinks[0]
                                   .slice(0, heads.begin, heads.end)
                                   .slice(1, rows.begin, rows.end)
                                   .mean(0)
                                   .to(at::kDouble);
    std::vector<at::Tensor> cells;
    for (std::int64_t n = 0; n < request_.height; ++n) {
      const std::int64_t begin = n * rows.size() / request_.height;
      cells.push_back(of_rows.slice(0, begin, (n + 1) * rows.size() / request_.height).mean());
    }
    out.tensors.push_back(tensor_ref("sink_profile", at::stack(cells)));
    out.result.learned_sink = of_rows.mean().item<double>();
    out.result.provenance.note =
        std::string(protocol::kSinksBesideWeights) + ": without it those of the keys sum to less";
  }

  const protocol::MapRequest& asked_;
  const HeadName head_;
  const model::ModelConfig& config_;
  const Stack stack_;
  AttentionPointer attention_;
  model::MapRequest request_;
  model::AllRan kernels_;
};

}  // namespace

MapOutput analyse_map(TextPass& pass, const protocol::MapRequest& asked) {
  MapOutput out = MapAnalysis(pass, asked).run();
  out.result.model = pass.model().report.name;
  return out;
}

}  // namespace phasescope::analysis
