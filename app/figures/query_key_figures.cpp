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

// One head of a tensor (1, H, N, d), (N, d); without values where it has another shape.
struct OneHead {
  std::int64_t tokens = 0, channels = 0;
  std::vector<float> values;
};

OneHead head_of(std::span<const TensorRef> tensors, const std::string& name, std::int64_t head,
                std::int64_t heads) {
  const TensorRef* tensor = protocol::find_tensor(tensors, name);
  if (tensor == nullptr || tensor->shape.size() != 4 || tensor->shape[0] != 1) return {};
  const std::int64_t held = tensor->shape[1], tokens = tensor->shape[2],
                     channels = tensor->shape[3];
  const std::int64_t which = held == 1 ? 0 : head * held / std::max<std::int64_t>(1, heads);
  if (which < 0 || which >= held) return {};
  const Grid grid = grid_of(*tensor);
  const auto begin = grid.values.begin() + std::ptrdiff_t(which * tokens * channels);
  return {tokens, channels, {begin, begin + std::ptrdiff_t(tokens * channels)}};
}

std::vector<double> row_of(const std::vector<float>& values, std::int64_t row,
                           std::int64_t channels) {
  if (values.empty()) return {};
  const auto begin = values.begin() + std::ptrdiff_t(row * channels);
  return {begin, begin + std::ptrdiff_t(channels)};
}

std::vector<double> products(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t n = 0; n < std::min(a.size(), b.size()); ++n) a[n] *= b[n];
  return a;
}

std::string sum_of(const std::vector<double>& values) {
  return widgets::short_number(std::accumulate(values.begin(), values.end(), 0.0));
}

PlotSpec titled(const std::string& what, const std::string& title, const QueryKey& values,
                const ModelNames& names) {
  std::string head = values.head;
  std::ranges::replace(head, '.', '_');  // in the name of a file
  PlotSpec plot{.id = what + "_" + names.file_name(values.model) + "_" + head,
                .title = names.short_name(values.model) + " " + values.head + ": " + title};
  plot.x.label = "channel";
  if (!values.stack.empty()) plot.notes.push_back(stack_note(values.stack));
  return plot;
}

PlotSpec figure_of(const std::string& what, const std::string& title, const QueryKey& values,
                   const ModelNames& names) {
  PlotSpec plot = titled(what, title, values, names);
  plot.markers.push_back({.at = 0, .vertical = false});
  return plot;
}

// In the model's colour, as another one would be taken for another model's. What is before the
// encoding is dashed where both are there, with points of its own.
void add_both(PlotSpec& plot, const std::vector<double>& before, const std::vector<double>& after,
              int color) {
  const auto add = [&](const char* label, const std::vector<double>& y, bool dashed) {
    if (y.empty()) return;
    Series series{.label = label, .y = y, .color = color, .dashed = dashed};
    series.points = dashed ? widgets::PointShape::cross : widgets::PointShape::circle;
    for (std::size_t n = 0; n < y.size(); ++n) series.x.push_back(double(n));
    plot.series.push_back(std::move(series));
  };
  add("before the encoding", before, !after.empty());
  add("after it", after, false);
  if (!after.empty() && before == after) {
    plot.notes.emplace_back("the encoding leaves these as they are");
  }
}

// Of all queries or of all keys, which in cross attention are tokens of two texts.
PlotSpec channel_map(bool keys, const std::string& when, const std::vector<float>& cells,
                     widgets::ValueRange range, const QueryKey& values, const ModelNames& names) {
  const std::string name = keys ? "k" : "q";
  const bool after = when.starts_with("after");
  PlotSpec plot = titled(name + (after ? "_after" : "_before"), name + " " + when, values, names);
  const bool of_encoder = keys && values.stack == "cross";
  plot.y.label = of_encoder ? "token of the encoder" : "token";
  plot.y.of = of_encoder ? widgets::Coordinate::key : widgets::Coordinate::token;
  plot.legend = false;
  MapSpec map{.rows = int(keys ? values.keys : values.tokens),
              .cols = int(values.channels),
              .values = cells};
  map.row_name = "token", map.col_name = "channel", map.value_label = name;
  map.range = range, map.colormap = colors_of(range);
  plot.notes.push_back("before and after on one scale; " + widgets::scale_note(map));
  plot.map = std::move(map);
  return plot;
}

}  // namespace

QueryKey query_key_of(std::span<const TensorRef> tensors, const std::string& model,
                      const std::string& stack, std::int64_t layer, std::int64_t head,
                      std::int64_t heads) {
  const std::string prefix = stack.empty() ? "" : stack + ".", number = std::to_string(layer);
  const auto read = [&](const std::string& name) {
    return head_of(tensors, prefix + name, head, heads);
  };
  OneHead q = read("q." + number), k = read("k." + number);
  QueryKey out{
      .model = model, .stack = stack, .head = prefix + "L" + number + "H" + std::to_string(head)};
  if (q.values.empty() || k.values.empty() || q.channels != k.channels) return out;
  out.tokens = q.tokens, out.keys = k.tokens, out.channels = q.channels;
  out.q = std::move(q.values), out.k = std::move(k.values);
  out.q_after = read("q." + number + ".rotated").values;
  out.k_after = read("k." + number + ".rotated").values;
  // Others have, e.g., channels for a bias beside their own.
  if (out.q_after.size() != out.q.size()) out.q_after.clear();
  if (out.k_after.size() != out.k.size()) out.k_after.clear();
  return out;
}

std::vector<PlotSpec> pair_channel_figures(const QueryKey& values, std::int64_t query,
                                           std::int64_t key, const ModelNames& names) {
  const auto row = [&](const std::vector<float>& of, std::int64_t place) {
    return row_of(of, place, values.channels);
  };
  const auto q = row(values.q, query), k = row(values.k, key);
  const auto q_after = row(values.q_after, query), k_after = row(values.k_after, key);
  const std::string pair = "query " + std::to_string(query) + ", key " + std::to_string(key);
  PlotSpec of_products = figure_of("products", "q k by channel, " + pair, values, names);
  of_products.y.label = "product";
  const bool both = !q_after.empty() && !k_after.empty();
  const auto before = products(q, k);
  const auto after = both ? products(q_after, k_after) : std::vector<double>{};
  of_products.notes.push_back("sum before the encoding " + sum_of(before));
  if (both) of_products.notes.back() += ", after it " + sum_of(after);
  const int color = names.color(values.model);
  add_both(of_products, before, after, color);
  of_products.notes.push_back("the score is the last of these sums scaled, and what a bias adds");
  PlotSpec of_q = figure_of("query", "q of token " + std::to_string(query), values, names);
  const std::string side = values.stack == "cross" ? "the encoder's token " : "token ";
  PlotSpec of_k = figure_of("key", "k of " + side + std::to_string(key), values, names);
  of_q.y.label = "q", of_k.y.label = "k";
  add_both(of_q, q, q_after, color), add_both(of_k, k, k_after, color);
  return {of_products, of_q, of_k};
}

std::vector<PlotSpec> channel_maps(const QueryKey& values, const ModelNames& names) {
  std::vector<PlotSpec> maps;
  const auto add_maps = [&](bool keys, const std::vector<float>& before,
                            const std::vector<float>& after) {
    std::vector<float> both = before;
    both.insert(both.end(), after.begin(), after.end());
    const widgets::ValueRange range = widgets::value_range(both);
    maps.push_back(channel_map(keys, "before the encoding", before, range, values, names));
    if (after.empty()) return;
    maps.push_back(channel_map(keys, "after it", after, range, values, names));
  };
  add_maps(false, values.q, values.q_after);
  add_maps(true, values.k, values.k_after);
  return maps;
}

}  // namespace phasescope::app
