#include "analysis/bias_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "analysis/model_sides.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "model/host_memory.h"

namespace phasescope::analysis {
namespace {

// Numbers of all curves of a kind: what a result can carry. More distances are thinned out, which
// the result says.
constexpr std::int64_t kMostValues = std::int64_t{1} << 20;
constexpr std::int64_t kFewestOfACurve = 512;
constexpr std::int64_t kPartsOfARow = 4;

// The values of one head's row at some distances of it, nearest key first.
std::vector<double> at_distances(const at::Tensor& by_distance,
                                 const std::vector<std::int64_t>& distances) {
  const auto all = to_vector<double>(by_distance);
  std::vector<double> out;
  for (const std::int64_t d : distances) out.push_back(all[static_cast<std::size_t>(d)]);
  return out;
}

class BiasRows {
 public:
  BiasRows(const std::vector<std::shared_ptr<TextPass>>& passes, const BiasRowsOptions& options)
      : passes_(passes), options_(options), model_(passes[0]->model()) {
    std::int64_t layers = 0;
    for (std::int64_t l = 0; l < model_.config().layers; ++l) layers += options.wanted(l);
    curves_ = kPartsOfARow * layers * model_.config().heads *
              static_cast<std::int64_t>(options.queries.size() * options.texts);
  }

  std::vector<protocol::BiasRow> run(protocol::Progress& progress) {
    const std::size_t texts = std::min(passes_.size(), options_.texts);
    const auto all = static_cast<double>(options_.queries.size() * texts);
    std::size_t begun = 0;  // rows of all queries, those that no text has among them
    for (const std::int64_t query : options_.queries) {
      progress.throw_if_cancelled();
      std::size_t shown = 0;
      for (std::size_t t = 0; t < passes_.size() && shown < texts; ++t) {
        if (passes_[t]->tokens() <= query) continue;
        const auto before = static_cast<double>(begun + shown);
        protocol::PartOfProgress part(progress, before / all, (before + 1) / all);
        const Watching watching(*passes_[t], part);
        read(*passes_[t], t, query);
        ++shown;
      }
      begun += texts;
      if (shown == 0) refuse(query);
    }
    return std::move(rows_);
  }

 private:
  void refuse(std::int64_t query) const {
    std::int64_t longest = 0;
    for (const auto& pass : passes_) longest = std::max(longest, pass->tokens());
    throw formats::bad_usage("there is no query " + std::to_string(query) + " in texts of up to " +
                                 std::to_string(longest) + " tokens",
                             "--queries", "--length and --corpus have longer ones read");
  }

  void read(TextPass& pass, std::size_t text, std::int64_t query) {
    const at::NoGradGuard no_gradients;
    const std::vector<std::int64_t> distances = shown_distances(query + 1, curves_);
    pass.visit_layers_with_maps([&](const AttentionPointer& attention) {
      if (!options_.wanted(attention->layer())) return;
      const model::Region region{attention->whole().heads, {query, query + 1}, {0, query + 1}};
      const model::ScoreParts parts = attention->scores(region);
      const at::Tensor content = parts.content[0].select(1, 0).flip(-1).to(at::kDouble);
      const at::Tensor term = parts.positional[0].select(1, 0).flip(-1).to(at::kDouble);
      const at::Tensor table = table_of_layer(model_, attention->layer(), query + 1);
      const model::AttentionProgram& program = attention->program();
      const bool corrects = program.is<model::CapeProgram>() || program.is<model::TermProgram>();
      for (std::int64_t head = 0; head < attention->heads(); ++head) {
        protocol::BiasRow& row = rows_.emplace_back();
        row.layer = attention->layer(), row.head = head;
        row.query = query, row.text = static_cast<std::int64_t>(text);
        row.distances = distances;
        row.content = at_distances(content[head], distances);
        row.positional = at_distances(term[head], distances);
        if (!table.defined()) continue;
        row.base = at_distances(table[head], distances);
        if (corrects) row.correction = at_distances(term[head] - table[head], distances);
      }
    });
  }

  const std::vector<std::shared_ptr<TextPass>>& passes_;
  const BiasRowsOptions& options_;
  const model::Model& model_;
  std::int64_t curves_ = 1;
  std::vector<protocol::BiasRow> rows_;
};

}  // namespace

std::vector<std::int64_t> shown_distances(std::int64_t length, std::int64_t curves) {
  const std::int64_t most =
      std::max(kFewestOfACurve, kMostValues / std::max<std::int64_t>(curves, 1));
  std::vector<std::int64_t> distances;
  const std::int64_t near = length <= most ? length : most / 2, far = most - near;
  for (std::int64_t d = 0; d < near; ++d) distances.push_back(d);
  for (std::int64_t n = 1; near < length && n <= far; ++n) {
    distances.push_back(near - 1 + (length - near) * n / far);
  }
  return distances;
}

at::Tensor table_of_layer(const model::Model& model, std::int64_t layer, std::int64_t length) {
  const at::NoGradGuard no_gradients;
  if (!has_head(model.config(), layer, 0)) return {};
  const model::Decoder& decoder = model.decoder;
  const model::Parameters& shared = *start_context_of(decoder, layer, length, at::kDouble).shared;
  model::Parameters parameters = decoder.weights().layers[static_cast<std::size_t>(layer)].encoding;
  parameters.insert(shared.begin(), shared.end());  // those of all layers
  return model::on_host(decoder.encoding_of(layer).bias_table(
      parameters, length, at::TensorOptions(at::kDouble).device(decoder.device())));
}

std::vector<protocol::BiasRow> bias_rows(const std::vector<std::shared_ptr<TextPass>>& passes,
                                         const BiasRowsOptions& options,
                                         protocol::Progress& progress) {
  return BiasRows(passes, options).run(progress);
}

}  // namespace phasescope::analysis
