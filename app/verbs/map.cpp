#include <cstdio>

#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
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
  void declare(Options& options) override {
    options.argument("MODEL", model_, kModelHelp);
    input_.declare(options);
    set_.declare(options);
    options.option("--head", head_,
                   "L3H5, or L3 for the mean of a layer's heads; of an encoder-decoder enc.L3H5, "
                   "dec.L3H5 (what L3H5 means there) or cross.L3H5");
    options.option("--rows", rows_, "queries a:b");
    options.option("--cols", columns_, "keys a:b");
    options.option("--size", size_, "cells HxW (default 256x256)");
    options.choice("--of", of_, {"weight", "score", "content", "positional"}, "what is shown");
    options.choice("--pool", pool_, {"mean", "max"}, "how a cell's pairs are pooled");
    options.option("--top", top_, "also the keys of each query's N largest weights, of one head");
  }
  Output run(Run& run) override {
    nlohmann::json params{{"model", model_}, {"head", head_}, {"of", of_}, {"pool", pool_}};
    input_.add_to(params);
    set_.add_to(params);
    if (!rows_.empty()) params["rows"] = integer_range(rows_, "--rows");
    if (!columns_.empty()) params["cols"] = integer_range(columns_, "--cols");
    if (top_ != 0) params["top"] = top_;
    params["size"] = cells();
    protocol::Reply reply = run.call("map", std::move(params));
    const auto map = result_of<protocol::MapResult>(reply);
    Output output{.result = std::move(reply.result), .tensors = std::move(reply.tensors)};
    for (const protocol::TensorRef& tensor : output.tensors) {
      if (tensor.name == "map") output.figures = {attention_map_figure(map, grid_of(tensor))};
    }
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
  std::vector<int64_t> cells() const {
    std::string size = size_;
    const size_t cross = size.find('x');
    if (cross == std::string::npos) {
      throw formats::bad_usage("expected HxW but got \"" + size_ + "\"", "--size");
    }
    size[cross] = ':';
    return integer_range(size, "--size");
  }

  std::string model_, head_ = "L0H0", rows_, columns_, size_ = "256x256", of_ = "weight",
                      pool_ = "mean";
  int64_t top_ = 0;
  InputOptions input_;
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> map_verb() { return std::make_unique<MapVerb>(); }

}  // namespace phasescope::app
