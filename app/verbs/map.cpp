#include "protocol/messages/map.h"

#include <cstdio>
#include <optional>

#include "app/figures/map_look.h"
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
  std::string help() const override { return "attention map of a head, or the mean of several"; }
  std::string example() const override {
    return "phasescope map rope --head L2H1 --out out/map.svg";
  }
  // A map's table is of what it is, not for a page.
  std::string missing_forms() const override { return ".md"; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    check_look(request_.look, request_.of);
    if (request_.subtracts()) return difference(run);
    auto map = asked(run, request_);
    const ModelNames names({map.result.model});
    Output output;
    add(map, "", names, output);
    if (auto plot = plot_of(map, names)) {
      apply_look(*plot, request_.look);
      output.figures.insert(output.figures.begin(), std::move(*plot));
    }
    output.result = std::move(map.json);
    output.tensors = std::move(map.tensors);
    return output;
  }

 private:
  using Map = Answered<protocol::MapResult>;

  static Map asked(Run& run, const protocol::MapRequest& request) {
    return run.ask<protocol::MapResult>(request);
  }

  static std::optional<widgets::PlotSpec> plot_of(const Map& map, const ModelNames& names) {
    const auto* cells = protocol::find_tensor(map.tensors, "map");
    if (cells == nullptr) return std::nullopt;
    return attention_map_figure(map.result, grid_of(*cells), names, sink_of(map.tensors));
  }

  // What is said of a map, and its arcs. The facts are text, so that a .csv holds the map itself.
  static void add(const Map& map, const std::string& title, const ModelNames& names,
                  Output& output) {
    std::vector<std::string> keys = {"model",      "stack",  "layer",     "head",    "heads",
                                     "tokens",     "keys",   "row_begin", "row_end", "column_begin",
                                     "column_end", "height", "width",     "of",      "pool",
                                     "low",        "high"};
    if (!map.result.heads.empty()) {  // one layer and one head say nothing of a mean
      std::erase_if(keys, [](const std::string& key) { return key == "layer" || key == "head"; });
    }
    Table facts = facts_table(title, map.json, keys);
    if (!map.result.stack.empty()) facts.notes.push_back(stack_note(map.result.stack));
    facts.notes.push_back(map.result.provenance.note);
    output.text += (output.text.empty() ? "" : "\n") + text_of(facts);
    for (const nlohmann::json& made : provenance_of(map.result)) output.provenance.push_back(made);
    if (map.result.top.empty()) return;
    output.text += "\n" + text_of(top_keys_table(map.result.top));
    output.figures.push_back(arcs_figure(map.result, names));
  }

  // A, B and A - B, as the window shows them: A and B have one look in common.
  Output difference(Run& run) {
    Map a = asked(run, request_);
    protocol::MapRequest other = request_;
    if (!request_.minus.empty()) other.model = request_.minus;
    if (!request_.minus_head.empty()) other.head = request_.minus_head;
    Map b = asked(run, other);
    if (const std::string why = difference_obstacle(a.result, b.result); !why.empty()) {
      throw formats::bad_input(why, "--minus",
                               "give a --length that both read, if they share a tokenizer");
    }
    const ModelNames names({a.result.model, b.result.model});
    Output output;
    add(a, "A", names, output), add(b, "B", names, output);
    auto first = plot_of(a, names), second = plot_of(b, names);
    if (!first || !second) throw formats::internal_error("a map has no tensor", "map");
    const MapLook look = common_look(request_.look, *first->map, *second->map);
    apply_look(*first, look), apply_look(*second, look);
    if (second->id == first->id) second->id += "_b";
    const auto map_of = [](const Map& map) {
      return grid_of(*protocol::find_tensor(map.tensors, "map"));
    };
    std::vector<widgets::PlotSpec> maps{
        std::move(*first), std::move(*second),
        map_difference_figure(a.result, map_of(a), b.result, map_of(b), names)};
    output.figures.insert(output.figures.begin(), maps.begin(), maps.end());
    output.result = {{"a", std::move(a.json)}, {"b", std::move(b.json)}};
    output.tensors = std::move(a.tensors);
    for (protocol::TensorRef& tensor : b.tensors) {
      tensor.name = "b." + tensor.name;
      output.tensors.push_back(std::move(tensor));
    }
    return output;
  }

  DrawnMap request_;
};

}  // namespace

std::unique_ptr<Verb> map_verb() { return std::make_unique<MapVerb>(); }

}  // namespace phasescope::app
