#include "app/figures/published.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "app/figures/eval_names.h"
#include "app/figures/point_shapes.h"

namespace phasescope::app {

using widgets::PlotSpec;
using widgets::Series;

namespace {

std::vector<PublishedSeries> all_published() {
  std::vector<PublishedSeries> series = {
      {"rope",
       "attention difference tokens",
       "TAPE 2501.00712, Table 8 top",
       "three [BOS] added",
       "rope",
       "order and zeros only",
       {0, 1, 3, 7},
       {8.93, 8.51, 12.29, 11.46}},
      {"tape",
       "attention difference tokens",
       "TAPE 2501.00712, Table 8 top",
       "three [BOS] added",
       "tape",
       "order and zeros only",
       {0, 1, 3, 7},
       {9.08, 11.24, 12.23, 13.78}},
      {"tape",
       "attention difference tokens",
       "TAPE 2501.00712, Table 8 top",
       "three [BOS] added",
       "tape, not equivariant",
       "order and zeros only",
       {0, 1, 3, 7},
       {11.3, 11.38, 13.32, 14.55}},
      {"rope",
       "attention difference ids",
       "TAPE 2501.00712, Table 8 top",
       "position ids start at 3",
       "rope",
       "order and zeros only",
       {0, 1, 3, 7},
       {0.01, 0.02, 0.02, 0.03}},
      {"tape",
       "attention difference ids",
       "TAPE 2501.00712, Table 8 top",
       "position ids start at 3",
       "tape",
       "order and zeros only",
       {0, 1, 3, 7},
       {0.01, 0.02, 0.04, 0.04}},
      {"tape",
       "attention difference ids",
       "TAPE 2501.00712, Table 8 top",
       "position ids start at 3",
       "tape, not equivariant",
       "order and zeros only",
       {0, 1, 3, 7},
       {0.01, 0.24, 0.37, 0.51}},
      {"rope",
       "position difference tokens",
       "TAPE 2501.00712, Table 8 bottom (first version)",
       "three [BOS] added",
       "rope",
       "order and zeros only",
       {0, 1, 3, 7},
       {0.03, 0.03, 0.03, 0.03}},
      {"tape",
       "position difference tokens",
       "TAPE 2501.00712, Table 8 bottom (first version)",
       "three [BOS] added",
       "tape",
       "order and zeros only",
       {0, 1, 3, 7},
       {0.03, 0.37, 2.75, 6.62}},
      {"tape",
       "position difference tokens",
       "TAPE 2501.00712, Table 8 bottom (first version)",
       "three [BOS] added",
       "tape, not equivariant",
       "order and zeros only",
       {0, 1, 3, 7},
       {0.03, 2.29, 3.34, 6.37}},
      {"rope",
       "position difference ids",
       "TAPE 2501.00712, Table 8 bottom (first version)",
       "position ids start at 3",
       "rope",
       "order and zeros only",
       {0, 1, 3, 7},
       {0.03, 0.03, 0.03, 0.03}},
      {"tape",
       "position difference ids",
       "TAPE 2501.00712, Table 8 bottom (first version)",
       "position ids start at 3",
       "tape",
       "order and zeros only",
       {0, 1, 3, 7},
       {0.03, 0.02, 0.03, 0.04}},
      {"tape",
       "position difference ids",
       "TAPE 2501.00712, Table 8 bottom (first version)",
       "position ids start at 3",
       "tape, not equivariant",
       "order and zeros only",
       {0, 1, 3, 7},
       {0.03, 0.54, 0.44, 0.86}},
      {"rope",
       kPerplexity,
       "TAPE 2501.00712, Table 2",
       "Llama-2 7B tuned to 8k on RedPajama, Proof-pile",
       "rope + lora",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192},
       {3.828, 3.369, 3.064, 2.867}},
      {"rope",
       kPerplexity,
       "TAPE 2501.00712, Table 2",
       "Llama-2 7B tuned to 8k on RedPajama, Proof-pile",
       "rope + longlora",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192},
       {3.918, 3.455, 3.153, 2.956}},
      {"rope",
       kPerplexity,
       "TAPE 2501.00712, Table 2",
       "Llama-2 7B tuned to 8k on RedPajama, Proof-pile",
       "rope + theta_scaling",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192},
       {3.864, 3.415, 3.121, 2.934}},
      {"tape",
       kPerplexity,
       "TAPE 2501.00712, Table 2",
       "Llama-2 7B tuned to 8k on RedPajama, Proof-pile",
       "tape",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192},
       {3.641, 3.196, 2.901, 2.708}},
      {"rope",
       kPerplexity,
       "TAPE 2501.00712, Table 2",
       "Llama-2 7B tuned to 8k on RedPajama, PG19",
       "rope + lora",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192},
       {9.791, 9.098, 8.572, 8.199}},
      {"rope",
       kPerplexity,
       "TAPE 2501.00712, Table 2",
       "Llama-2 7B tuned to 8k on RedPajama, PG19",
       "rope + longlora",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192},
       {9.989, 9.376, 8.948, 8.645}},
      {"rope",
       kPerplexity,
       "TAPE 2501.00712, Table 2",
       "Llama-2 7B tuned to 8k on RedPajama, PG19",
       "rope + theta_scaling",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192},
       {9.257, 8.64, 8.241, 7.999}},
      {"tape",
       kPerplexity,
       "TAPE 2501.00712, Table 2",
       "Llama-2 7B tuned to 8k on RedPajama, PG19",
       "tape",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192},
       {8.226, 7.642, 7.278, 7.063}},
      {"tape",
       kPerplexity,
       "TAPE 2501.00712, Table 6 upper",
       "155M on C4, GitHub test set",
       "tape, both",
       "order only",
       {128, 256, 512, 1024},
       {132, 86.6, 63.9, 52.2}},
      {"rope",
       kPerplexity,
       "CAPE 2405.14722, Table 5",
       "125M, Arxiv, trained at 512, last 256 tokens, mean of 3 seeds",
       "rope",
       "no: other size, data or tokens",
       {512, 1024, 2048, 4096, 8192},
       {4.5755, 45.1974, 134.1615, 222.3333, 265.4545}},
      {"t5",
       kPerplexity,
       "CAPE 2405.14722, Table 5",
       "125M, Arxiv, trained at 512, last 256 tokens, mean of 3 seeds",
       "t5",
       "no: other size, data or tokens",
       {512, 1024, 2048, 4096, 8192},
       {4.5547, 4.373, 12.1017, 163.9289, 595.0829}},
      {"alibi",
       kPerplexity,
       "CAPE 2405.14722, Table 5",
       "125M, Arxiv, trained at 512, last 256 tokens, mean of 3 seeds",
       "alibi",
       "no: other size, data or tokens",
       {512, 1024, 2048, 4096, 8192},
       {4.6146, 4.5475, 4.8693, 5.0278, 4.7679}},
      {"cape",
       kPerplexity,
       "CAPE 2405.14722, Table 5",
       "125M, Arxiv, trained at 512, last 256 tokens, mean of 3 seeds",
       "cape_alibi",
       "no: other size, data or tokens",
       {512, 1024, 2048, 4096, 8192},
       {4.5262, 4.1921, 4.1068, 4.1315, 4.0013}},
      {"kerple_log",
       kPerplexity,
       "CAPE 2405.14722, Table 5",
       "125M, Arxiv, trained at 512, last 256 tokens, mean of 3 seeds",
       "kerple",
       "no: other size, data or tokens",
       {512, 1024, 2048, 4096, 8192},
       {4.5817, 4.3504, 5.4438, 8.7511, 13.3524}},
      {"cape",
       kPerplexity,
       "CAPE 2405.14722, Table 5",
       "125M, Arxiv, trained at 512, last 256 tokens, mean of 3 seeds",
       "cape_kerple",
       "no: other size, data or tokens",
       {512, 1024, 2048, 4096, 8192},
       {4.5123, 4.1716, 4.0505, 4.0033, 3.8642}},
      {"fire",
       kPerplexity,
       "CAPE 2405.14722, Table 5",
       "125M, Arxiv, trained at 512, last 256 tokens, mean of 3 seeds",
       "fire",
       "no: other size, data or tokens",
       {512, 1024, 2048, 4096, 8192},
       {4.5741, 4.6953, 30.1164, 165.5394, 308.6173}},
      {"cape",
       kPerplexity,
       "CAPE 2405.14722, Table 5",
       "125M, Arxiv, trained at 512, last 256 tokens, mean of 3 seeds",
       "cape_fire",
       "no: other size, data or tokens",
       {512, 1024, 2048, 4096, 8192},
       {4.4879, 4.199, 4.2826, 4.7983, 6.1623}},
      {"rope",
       kPerplexity,
       "TAPA 2509.12635, Table 1",
       "7B, 8k then 32k, PG19, sliding window",
       "rope, base 5e5",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192, 16384, 32768, 49152, 65536},
       {12.97, 12.53, 12.22, 11.97, 11.79, 12.96, 938.23, 2280.16}},
      {"rope",
       kPerplexity,
       "TAPA 2509.12635, Table 1",
       "7B, 8k then 32k, PG19, sliding window",
       "rope, base 2e8",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192, 16384, 32768, 49152, 65536},
       {13, 12.54, 12.23, 11.98, 11.8, 12.96, 942.94, 2284.72}},
      {"rope",
       kPerplexity,
       "TAPA 2509.12635, Table 1",
       "7B, 8k then 32k, PG19, sliding window",
       "pi",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192, 16384, 32768, 49152, 65536},
       {12.99, 12.54, 12.23, 11.98, 11.8, 12.97, 939.17, 2282.44}},
      {"rope",
       kPerplexity,
       "TAPA 2509.12635, Table 1",
       "7B, 8k then 32k, PG19, sliding window",
       "yarn",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192, 16384, 32768, 49152, 65536},
       {13.05, 12.6, 12.29, 12.03, 11.85, 12.16, 322.14, 1962.55}},
      {"tapa",
       kPerplexity,
       "TAPA 2509.12635, Table 1",
       "7B, 8k then 32k, PG19, sliding window",
       "tapa",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192, 16384, 32768, 49152, 65536},
       {13.04, 12.62, 12.3, 12.07, 11.83, 11.74, 11.67, 11.75}},
      {"rope",
       kPerplexity,
       "TAPA 2509.12635, Table 2",
       "7B, 8k only, PG19, sliding window",
       "rope, base 5e5",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192, 16384, 32768},
       {13.08, 12.63, 12.32, 12.21, 5878.17, 16366.63}},
      {"rope",
       kPerplexity,
       "TAPA 2509.12635, Table 2",
       "7B, 8k only, PG19, sliding window",
       "yarn",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192, 16384, 32768},
       {13.09, 12.64, 12.33, 12.22, 5869.35, 16342.28}},
      {"rope",
       kPerplexity,
       "TAPA 2509.12635, Table 2",
       "7B, 8k only, PG19, sliding window",
       "pi",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192, 16384, 32768},
       {13.07, 12.62, 12.3, 12.19, 5872.29, 16350.28}},
      {"tapa",
       kPerplexity,
       "TAPA 2509.12635, Table 2",
       "7B, 8k only, PG19, sliding window",
       "tapa",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192, 16384, 32768},
       {13.12, 12.66, 12.34, 12.22, 17.96, 122.71}},
      {"tapa",
       kPerplexity,
       "TAPA 2509.12635, Table 3",
       "7B, 8k then 32k, PG19",
       "tapa, linear phase",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192, 16384, 32768, 49152, 65536},
       {14.63, 14.15, 13.83, 13.54, 13.29, 13.13, 13.59, 14.82}},
      {"tapa",
       kPerplexity,
       "TAPA 2509.12635, Table 3",
       "7B, 8k then 32k, PG19",
       "tapa",
       "no: other size, data or tokens",
       {1024, 2048, 4096, 8192, 16384, 32768, 49152, 65536},
       {13.04, 12.62, 12.3, 12.07, 11.83, 11.74, 11.67, 11.75}},
      {"rope",
       "FLOPs",
       "TAPE 2501.00712, Table 3",
       "12 layers x 768, one forward pass, batch 1",
       "rope",
       "yes: cost",
       {1024},
       {321.1e9}},
      {"tape",
       "FLOPs",
       "TAPE 2501.00712, Table 3",
       "12 layers x 768, one forward pass, batch 1",
       "tape",
       "yes: cost",
       {1024},
       {365.65e9}},
      {"fire",
       "FLOPs",
       "TAPE 2501.00712, Table 3",
       "12 layers x 768, one forward pass, batch 1",
       "fire",
       "yes: cost",
       {1024},
       {331.97e9}},
      {"t5",
       "FLOPs",
       "TAPE 2501.00712, Table 3",
       "12 layers x 768, one forward pass, batch 1",
       "t5",
       "yes: cost",
       {1024},
       {321.1e9}},
      {"rope",
       "MACs",
       "TAPE 2501.00712, Table 3",
       "12 layers x 768, one forward pass, batch 1",
       "rope",
       "yes: cost",
       {1024},
       {160.46e9}},
      {"tape",
       "MACs",
       "TAPE 2501.00712, Table 3",
       "12 layers x 768, one forward pass, batch 1",
       "tape",
       "yes: cost",
       {1024},
       {180.69e9}},
      {"fire",
       "MACs",
       "TAPE 2501.00712, Table 3",
       "12 layers x 768, one forward pass, batch 1",
       "fire",
       "yes: cost",
       {1024},
       {165.69e9}},
      {"t5",
       "MACs",
       "TAPE 2501.00712, Table 3",
       "12 layers x 768, one forward pass, batch 1",
       "t5",
       "yes: cost",
       {1024},
       {160.46e9}},
      {"rope",
       "parameters",
       "TAPE 2501.00712, Table 3",
       "12 layers x 768, one forward pass, batch 1",
       "rope",
       "yes: cost",
       {1024},
       {154.89 * 0x1p20}},
      {"tape",
       "parameters",
       "TAPE 2501.00712, Table 3",
       "12 layers x 768, one forward pass, batch 1",
       "tape",
       "yes: cost",
       {1024},
       {155.33 * 0x1p20}},
      {"fire",
       "parameters",
       "TAPE 2501.00712, Table 3",
       "12 layers x 768, one forward pass, batch 1",
       "fire",
       "yes: cost",
       {1024},
       {154.9 * 0x1p20}},
      {"t5",
       "parameters",
       "TAPE 2501.00712, Table 3",
       "12 layers x 768, one forward pass, batch 1",
       "t5",
       "yes: cost",
       {1024},
       {154.9 * 0x1p20}},
  };
  for (PublishedSeries& one : published_of_tasks()) series.push_back(std::move(one));
  return series;
}

bool is_of(const PublishedSeries& one, const std::string& metric,
           const std::vector<std::string>& encodings) {
  return one.metric == metric && std::ranges::find(encodings, one.encoding) != encodings.end();
}

// `place` among those of its colour.
Series line_of(const PublishedSeries& one, std::size_t place, int color) {
  return {.label = "published: " + one.printed + " (" + one.where + "; " + one.setting + ")",
          .x = one.x,
          .y = one.y,
          .color = color,
          .quiet = true,
          .points = shape_at(place)};
}

// A logarithmic axis of less has one number on it, or none.
bool spans_a_decade(const PlotSpec& plot) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const Series& series : plot.series) {
    const auto [least, most] = std::ranges::minmax(series.y);
    low = std::min(low, least), high = std::max(high, most);
  }
  return high >= 10 * low;
}

}  // namespace

const std::vector<PublishedSeries>& published_series() {
  static const std::vector<PublishedSeries> series = all_published();
  return series;
}

bool add_published(PlotSpec& plot, const std::string& metric,
                   const std::vector<std::string>& encodings) {
  std::size_t shown = 0;
  for (const Series& series : plot.series) shown += series.quiet;
  const std::size_t before = shown;
  for (const PublishedSeries& one : published_series()) {
    if (is_of(one, metric, encodings)) {
      plot.series.push_back(line_of(one, shown++, kPublishedColor));
    }
  }
  return shown > before;
}

void add_published_lengths(PlotSpec& plot) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const Series& series : plot.series) {
    for (const double x : series.x) low = std::min(low, x), high = std::max(high, x);
  }
  // Labels of five digits have room beside each other from here on.
  const double apart = 0.065 * std::log(high / low);
  for (const Series& series : plot.series) {
    if (!series.quiet) continue;
    for (const double x : series.x) {
      const auto is_near = [x, apart](const widgets::AxisTick& tick) {
        return tick.at == x || std::abs(std::log(tick.at / x)) < apart;
      };
      if (std::ranges::none_of(plot.x.ticks, is_near)) {
        plot.x.ticks.push_back({x, std::to_string(static_cast<std::int64_t>(x))});
      }
    }
  }
}

std::vector<PlotSpec> published_perplexity_figures(const std::vector<std::string>& encodings) {
  std::vector<PlotSpec> plots;
  std::map<std::string, std::size_t> places;  // of a table and what it is of, among the figures
  for (const PublishedSeries& one : published_series()) {
    if (!is_of(one, kPerplexity, encodings)) continue;
    const auto [place, added] = places.try_emplace(one.where + one.setting, plots.size());
    if (added) {
      PlotSpec& plot = plots.emplace_back();
      plot.id = "published_perplexity_" + std::to_string(plots.size());
      plot.title = "Published perplexity: " + one.where + "; " + one.setting;
      plot.x = {.label = "length (tokens)", .scale = widgets::Scale::log10};
      plot.y.label = "perplexity";
      plot.notes.emplace_back(kPublishedPerplexity);
    }
    PlotSpec& plot = plots[place->second];
    plot.series.push_back(line_of(one, plot.series.size(), kPublishedColor));
    plot.series.back().label = "published: " + one.printed;
  }
  for (PlotSpec& plot : plots) {
    add_published_lengths(plot);
    if (spans_a_decade(plot)) plot.y.scale = widgets::Scale::log10;
  }
  return plots;
}

}  // namespace phasescope::app
