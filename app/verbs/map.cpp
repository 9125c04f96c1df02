#include "protocol/messages/map.h"

#include <cstdio>

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

// A line a query: its keys with their weights.
Table top_keys_table(const std::vector<protocol::TopKeys>& queries) {
  Table table{.title = "largest weights of each query", .columns = {"query", "keys"}};
  for (const protocol::TopKeys& top : queries) {
    std::string keys;
    for (std::size_t n = 0; n < top.keys.size(); ++n) {
      char words[48];
      std::snprintf(words, sizeof words, "%s%lld (%.3f)", n > 0 ? ", " : "",
                    static_cast<long long>(top.keys[n]), top.weights[n]);
      keys += words;
    }
    table.rows.push_back({{"query", top.query}, {"keys", keys}});
  }
  return table;
}

class MapVerb : public Verb {
 public:
  std::string name() const override { return "map"; }
  std::string help() const override { return "attention map of a head"; }
  std::string example() const override {
    return "phasescope map rope --head L2H1 --out out/map.svg";
  }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [map, json, tensors] = run.ask<protocol::MapResult>(request_);
    Output output{
        .result = std::move(json), .provenance = provenance_of(map), .tensors = std::move(tensors)};
    for (const protocol::TensorRef& tensor : output.tensors) {
      if (tensor.name != "map") continue;
      output.figures = {attention_map_figure(map, grid_of(tensor), ModelNames({map.model}),
                                             sink_of(output.tensors))};
    }
    if (!map.top.empty()) output.figures.push_back(arcs_figure(map, ModelNames({map.model})));
    // As text, so that a .csv holds the map itself.
    Table facts =
        facts_table("", output.result,
                    {"model", "stack", "layer", "head", "tokens", "keys", "row_begin", "row_end",
                     "column_begin", "column_end", "height", "width", "of", "pool", "low", "high"});
    if (!map.stack.empty()) facts.notes.push_back(stack_note(map.stack));
    facts.notes.push_back(map.provenance.note);
    output.text = text_of(facts);
    if (!map.top.empty()) output.text += "\n" + text_of(top_keys_table(map.top));
    return output;
  }

 private:
  protocol::MapRequest request_;
};

}  // namespace

std::unique_ptr<Verb> map_verb() { return std::make_unique<MapVerb>(); }

}  // namespace phasescope::app
