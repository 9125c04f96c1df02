#include "app/figures/intervention_figures.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"
#include "protocol/head_name.h"
#include "protocol/messages/models.h"

namespace phasescope::app {

namespace {

// A further model beside the first, as the result of the two alone.
protocol::CompareResult alone(const protocol::ComparePair& pair,
                              const protocol::CompareResult& whole) {
  protocol::CompareResult one{.a = pair.a, .b = pair.b};
  one.stack = pair.stack, one.other_stack = pair.other_stack;
  one.loss = pair.loss, one.loss_difference = pair.loss_difference;
  one.heads = pair.heads, one.positions = pair.positions, one.matches = pair.matches;
  one.provenance = whole.provenance;
  one.provenance.note = pair.note;
  return one;
}

Table blocks_table(const protocol::CompareResult& result) {
  Table table{
      .title = "loss of " + result.b + " - loss of " + result.a + ", by position (nats a token)",
      .columns = {"begin", "end", "value", "low", "high", "n"},
      .for_files = true};
  for (const protocol::LossBlock& block : result.positions) {
    nlohmann::json cells = protocol::to_json_form(block.change);
    cells["begin"] = block.begin, cells["end"] = block.end;
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table matches_table(const protocol::CompareResult& result) {
  Table table{
      .title = "heads of " + result.a + " and the heads of " + result.b + " that are most alike",
      .columns = {"head", "other", "js_divergence", "low", "high", "n"}};
  for (const protocol::HeadMatch& match : result.matches) {
    nlohmann::json cells = protocol::to_json_form(match.js_divergence);
    cells["head"] = protocol::name_of_head(match.layer, match.head);
    cells["other"] = protocol::name_of_head(match.other_layer, match.other_head);
    cells["js_divergence"] = cells["value"];
    table.rows.push_back(std::move(cells));
  }
  table.notes = {
      "the pairing with the smallest sum on every other text; numbers and intervals are "
      "of the texts between (of one text: of itself, without an interval)"};
  return table;
}

std::int64_t heads_a_layer(Run& run, const std::string& model) {
  return run.ask<protocol::LoadReport>(protocol::InfoRequest{.model = model}).result.model.heads;
}

class CompareVerb : public Verb {
 public:
  std::string name() const override { return "compare"; }
  std::string help() const override {
    return "the same text through several models, each beside the first, or two texts through "
           "one: divergence of each head, loss, matching heads";
  }
  std::string example() const override {
    return "phasescope compare rope tapa\n"
           "phasescope compare rope tapa alibi 'rope (yarn x2)' --head L1H0\n"
           "phasescope compare rope --text sample_configs/desk/rope.json --other "
           "sample_configs/desk/tapa.json";
  }
  std::string missing_forms() const override { return request_.match ? "" : kNoArrays; }
  void declare(Options& options) override {
    options.request(request_);
    options.option("--head", head_,
                   "head whose maps are subtracted (default: the one that differs most)");
  }
  Output run(Run& run) override {
    if (!request_.other.empty() && !head_.empty()) {
      throw formats::bad_usage("maps of two texts are not subtracted", "--head",
                               "leave it out, or draw each with the verb map");
    }
    auto [compare, json, tensors] = run.ask<protocol::CompareResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(compare)};
    const ModelNames names = names_in(compare);
    add(run, compare, names, "js_between", tensors, output);
    for (std::size_t n = 0; n < compare.others.size(); ++n) {
      add(run, alone(compare.others[n], compare), names, "js_between_" + std::to_string(n + 2),
          tensors, output);
    }
    output.tensors = std::move(tensors);
    return output;
  }

 private:
  void add(Run& run, const protocol::CompareResult& one, const ModelNames& names,
           const std::string& between, const std::vector<protocol::TensorRef>& tensors,
           Output& output) const {
    Table heads = table_of<protocol::HeadDivergence>(
        names.models().size() > 2 ? one.b + " beside " + one.a : "",
        protocol::to_json_form(one.heads), {"layer", "head", "js_divergence", "low", "high", "n"});
    output.tables.push_back(std::move(heads));
    output.tables.push_back(losses_table(one));
    if (!one.positions.empty()) output.tables.push_back(blocks_table(one));
    if (!one.matches.empty()) output.tables.push_back(matches_table(one));
    output.figures.push_back(divergence_figure(one, names));
    if (!one.positions.empty()) output.figures.push_back(loss_change_figure(one, names));
    if (const auto* matrix = protocol::find_tensor(tensors, between)) {
      // Two texts are read by one model.
      const std::int64_t a = heads_a_layer(run, one.a);
      const std::int64_t b = request_.other.empty() ? heads_a_layer(run, one.b) : a;
      output.figures.push_back(matched_heads_figure(one, grid_of(*matrix), {a, b}, names));
    }
    if (!request_.other.empty()) return;  // one text's map at a time is what `map` draws
    protocol::CompareRequest pair = request_;
    pair.models.clear();
    pair.a = one.a, pair.b = one.b;
    pair.running.set = {};  // which the names of the result have
    if (auto difference = largest_difference(run, one, pair, head_)) {
      output.figures.push_back(std::move(*difference));
    }
  }

  protocol::CompareRequest request_;
  std::string head_;
};

}  // namespace

std::unique_ptr<Verb> compare_verb() { return std::make_unique<CompareVerb>(); }

}  // namespace phasescope::app
