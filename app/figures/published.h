#pragma once
// What the papers print, to stand beside a measurement. Never measured here, so always labelled,
// and drawn quiet: thin and pale, in a colour of their own.
#include <string>
#include <vector>

#include "widgets/plot_spec.h"

namespace phasescope::app {

inline constexpr const char* kPublishedNearFar =
    "Published, not measured here (TAPA, arXiv 2509.12635, Appendix I; 7B models, distances to "
    "10,100, 10,000 pairs): RoPE mean 4.1, sigma 0.85; TAPA mean 0.03, sigma 3.3. Models of "
    "another "
    "size need not agree.";

// The means among them, by encoding.
struct PublishedMean {
  const char* encoding;
  double mean;
};
inline constexpr PublishedMean kPublishedNearFarMeans[] = {{"rope", 4.1}, {"tapa", 0.03}};

inline constexpr const char* kPublishedShift =
    "Published, not measured here (TAPE, arXiv 2501.00712, Table 8; shift 3, attention "
    "in layers 1, 2, 4, 8 counted from 1): shifted ids RoPE 0.01 0.02 0.02 0.03, TAPE 0.01 0.02 "
    "0.04 0.04; added tokens RoPE 8.93 8.51 12.29 11.46, TAPE 9.08 11.24 12.23 13.78. The paper "
    "does not spell out its norm.";

inline constexpr const char* kPublishedPerplexity =
    "published, not measured here, of a token of the paper's own tokenizer: the lines can be "
    "compared with each other, with perplexities measured here they cannot";

inline constexpr const char* kPublishedTask =
    "pale: published, not measured here: other models, other trainings; the order of the encodings "
    "can be compared";

// What TAPE's Table 3 counts: models of these sizes, and a forward pass of so many tokens.
inline constexpr int kPublishedCostLayers = 12, kPublishedCostWidth = 768,
                     kPublishedCostLength = 1024;

// Printed values of one model by layer (from 0) or length.
struct PublishedSeries {
  std::string encoding;  // its key here
  // "attention difference ids", "position difference tokens", "perplexity"; "FLOPs", "MACs" and
  // "parameters" of a forward pass; of a task its metric and its name, "accuracy even_pairs".
  std::string metric;
  std::string where;  // the paper and its table
  std::string setting;
  std::string printed;     // what the paper calls the model
  std::string comparable;  // how far a measurement here can be held against it
  std::vector<double> x, y;
};
// What was published of tasks: shares of right answers.
std::vector<PublishedSeries> published_of_tasks();
// What was published of everything that a figure here measures too.
const std::vector<PublishedSeries>& published_series();

inline constexpr int kPublishedColor = 7;

// Adds the quiet series of a metric and of these encodings, told apart by shapes while there are no
// more than shapes; whether there were any.
bool add_published(widgets::PlotSpec& plot, const std::string& metric,
                   const std::vector<std::string>& encodings);

// Adds ticks for the lengths of the published series to a logarithmic axis that has none near them.
void add_published_lengths(widgets::PlotSpec& plot);

// Perplexities by length that were published of these encodings, a figure for each table and what
// it is of, which alone can be compared. They have axes of their own: a token of another tokenizer
// is another thing than one of ours.
inline constexpr const char* kPublishedGroup = "published perplexity";
std::vector<widgets::PlotSpec> published_perplexity_figures(
    const std::vector<std::string>& encodings);

}  // namespace phasescope::app
