// The plain twins of the kernel's probes and maps, by blocks of rows.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "model/attention/layer_attention.h"
#include "model/attention/plain_attention.h"
#include "model/host_memory.h"

namespace phasescope::model {
namespace {

// Index distances i - j of the rows' tokens i, (rows, columns), beside `like`.
at::Tensor index_distances(const AttentionProgram& program, Range rows, std::int64_t columns,
                           const at::Tensor& like) {
  const std::int64_t first = program.query_offset + rows.begin;
  const at::TensorOptions whole = like.options().dtype(at::kLong);
  return at::arange(first, first + rows.size(), whole).unsqueeze(1) -
         at::arange(columns, whole).unsqueeze(0);
}

// Adds values (B, H, rows, columns) into sums (B, H, buckets) by the bucket of each pair; pairs of
// bucket 0 or past the last belong to none and land in a spare place on either side.
void add_by_bucket(at::Tensor& sums, const at::Tensor& bucket, const at::Tensor& values) {
  const std::int64_t buckets = sums.size(2);
  at::Tensor padded = at::zeros({sums.size(0), sums.size(1), buckets + 2}, sums.options());
  padded.index_add_(2, bucket.flatten(), values.flatten(2).to(sums.scalar_type()));
  sums += padded.slice(2, 1, buckets + 1);
}

// One block of rows at a time into the result.
class ProbeCollector {
 public:
  ProbeCollector(const LayerAttention& attention, const ProbeRequest& request) : request_(request) {
    if (request.bucket_edges.size() < 2) return;
    const at::TensorOptions there = attention.v().options();
    const at::TensorOptions wide = there.dtype(at::kDouble);
    edges_ = list_on(request.bucket_edges, there.device());
    const std::vector<std::int64_t> sizes = {
        attention.batch(), attention.heads(),
        static_cast<std::int64_t>(request.bucket_edges.size()) - 1};
    result_.bucket_pairs = at::zeros(sizes, there.dtype(at::kLong));
    result_.bucket_weight = at::zeros(sizes, wide);
    result_.bucket_score = at::zeros(sizes, wide);
    result_.bucket_score_square = at::zeros(sizes, wide);
    if (request.content) {
      result_.bucket_content = at::zeros(sizes, wide);
      result_.bucket_content_square = at::zeros(sizes, wide);
    }
    if (request.term) {
      result_.bucket_term = at::zeros(sizes, wide);
      result_.bucket_term_square = at::zeros(sizes, wide);
    }
  }

  void add(const AttentionProgram& program, const AttentionBlock& block, Range rows) {
    const std::int64_t columns = block.weights.size(-1);
    const at::Tensor distance = index_distances(program, rows, columns, block.weights);
    add_rows(block, distance);
    if (edges_.defined()) add_buckets(program, block, rows, distance);
  }

  ProbeResult take() {
    const auto join = [](std::vector<at::Tensor>& parts, at::Tensor& into) {
      if (!parts.empty()) into = at::cat(parts, 2);
    };
    join(entropy_, result_.entropy);
    join(max_score_, result_.max_score);
    join(max_key_, result_.max_key);
    join(top1_, result_.top1_mass);
    join(first_, result_.first_key_weight);
    join(mean_distance_, result_.mean_distance);
    join(sink_, result_.sink_weight);
    join(top_key_, result_.top_key);
    join(top_weight_, result_.top_weight);
    result_.window_mass.resize(request_.windows.size());
    for (std::size_t n = 0; n < windows_.size(); ++n) join(windows_[n], result_.window_mass[n]);
    return std::move(result_);
  }

 private:
  void add_rows(const AttentionBlock& block, const at::Tensor& distance) {
    if (request_.entropy) entropy_.push_back(row_entropy(block.weights));
    if (request_.max_score) max_score_.push_back(block.scores.amax(-1));
    if (request_.max_key) max_key_.push_back(block.scores.argmax(-1));
    if (request_.top1_mass) top1_.push_back(block.weights.amax(-1));
    if (request_.first_key_weight) first_.push_back(block.weights.select(-1, 0));
    if (request_.mean_distance) mean_distance_.push_back((block.weights * distance).sum(-1));
    if (request_.sink_weight) {
      sink_.push_back(block.sink_weight.defined() ? block.sink_weight
                                                  : at::zeros_like(block.weights.select(-1, 0)));
    }
    windows_.resize(request_.windows.size());
    for (std::size_t n = 0; n < request_.windows.size(); ++n) {
      const at::Tensor near = distance.abs() < request_.windows[n];
      windows_[n].push_back((block.weights * near).sum(-1));
    }
    if (request_.top_keys > 0) add_top_keys(block);
  }

  // Of equal scores the lower key first: a stable order.
  void add_top_keys(const AttentionBlock& block) {
    auto [score, key] = at::sort(block.scores, /*stable=*/true, /*dim=*/-1, /*descending=*/true);
    const std::int64_t most = std::min(request_.top_keys, score.size(-1));
    score = score.narrow(-1, 0, most), key = key.narrow(-1, 0, most);
    const at::Tensor none = score.isneginf();
    const at::Tensor weight = block.weights.gather(-1, key).masked_fill(none, 0.0);
    const auto padded = [&](const at::Tensor& x, double value) {
      return at::constant_pad_nd(x, {0, request_.top_keys - most}, value);
    };
    top_key_.push_back(padded(key.to(at::kInt).masked_fill(none, -1), -1));
    top_weight_.push_back(padded(weight, 0));
  }

  void add_buckets(const AttentionProgram& program, const AttentionBlock& block, Range rows,
                   const at::Tensor& distance) {
    // right = true: edges[b] <= distance < edges[b + 1] gives b + 1, below all edges 0.
    at::Tensor bucket = at::bucketize(distance.abs(), edges_, false, true);
    at::Tensor visible = at::ones_like(block.scores, at::kLong);
    const at::Tensor hidden = hidden_pairs(program, rows, {0, block.scores.size(-1)});
    if (hidden.defined()) visible = visible.masked_fill(hidden, 0);
    const at::Tensor scores =
        (hidden.defined() ? block.scores.masked_fill(hidden, 0) : block.scores).to(at::kDouble);
    add_by_bucket(result_.bucket_pairs, bucket, visible);
    add_by_bucket(result_.bucket_weight, bucket, block.weights);
    add_by_bucket(result_.bucket_score, bucket, scores);
    add_by_bucket(result_.bucket_score_square, bucket, scores.square());
    if (!request_.content && !request_.term) return;
    const Range heads{0, program.q.size(1)}, columns{0, block.scores.size(-1)};
    at::Tensor content = plain_content(program, heads, rows, columns).to(at::kDouble);
    if (hidden.defined()) content = content.masked_fill(hidden, 0);
    if (request_.content) {
      add_by_bucket(result_.bucket_content, bucket, content);
      add_by_bucket(result_.bucket_content_square, bucket, content.square());
    }
    if (request_.term) {
      const at::Tensor term = scores - content;
      add_by_bucket(result_.bucket_term, bucket, term);
      add_by_bucket(result_.bucket_term_square, bucket, term.square());
    }
  }

  const ProbeRequest& request_;
  at::Tensor edges_;
  std::vector<at::Tensor> entropy_, max_score_, max_key_, top1_, first_, mean_distance_, sink_;
  std::vector<at::Tensor> top_key_, top_weight_;
  std::vector<std::vector<at::Tensor>> windows_;
  ProbeResult result_;
};

// Where the cell's rows (or columns) begin and end.
Range cell_range(std::int64_t cell, std::int64_t cells, std::int64_t size) {
  const std::int64_t begin = cell * size / cells;
  return {begin, std::max(begin + 1, (cell + 1) * size / cells)};
}

at::Tensor quantity_of(const LayerAttention& attention, const Region& region, std::int64_t batch,
                       MapQuantity quantity) {
  const ScoreParts parts = attention.scores(region);
  if (quantity == MapQuantity::weight) {
    const at::Tensor lse = attention.normalisers()[batch]
                               .slice(0, region.heads.begin, region.heads.end)
                               .slice(1, region.rows.begin, region.rows.end);
    const at::Tensor& score = parts.score[batch];
    return at::exp(score - lse.unsqueeze(-1)).masked_fill(score.isneginf(), 0.0);
  }
  if (quantity == MapQuantity::content) return parts.content[batch];
  return (quantity == MapQuantity::score ? parts.score : parts.positional)[batch];
}

// First column of each cell and the one after its last, (width) each. Cells share no column
// unless there are more cells than columns; then each is one column.
struct CellEdges {
  at::Tensor begin, end;
  std::int64_t widest = 0;
};
CellEdges cell_edges(std::int64_t cells, std::int64_t size) {
  std::vector<std::int64_t> begin, end;
  std::int64_t widest = 0;
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    const Range range = cell_range(cell, cells, size);
    begin.push_back(range.begin);
    end.push_back(range.end);
    widest = std::max(widest, range.size());
  }
  return {at::tensor(begin, at::kLong), at::tensor(end, at::kLong), widest};
}

// Sums over the cells of the last dimension. Not by differences of running sums: one NaN would be
// in every cell after its own.
at::Tensor cell_sums(const at::Tensor& x, const CellEdges& edges) {
  if (edges.widest == 1) return x.index_select(-1, edges.begin);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  const at::Tensor cell =
      at::repeat_interleave(edges.end - edges.begin, std::optional(x.size(-1))).expand(sizes);
  sizes.back() = edges.begin.size(0);
  return at::zeros(sizes, x.options()).scatter_add_(-1, cell, x);
}

at::Tensor cell_maxima(const at::Tensor& x, const CellEdges& edges) {
  at::Tensor maxima = x.index_select(-1, edges.begin);
  for (std::int64_t n = 1; n < edges.widest; ++n) {
    maxima = at::maximum(maxima, x.index_select(-1, at::minimum(edges.begin + n, edges.end - 1)));
  }
  return maxima;
}

// One row of cells, (heads, width), from values (heads, rows, columns) and which are visible.
struct CellRow {
  at::Tensor mean, maximum, share;
};
CellRow pooled_row(const at::Tensor& values, const at::Tensor& visible, const CellEdges& edges,
                   MapQuantity quantity) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor sums = at::where(visible, values, 0.0).to(at::kDouble).sum(1);
  const at::Tensor counts = cell_sums(visible.to(at::kDouble).sum(0), edges);
  const at::Tensor maxima = at::where(visible, values, -infinity).amax(1);
  const at::Tensor all = (edges.end - edges.begin) * values.size(1);
  const at::Tensor pairs = quantity == MapQuantity::weight ? all : counts;
  const at::Tensor masked = counts == 0;
  return {(cell_sums(sums, edges) / pairs).masked_fill(masked, -infinity),
          cell_maxima(maxima, edges).masked_fill(masked, -infinity),
          (counts / all).expand({values.size(0), -1})};
}

}  // namespace

ProbeResult plain_probe(const LayerAttention& attention, const ProbeRequest& request) {
  const at::NoGradGuard no_grad;
  const AttentionProgram& program = attention.program();
  ProbeCollector collector(attention, request);
  const std::int64_t step = plain_block_rows(program);
  for (std::int64_t begin = 0; begin < attention.length(); begin += step) {
    const Range rows{begin, std::min(attention.length(), begin + step)};
    collector.add(program, plain_block(program, attention.v(), rows), rows);
  }
  ProbeResult result = collector.take();
  result.ran = ran_plain(attention.v());
  return result;
}

MapResult pooled_map(const LayerAttention& attention, const MapRequest& request,
                     const RegionValues& values_of) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> mean, maximum, share;
  const at::ScalarType dtype = at::promote_types(attention.q().scalar_type(), at::kFloat);
  const CellEdges edges = cell_edges(request.width, request.region.columns.size());
  for (std::int64_t y = 0; y < request.height; ++y) {
    const Range cell = cell_range(y, request.height, request.region.rows.size());
    Region region = request.region;
    region.rows = {request.region.rows.begin + cell.begin, request.region.rows.begin + cell.end};
    const at::Tensor values = values_of(region);
    // On the host, where the values are.
    at::Tensor hidden = on_host(hidden_pairs(attention.program(), region.rows, region.columns));
    if (hidden.defined() && hidden.dim() == 4) hidden = hidden[request.batch][0];
    const at::Tensor visible = hidden.defined() ? hidden.logical_not()
                                                : at::ones({values.size(1), values.size(2)},
                                                           values.options().dtype(at::kBool));
    const CellRow row = pooled_row(values, visible, edges, request.quantity);
    mean.push_back(row.mean);
    maximum.push_back(row.maximum);
    share.push_back(row.share);
  }
  MapResult result;
  result.mean = at::stack(mean, 1).to(dtype);
  if (request.maximum) result.maximum = at::stack(maximum, 1).to(dtype);
  if (request.share) result.share = at::stack(share, 1).to(dtype);
  return result;
}

MapResult plain_map(const LayerAttention& attention, const MapRequest& request) {
  MapResult result = pooled_map(attention, request, [&](const Region& region) {
    return quantity_of(attention, region, request.batch, request.quantity);
  });
  result.ran = ran_plain(attention.v());
  return result;
}

}  // namespace phasescope::model
