#include "analysis/query_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/tensors.h"
#include "formats/error.h"

namespace phasescope::analysis {
namespace {

class QueryRows {
 public:
  QueryRows(TextPass& pass, const QueryOptions& options)
      : pass_(pass),
        options_(options),
        config_(pass.model().config()),
        stack_(stack_named(options.stack, config_)) {
    protocol::QueryResult& result = out_.result;
    result.model = pass.model().report.name;
    result.stack = name_of(stack_, config_);
    result.layers = layers_of(stack_, config_), result.heads = config_.heads;
    result.tokens = pass.tokens(stack_);
    result.query = options.query < 0 ? result.tokens - 1 : options.query;
    if (result.query >= result.tokens) {
      throw formats::bad_usage("there is no query " + std::to_string(result.query) +
                                   "; the text has " + std::to_string(result.tokens) +
                                   " tokens, counted from 0",
                               "query");
    }
  }

  QueryOutput run() {
    const at::NoGradGuard no_gradients;
    pass_.visit_layers_with_maps([this](const AttentionPointer& layer) { add(*layer); }, nullptr,
                                 stack_);
    kernels_.insert(pass_.kernels().begin(), pass_.kernels().end());
    if (cells_.defined()) out_.tensors.push_back(tensor_ref("weights", cells_));
    out_.result.provenance.set_ran(protocol::listed(kernels_));
    return std::move(out_);
  }

 private:
  // (H, width), the largest weights of cells; one cell a key is the row itself.
  at::Tensor row_of(const model::LayerAttention& layer, std::int64_t width) {
    model::MapRequest request;
    request.region = {
        {0, layer.heads()}, {out_.result.query, out_.result.query + 1}, {0, layer.keys()}};
    request.height = 1, request.width = width;
    request.maximum = true;
    const model::MapResult map = layer.map(request);
    kernels_.insert(map.ran);
    return map.maximum.select(1, 0);
  }

  void add(const model::LayerAttention& layer) {
    protocol::QueryResult& result = out_.result;
    result.keys = layer.keys();
    result.width = std::clamp<std::int64_t>(options_.width, 1, result.keys);
    const at::Tensor row = row_of(layer, result.keys);
    const at::Tensor cells = result.width == result.keys ? row : row_of(layer, result.width);
    if (!cells_.defined()) {
      cells_ = at::full({result.layers, result.heads, result.width},
                        -std::numeric_limits<double>::infinity(), cells.options());
    }
    cells_[layer.layer()].narrow(0, 0, cells.size(0)).copy_(cells);
    add_heads(layer, row);
  }

  void add_heads(const model::LayerAttention& layer, const at::Tensor& row) {
    const std::int64_t top = std::min(options_.top, row.size(1));
    const auto [sorted, order] = at::sort(row, /*stable=*/true, /*dim=*/1, /*descending=*/true);
    const auto weights = to_vector<double>(sorted.narrow(1, 0, top).contiguous());
    const auto keys = to_vector<std::int64_t>(order.narrow(1, 0, top).contiguous());
    const at::Tensor sinks = layer.sink_weights();
    for (std::int64_t head = 0; head < layer.heads(); ++head) {
      protocol::QueryHead& one = out_.result.rows.emplace_back();
      one.layer = layer.layer(), one.head = head;
      for (auto n = static_cast<std::size_t>(head * top);
           n < static_cast<std::size_t>((head + 1) * top); ++n) {
        if (!std::isfinite(weights[n])) continue;  // the query does not see that key
        one.keys.push_back(keys[n]);
        one.weights.push_back(weights[n]);
      }
      if (sinks.defined()) one.sink = sinks[0][head][out_.result.query].item<double>();
    }
  }

  TextPass& pass_;
  const QueryOptions& options_;
  const model::ModelConfig& config_;
  Stack stack_;
  at::Tensor cells_;  // (L, H, width)
  model::AllRan kernels_;
  QueryOutput out_;
};

}  // namespace

QueryOutput analyse_query(TextPass& pass, const QueryOptions& options) {
  return QueryRows(pass, options).run();
}

}  // namespace phasescope::analysis
