#include "app/figures/query_key_figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "app/figures/map_look.h"

namespace phasescope::app {

using protocol::TensorRef;
using widgets::MapSpec;
using widgets::PlotSpec;
using widgets::Series;

namespace {

// One head of a tensor (1, H, N, d); nothing where it has another shape.
std::vector<float> head_of(std::span<const TensorRef> tensors, const std::string& name,
                           int64_t head, int64_t heads, QueryKey& out) {
  const TensorRef* tensor = protocol::find_tensor(tensors, name);
  if (tensor == nullptr || tensor->shape.size() != 4 || tensor->shape[0] != 1) return {};
  const int64_t held = tensor->shape[1], tokens = tensor->shape[2], channels = tensor->shape[3];
  const int64_t which = held == 1 ? 0 : head * held / std::max<int64_t>(1, heads);
  if (which < 0 || which >= held) return {};
  out.tokens = tokens, out.channels = channels;
  const Grid grid = grid_of(*tensor);
  const auto begin = grid.values.begin() + std::ptrdiff_t(which * tokens * channels);
  return {begin, begin + std::ptrdiff_t(tokens * channels)};
}

std::vector<double> row_of(const std::vector<float>& values, int64_t row, int64_t channels) {
  if (values.empty()) return {};
  const auto begin = values.begin() + std::ptrdiff_t(row * channels);
  return {begin, begin + std::ptrdiff_t(channels)};
}

std::vector<double> products(std::vector<double> a, const std::vector<double>& b) {
  for (size_t n = 0; n < std::min(a.size(), b.size()); ++n) a[n] *= b[n];
  return a;
}

std::string sum_of(const std::vector<double>& values) {
  return widgets::short_number(std::accumulate(values.begin(), values.end(), 0.0));
}

PlotSpec figure_of(const std::string& what, const std::string& title, const QueryKey& values,
                   const ModelNames& names) {
  PlotSpec plot{.id = what + "_" + names.file_name(values.model) + "_" + values.head,
                .title = names.short_name(values.model) + " " + values.head + ": " + title};
  plot.x.label = "channel";
  plot.markers.push_back({.at = 0, .vertical = false});
  return plot;
}

void add(PlotSpec& plot, const char* label, const std::vector<double>& y, int color) {
  if (y.empty()) return;
  Series series{.label = label, .y = y, .color = color, .points = widgets::PointShape::circle};
  for (size_t n = 0; n < y.size(); ++n) series.x.push_back(double(n));
  plot.series.push_back(std::move(series));
}

PlotSpec channel_map(const std::string& what, const std::string& title,
                     const std::vector<float>& cells, widgets::ValueRange range,
                     const QueryKey& values, const ModelNames& names) {
  PlotSpec plot{.id = what + "_" + names.file_name(values.model) + "_" + values.head,
                .title = names.short_name(values.model) + " " + values.head + ": " + title};
  plot.x.label = "channel", plot.y.label = "token";
  plot.y.of = widgets::Coordinate::token;
  plot.legend = false;
  MapSpec map{.rows = int(values.tokens), .cols = int(values.channels), .values = cells};
  map.row_name = "token", map.col_name = "channel", map.value_label = title.substr(0, 1);
  map.range = range, map.colormap = colors_of(range);
  plot.notes.push_back("before and after on one scale; " + widgets::scale_note(map));
  plot.map = std::move(map);
  return plot;
}

}  // namespace

QueryKey query_key_of(std::span<const TensorRef> tensors, const std::string& model, int64_t layer,
                      int64_t head, int64_t heads) {
  QueryKey out{.model = model, .head = "L" + std::to_string(layer) + "H" + std::to_string(head)};
  const std::string number = std::to_string(layer);
  out.q_after = head_of(tensors, "q." + number + ".rotated", head, heads, out);
  out.k_after = head_of(tensors, "k." + number + ".rotated", head, heads, out);
  out.q = head_of(tensors, "q." + number, head, heads, out);
  out.k = head_of(tensors, "k." + number, head, heads, out);
  const auto size = size_t(out.tokens * out.channels);
  for (auto* after : {&out.q_after, &out.k_after}) {
    if (after->size() != size) after->clear();  // e.g. with channels for a bias beside its own
  }
  if (out.q.size() != size || out.k.size() != size) out.tokens = 0;
  return out;
}

std::vector<PlotSpec> pair_channel_figures(const QueryKey& values, int64_t query, int64_t key,
                                           const ModelNames& names) {
  const auto row = [&](const std::vector<float>& of, int64_t place) {
    return row_of(of, place, values.channels);
  };
  const auto q = row(values.q, query), k = row(values.k, key);
  const auto q_after = row(values.q_after, query), k_after = row(values.k_after, key);
  const std::string pair = "query " + std::to_string(query) + ", key " + std::to_string(key);
  PlotSpec of_products = figure_of("products", "q k by channel, " + pair, values, names);
  of_products.y.label = "product";
  add(of_products, "before the encoding", products(q, k), 0);
  of_products.notes.push_back("sum before the encoding " + sum_of(products(q, k)));
  if (!q_after.empty() && !k_after.empty()) {
    add(of_products, "after it", products(q_after, k_after), 1);
    of_products.notes.back() += ", after it " + sum_of(products(q_after, k_after));
  }
  of_products.notes.push_back("the score is the last of these sums scaled, and what a bias adds");
  PlotSpec of_q = figure_of("query", "q of token " + std::to_string(query), values, names);
  PlotSpec of_k = figure_of("key", "k of token " + std::to_string(key), values, names);
  of_q.y.label = "q", of_k.y.label = "k";
  add(of_q, "before the encoding", q, 0), add(of_q, "after it", q_after, 1);
  add(of_k, "before the encoding", k, 0), add(of_k, "after it", k_after, 1);
  return {of_products, of_q, of_k};
}

std::vector<PlotSpec> channel_maps(const QueryKey& values, const ModelNames& names) {
  std::vector<PlotSpec> maps;
  const auto pair = [&](const char* name, const std::vector<float>& before,
                        const std::vector<float>& after) {
    std::vector<float> both = before;
    both.insert(both.end(), after.begin(), after.end());
    const widgets::ValueRange range = widgets::value_range(both);
    const std::string of = name;
    maps.push_back(
        channel_map(of + "_before", of + " before the encoding", before, range, values, names));
    if (after.empty()) return;
    maps.push_back(channel_map(of + "_after", of + " after it", after, range, values, names));
  };
  pair("q", values.q, values.q_after);
  pair("k", values.k, values.k_after);
  return maps;
}

}  // namespace phasescope::app
