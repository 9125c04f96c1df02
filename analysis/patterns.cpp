#include "analysis/patterns.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "analysis/adaptive_bias.h"
#include "analysis/bias_rows.h"
#include "analysis/layer_frequencies.h"
#include "analysis/layer_starts.h"
#include "analysis/model_sides.h"
#include "analysis/state_drift.h"
#include "analysis/state_spectrum.h"
#include "analysis/tensors.h"
#include "analysis/theory/cape_surface.h"
#include "analysis/theory/orthogonal_matrices.h"
#include "formats/error.h"
#include "model/host_memory.h"
#include "model/layers.h"
#include "protocol/head_name.h"

namespace phasescope::analysis {
namespace {

using Passes = std::vector<std::shared_ptr<TextPass>>;

std::vector<std::int64_t> sampled_positions(std::int64_t tokens, std::int64_t count) {
  const std::int64_t samples = std::clamp<std::int64_t>(count, 1, tokens);
  std::vector<std::int64_t> positions;
  for (std::int64_t n = 0; n < samples; ++n) positions.push_back(n * tokens / samples);
  return positions;
}

at::Tensor long_tensor(const std::vector<std::int64_t>& values) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), out.data_ptr<std::int64_t>());
  return out;
}

// What the model adds to the embeddings of tokens 0..count-1, (count, C) in float64; undefined
// where its encoding adds nothing.
at::Tensor added_positions(const model::Model& model, std::int64_t count) {
  const at::NoGradGuard no_gradients;
  model::StartContext context = start_context(model.decoder, count, at::kDouble);
  const auto& how = model.config().positions;
  if (how.map == "shift") context.positions.shift = how.shift;
  const at::Tensor nothing =
      at::zeros({1, count, model.config().width}, context.positions.options(at::kDouble));
  const at::Tensor added = model.encoding().embed(nothing, context);
  return added.is_same(nothing) ? at::Tensor() : model::on_host(added[0]);
}

// Positions of a stored table; of a computed one those of the context, or of a longer text.
std::int64_t positions_of_table(const model::Model& model, std::int64_t tokens) {
  const auto& options = model.encoding().options();
  if (!options.contains("max_positions")) return std::max(tokens, model.config().context);
  const std::int64_t stored = options.value("max_positions", std::int64_t{0});
  const auto& how = model.config().positions;
  const std::int64_t before = how.map == "shift" ? how.shift : 0;
  return (stored > 0 ? stored : model.config().context) - before;
}

class PatternsAnalysis {
 public:
  PatternsAnalysis(const Passes& passes, const PatternsOptions& options)
      : passes_(passes), options_(options), pass_(*passes[0]) {}

  PatternsOutput run(protocol::Progress& progress) {
    check_options();
    const model::EncodingInfo& info = pass_.model().encoding().info();
    out_.result.model = pass_.model().report.name;
    out_.result.encoding = info.key;
    out_.result.formula = info.formula;
    protocol::PartOfProgress states(progress, 0, 0.4), curves(progress, 0.4, 0.6),
        rows(progress, 0.6, 0.8), contexts(progress, 0.8, 1);
    states.progress(0, "reading the position states");
    if (has_states()) {
      add_states(states);
    } else {
      add_table();
    }
    add_frequencies();
    add_angles();
    progress.throw_if_cancelled();
    curves.progress(0, "reading the bias curves");
    add_bias(curves);
    rows.progress(0, "reading single queries");
    add_rows(rows);
    if (!out_.result.rows.empty()) add_adaptive(contexts);
    add_surfaces();
    add_note_of_unread();
    if (!out_.result.rows.empty() || !out_.result.bias.empty()) add_note_of_missing_heads();
    if (out_.result.layers.empty() && out_.result.bias.empty()) {
      out_.result.why_empty =
          fixed_ ? "nothing updates the state of " + info.title + ", so that it is shown as " +
                       model::words_of_layers(shown_at_)
                 : info.title +
                       ": there is neither a position state nor a bias by distance to show; the "
                       "distance view measures what it does";
    }
    return std::move(out_);
  }

 private:
  void check_options() const {
    if (options_.positions < 1) {
      throw formats::bad_usage("the number of positions must be above 0", "--positions");
    }
    const std::int64_t query = options_.query.value_or(0);
    if (query < 0 || query >= pass_.tokens()) {
      throw formats::bad_usage("there is no query " + std::to_string(query) + " in a text of " +
                                   std::to_string(pass_.tokens()) + " tokens",
                               "--query");
    }
    const std::int64_t distances = options_.distances.value_or(1);
    if (distances < 1 || distances > protocol::kMostDistances) {
      throw formats::bad_usage("the number of distances must be from 1 to " +
                                   std::to_string(protocol::kMostDistances) + ", not " +
                                   std::to_string(distances),
                               "--distances");
    }
    // Among states 0 is the start, and n comes after n layers; curves are counted as layers are.
    const std::int64_t layers = pass_.model().config().layers;
    const std::int64_t last = has_states() ? layers : layers - 1;
    for (const std::int64_t index : options_.layers.value_or(std::vector<std::int64_t>{})) {
      if (index >= 0 && index <= last) continue;
      throw formats::bad_usage(std::to_string(index) + " is outside 0.." + std::to_string(last),
                               "--layers");
    }
  }

  protocol::PartOfProgress part_of_text(protocol::Progress& progress, std::size_t text) const {
    const auto texts = static_cast<double>(passes_.size());
    return {progress, static_cast<double>(text) / texts, static_cast<double>(text + 1) / texts};
  }

  bool wanted(std::int64_t index) const {
    return !options_.layers || std::ranges::find(*options_.layers, index) != options_.layers->end();
  }

  // Which positions G is of, and which distances its means are at.
  at::Tensor choose_positions(std::int64_t count, std::int64_t states) {
    out_.result.position_count = count;
    out_.result.positions = sampled_positions(count, options_.positions);
    out_.result.distances = shown_distances(count, states);
    spectrum_places_ = spectrum_places(count);
    for (std::size_t n = 0; n + 1 < spectrum_places_.size(); ++n) {
      out_.result.spectrum_frequencies.push_back(
          std::numbers::pi * static_cast<double>(spectrum_places_[n]) / static_cast<double>(count));
    }
    return long_tensor(out_.result.positions);
  }

  void add_table() {
    const std::int64_t count = positions_of_table(pass_.model(), pass_.tokens());
    const at::Tensor table = added_positions(pass_.model(), count);
    if (!table.defined()) return;
    out_.result.products = "G_ij = P_i . P_j, P_i what is added to the embedding at position i";
    const at::Tensor rows = choose_positions(count, 1);
    const at::Tensor z = table.unsqueeze(-1).unsqueeze(0).unsqueeze(0);
    fixed_ = true;
    if (wanted(0)) add_state(0, z, z, rows);
  }

  void add_states(protocol::Progress& progress) {
    const Watching watching(pass_, progress);
    out_.result.products = "G_ij = sum_m Re(z_i conj z_j), mean over heads";
    const model::Decoder& decoder = pass_.model().decoder;
    const std::int64_t layers = decoder.config().layers;
    const at::Tensor rows = choose_positions(pass_.tokens(), layers + 1);
    LayerStarts begun(decoder);
    std::map<const model::Encoding*, ReadState> starts;  // another rope is no state that has moved
    ReadState before;
    bool drawn = false;
    pass_.visit_positions([&](std::int64_t index, const model::PositionState& state) {
      if (!state.z.defined()) return;  // a layer without positions
      begun.begin(state);
      const model::Encoding* own = &encoding_of_state(decoder, index);
      if (index == layers && !starts.contains(own)) return;  // which no layer reads
      ReadState here{state.z};
      const bool known = std::ranges::any_of(starts, [&](auto& one) {
        auto& [encoding, start] = one;
        return start.z.is_same(here.z) || (encoding != own && is_equal(start, here));
      });
      const auto [start, begins] = starts.try_emplace(own, here);
      // Places that are drawn for each layer are no state that has moved.
      ReadState drawn_here{begins || known ? at::Tensor() : begun.at(index, state)};
      const bool unmoved = drawn_here.z.defined() && is_equal(drawn_here, here);
      const bool read = unmoved && index == layers && before.z.defined() && is_equal(before, here);
      before = here;
      if (known || read) {  // nothing updates it
        fixed_ = true;
        return;
      }
      drawn = drawn || unmoved;
      shown_at_.push_back(index);
      if (wanted(index)) {
        add_state(index, here.on_host(), (unmoved ? here : start->second).on_host(), rows);
      }
    });
    if (drawn) {
      out_.result.provenance.note =
          "layers have places of their own draw: their states differ, and none drifts";
    }
  }

  // Whether some layer's encoding has a state.
  bool has_states() const {
    const model::Decoder& decoder = pass_.model().decoder;
    for (std::int64_t layer = 0; layer < decoder.config().layers; ++layer) {
      if (decoder.encoding_of(layer).has_state()) return true;
    }
    return decoder.encoding().has_state();
  }

  // Of two layers that turn alike by positions of their own.
  static bool is_equal(ReadState& a, ReadState& b) {
    return a.z.sizes() == b.z.sizes() && at::equal(a.on_host(), b.on_host());
  }

  void add_state(std::int64_t index, const at::Tensor& z, const at::Tensor& first,
                 const at::Tensor& rows) {
    const at::NoGradGuard no_gradients;
    const at::Tensor magnitude = z.square().sum(-2).sqrt();
    const at::Tensor moved = z - first;  // an initial state of one head meets all of them
    protocol::PatternsLayer layer;
    layer.layer = index;
    layer.mean_abs_z = magnitude.mean().item<double>();
    layer.sd_abs_z = magnitude.std(/*unbiased=*/false).item<double>();
    layer.drift = (moved.norm() / first.expand_as(moved).norm()).item<double>();
    layer.drift_interval = interval_of_drift(moved, first);
    const at::Tensor heads = position_products(z, rows);
    const at::Tensor mean = heads.mean(0);
    const at::Tensor power = power_of_state(z);
    layer.mean_by_distance = mean_by_distance(power, z.size(1), long_tensor(out_.result.distances));
    layer.spectrum = spectrum_shares(power, spectrum_places_);
    const std::string suffix = "." + std::to_string(index);
    const at::ScalarType dtype = at::promote_types(pass_.model().decoder.dtype(), at::kFloat);
    out_.tensors.push_back(tensor_ref("pe_dot" + suffix, mean.to(dtype)));
    if (heads.size(0) > 1) {
      out_.tensors.push_back(tensor_ref("pe_dot_heads" + suffix, heads.to(dtype)));
    }
    out_.result.layers.push_back(std::move(layer));
  }

  // Those of the first layer that turns, and in the note whose they are where others differ.
  void add_frequencies() {
    const auto all = frequencies_by_layer(pass_.model().decoder, pass_.tokens());
    const auto shown = std::ranges::find_if(
        all, [](const LayerFrequencies& one) { return !one.frequencies.empty(); });
    if (shown == all.end()) return;
    out_.result.frequencies = shown->frequencies;
    add_note(note_of_frequencies(all, *shown));
  }

  void add_note(const std::string& words) {
    std::string& note = out_.result.provenance.note;
    note += (note.empty() || words.empty() ? "" : "; ") + words;
  }

  // What was asked for of a bias that is not there to be shown is said, not dropped.
  void add_note_of_unread() {
    const auto add = [this](bool unread, const char* key, const std::string& why) {
      if (unread) add_note(std::string(key) + " changes nothing: " + why);
    };
    add(options_.query && !reads_query_, "`query`",
        reads_distances_ ? "the tables go as far as `distances` says"
                         : "there is no bias of a query to measure");
    add(options_.distances && !reads_distances_, "`distances`", "no table of distances is shown");
    add(options_.texts != PatternsOptions().texts && out_.result.rows.empty(), "`texts`",
        std::string("no rows of queries are shown") +
            (options_.queries.empty() ? ", as no `queries` were named" : ""));
  }

  void add_note_of_missing_heads() {
    const std::string why = missing_heads(pass_.model().config());
    if (!why.empty()) add_note(why + ": curves and rows are of the heads that there are");
  }

  // The angles that matrices have in their planes, or that are stored for each head's own rotation.
  void add_angles() {
    const model::Model& model = pass_.model();
    const auto add = [&](const std::string& name, std::vector<double> angles) {
      for (double& angle : angles) angle = std::abs(angle);
      std::ranges::sort(angles, std::greater<>());
      out_.result.angles.push_back({name, std::move(angles)});
    };
    const model::Parameters& shared = model.decoder.weights().encoding;
    if (const auto stored = shared.find("angles"); stored != shared.end()) {
      for (std::int64_t head = 0; head < stored->second.size(0); ++head) {
        add("H" + std::to_string(head), to_vector<double>(stored->second[head]));
      }
      return;
    }
    if (!model.config().encoding.key.starts_with("ape_")) return;
    CheckContext context;
    context.model = pass_.shared_model();
    const Generators generators = generators_of(context);
    const std::size_t count = generators.matrices.size();
    const auto heads = static_cast<std::size_t>(model.config().heads);
    for (std::size_t n = 0; n < count; ++n) {
      const std::string head = "H" + std::to_string(n % heads);
      const std::string part = generators.kind + " " + std::to_string(n / heads) + " ";
      add((count > heads ? part : "") + head, canonical_form(generators.matrices[n]).angles);
    }
  }

  // Rows of single queries: those asked for, or that of the bias curves where content corrects it.
  void add_rows(protocol::Progress& progress) {
    BiasRowsOptions options;
    options.queries = options_.queries;
    if (options.queries.empty()) {
      if (!added(progress).corrects) return;
      reads_query_ = true;
      options.queries = {options_.query.value_or(pass_.tokens() - 1)};
    }
    out_.of_all_texts = true;
    options.texts = static_cast<std::size_t>(options_.texts);
    options.wanted = [this](std::int64_t layer) { return wanted(layer); };
    out_.result.rows = bias_rows(passes_, options, progress);
  }

  static std::string too_few_contexts(std::int64_t texts) {
    return "no class: it needs " + std::to_string(kFewestContexts) + " texts, and " +
           std::to_string(texts) + " reach this query";
  }

  // One query's biases, over the texts that reach it.
  struct AdaptiveQuery {
    SpreadKeys keys;
    std::map<LayerHead, AdaptiveBias> heads = {};  // those that there are
    std::int64_t texts = 0;
  };

  // Adds curves of the same queries, over all texts that reach them, where there are two or more; a
  // text is read once for all of them.
  void add_adaptive(protocol::Progress& progress) {
    std::set<std::int64_t> queries;
    for (const protocol::BiasRow& row : out_.result.rows) queries.insert(row.query);
    std::vector<AdaptiveQuery> all;
    for (const std::int64_t query : queries) {
      if (query >= 2) all.push_back({SpreadKeys(query, pass_.model().decoder.device())});
    }
    for (std::size_t t = 0; t < passes_.size() && !all.empty(); ++t) {
      progress.throw_if_cancelled();
      protocol::PartOfProgress part = part_of_text(progress, t);
      part.progress(0, "reading single queries of all texts");
      if (passes_[t]->tokens() <= all.front().keys.query) continue;  // the least of them
      const Watching watching(*passes_[t], part);
      const std::int64_t tokens = passes_[t]->tokens();
      for (AdaptiveQuery& one : all) one.texts += tokens > one.keys.query;
      passes_[t]->visit_layers_with_maps([&](const AttentionPointer& attention) {
        for (AdaptiveQuery& one : all) {
          if (tokens > one.keys.query) add_biases(*attention, one.keys, one.heads);
        }
      });
    }
    for (AdaptiveQuery& one : all) {
      if (one.texts > 1) tell_adaptive(one);
    }
  }

  void tell_adaptive(AdaptiveQuery& one) {
    for (const auto& [of, bias] : one.heads) {
      if (!wanted(of.layer)) continue;
      AdaptiveHead head = adaptive_head(bias, options_.seed);
      protocol::AdaptiveBiasOfHead& out = out_.result.adaptive.emplace_back();
      out.layer = of.layer, out.head = of.head;
      out.query = one.keys.query, out.kind = head.kind, out.slope = head.slope;
      if (out.kind.empty()) out.why = too_few_contexts(one.texts);
      out.over_contexts = head.over_contexts, out.over_distance = head.over_distance;
      out.distances = bias.distance;
      out.mean = std::move(head.mean), out.sd = std::move(head.sd);
    }
  }

  // What f reads on average over the rows of one layer: every head's content score, then every
  // head's base, 0 where there is no table.
  at::Tensor mean_inputs(std::int64_t layer, std::int64_t heads) const {
    at::Tensor sum = at::zeros({2 * heads}, at::kDouble);
    std::vector<double> count(static_cast<std::size_t>(heads));
    auto* const sums = sum.data_ptr<double>();
    for (const protocol::BiasRow& row : out_.result.rows) {
      if (row.layer != layer) continue;
      for (const double x : row.content) sums[row.head] += x;
      for (const double x : row.base) sums[heads + row.head] += x;
      count[static_cast<std::size_t>(row.head)] += static_cast<double>(row.content.size());
    }
    return sum / at::tensor(count, at::kDouble).clamp_min(1).repeat({2});
  }

  // Over what the rows have of content and base; the other heads' inputs at their means there.
  void add_surfaces() {
    const std::map<std::int64_t, Correction> corrections = corrections_of(pass_.model());
    if (corrections.empty() || out_.result.rows.empty()) return;
    const at::NoGradGuard no_gradients;
    double low = 0, high = 0, least = 0, most = 0;
    for (const protocol::BiasRow& row : out_.result.rows) {
      for (const double x : row.content) low = std::min(low, x), high = std::max(high, x);
      for (const double x : row.base) least = std::min(least, x), most = std::max(most, x);
    }
    if (!(most > least)) least = most - 4;  // no table to take a range from
    constexpr std::int64_t kSide = 49;
    const at::Tensor a = at::linspace(low, high, kSide, at::kDouble);
    const at::Tensor b = at::linspace(least, most, kSide, at::kDouble);
    out_.result.surface_content = to_vector<double>(a);
    out_.result.surface_bias = to_vector<double>(b);
    for (const auto& [layer, f] : corrections) {
      if (!wanted(layer)) continue;
      const at::Tensor held = mean_inputs(layer, f.w2.size(0));
      std::vector<at::Tensor> heads;
      for (std::int64_t head = 0; head < f.w2.size(0); ++head) {
        heads.push_back(surface_of(f, head, held, a, b));
        const SurfaceShares shares = surface_shares(heads.back(), a, b);
        out_.result.surfaces.push_back(
            {layer, head, shares.affine, shares.content, shares.bias, shares.interaction});
      }
      out_.tensors.push_back(
          tensor_ref("surface." + std::to_string(layer), at::stack(heads).to(at::kFloat)));
    }
  }

  void add_bias(protocol::Progress& progress) {
    const std::int64_t query = options_.query.value_or(pass_.tokens() - 1);
    const std::int64_t length = options_.distances.value_or(query + 1);
    const auto tables = tables_by_layer(length);
    const bool any = !tables.empty();
    const Added& in = added(progress);
    // A table that the encoding makes for some texts alone, as fire does, is read like a term.
    const bool measures = in.corrects || (!any && in.table);
    reads_distances_ = any;
    reads_query_ = measures || (any && !options_.distances);
    if (!any && !measures) return;
    const std::int64_t farthest = any && measures ? std::max(length, query + 1)
                                  : any           ? length
                                                  : query + 1;
    choose_distances(farthest, any && measures);
    for (const auto& [layer, table] : tables) add_curves(layer, table, measures ? "base" : "bias");
    if (any) say("tables by distance, the same of every query");
    if (measures) add_term(query, any ? "corrected" : "term", progress);
  }

  void say(const std::string& words) {
    out_.result.bias_note += (out_.result.bias_note.empty() ? "" : "; ") + words;
  }

  // (H, length) of the layers that are wanted, of encodings that add one.
  std::vector<std::pair<std::int64_t, at::Tensor>> tables_by_layer(std::int64_t length) const {
    std::vector<std::pair<std::int64_t, at::Tensor>> tables;
    for (std::int64_t l = 0; l < pass_.model().config().layers; ++l) {
      if (!wanted(l)) continue;
      const at::Tensor table = table_of_layer(pass_.model(), l, length);
      if (table.defined()) tables.emplace_back(l, table);
    }
    return tables;
  }

  void choose_distances(std::int64_t length, bool twice) {
    const model::ModelConfig& config = pass_.model().config();
    const auto layers =
        options_.layers ? static_cast<std::int64_t>(options_.layers->size()) : config.layers;
    std::vector<std::int64_t>& shown = out_.result.bias_distances;
    shown = shown_distances(length, layers * config.heads * (twice ? 2 : 1));
    const auto count = static_cast<std::int64_t>(shown.size());
    if (count == length) return;
    say(std::to_string(count) + " of " + std::to_string(length) +
        " distances are shown, every one below " + std::to_string(count / 2) +
        "; fewer `layers` show more");
  }

  // What the first layer's scores have beside their content.
  struct Added {
    bool table = false;
    bool corrects = false;  // no table of distances, or more than one
  };
  const Added& added(const protocol::Progress& progress) {
    if (!added_) {
      CancelOnly cancelling(progress);
      const Watching watching(pass_, cancelling);
      const auto layer = pass_.layer(first_layer_with_maps(pass_.model().config()));
      const model::AttentionProgram& program = layer->program();
      added_ = {program.is<model::TableProgram>(), model::adds_by_query(program)};
    }
    return *added_;
  }

  // The chosen ones of a table's distances 0, 1, ..
  void add_curves(std::int64_t layer, const at::Tensor& table, const std::string& what) {
    std::vector<std::int64_t> distances = out_.result.bias_distances;
    std::erase_if(distances, [&](std::int64_t d) { return d >= table.size(1); });
    const at::Tensor shown = table.index_select(1, long_tensor(distances));
    for (std::int64_t head = 0; head < table.size(0); ++head) {
      const std::string name = protocol::name_of_head(layer, head);
      out_.result.bias.push_back({layer, head, name + " " + what, to_vector<double>(shown[head])});
    }
  }

  // Positional term of one query's keys by distance, averaged over the texts that reach it.
  void add_term(std::int64_t query, const char* what, protocol::Progress& progress) {
    const at::NoGradGuard no_gradients;
    out_.of_all_texts = true;
    std::vector<at::Tensor> sums(static_cast<std::size_t>(pass_.model().config().layers));
    std::int64_t texts = 0;
    for (std::size_t t = 0; t < passes_.size(); ++t) {
      progress.throw_if_cancelled();
      if (passes_[t]->tokens() <= query) continue;
      ++texts;
      protocol::PartOfProgress part = part_of_text(progress, t);
      const Watching watching(*passes_[t], part);
      passes_[t]->visit_layers_with_maps([&](const AttentionPointer& attention) {
        if (!wanted(attention->layer())) return;
        const model::Region region{attention->whole().heads, {query, query + 1}, {0, query + 1}};
        const at::Tensor row = attention->scores(region).positional[0].select(1, 0);
        at::Tensor& sum = sums[static_cast<std::size_t>(attention->layer())];
        const at::Tensor by_distance = row.flip(-1).to(at::kDouble);
        sum = sum.defined() ? sum + by_distance : by_distance;
      });
    }
    for (std::size_t l = 0; l < sums.size(); ++l) {
      if (!sums[l].defined()) continue;
      add_curves(static_cast<std::int64_t>(l), sums[l] / texts, what);
    }
    say(std::string(what) + ": the positional term of query " + std::to_string(query) +
        (passes_.size() == 1 ? ""
                             : ", mean over the " + std::to_string(texts) + " of " +
                                   std::to_string(passes_.size()) + " texts that reach it"));
  }

  const Passes& passes_;
  const PatternsOptions& options_;
  TextPass& pass_;
  std::optional<Added> added_;
  std::vector<std::int64_t> spectrum_places_;
  bool reads_query_ = false, reads_distances_ = false;
  bool fixed_ = false;                  // later layers have the state of one before
  std::vector<std::int64_t> shown_at_;  // where states are shown that differ
  PatternsOutput out_;
};

}  // namespace

at::Tensor position_products(const at::Tensor& z, const at::Tensor& rows) {
  const at::Tensor chosen = z[0].index_select(1, rows).flatten(-2).to(at::kDouble);
  return at::matmul(chosen, chosen.transpose(-1, -2));
}

void add_against(PatternsOutput& out, PatternsOutput other) {
  const auto refuse = [&](const std::string& why) {
    throw formats::Error("not_applicable", "the position products of " + out.result.model +
                                               " and " + other.result.model +
                                               " cannot stand beside each other: " + why);
  };
  for (const PatternsOutput* one : {&out, &other}) {
    if (one->result.layers.empty()) refuse(one->result.model + " has none");
  }
  if (out.result.positions != other.result.positions) {
    refuse("they are of " + std::to_string(out.result.position_count) + " and " +
           std::to_string(other.result.position_count) + " positions");
  }
  out.result.against = other.result.model;
  out.result.against_encoding = other.result.encoding;
  out.result.against_layers = std::move(other.result.layers);
  for (protocol::TensorRef& tensor : other.tensors) {
    if (!tensor.name.starts_with("pe_dot.")) continue;
    tensor.name = "against." + tensor.name;
    out.tensors.push_back(std::move(tensor));
  }
}

PatternsOutput analyse_patterns(const std::vector<std::shared_ptr<TextPass>>& passes,
                                const PatternsOptions& options, protocol::Progress& progress) {
  return PatternsAnalysis(passes, options).run(progress);
}

}  // namespace phasescope::analysis
