#include "protocol/messages/ablate.h"

#include <algorithm>
#include <filesystem>

#include "app/figures/intervals.h"
#include "app/figures/intervention_figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/question_output.h"

namespace phasescope::app {

using nlohmann::json;

Table ablate_table(const protocol::AblateResult& result) {
  Table table{.columns = {"change", "loss_change", "loss", "logits_divergence", "guesses_changed",
                          "reading"}};
  table.headings = protocol::headings_of<protocol::AblateRow>();
  std::vector<const protocol::AblateRow*> rows;
  for (const protocol::AblateRow& row : result.rows) rows.push_back(&row);
  std::ranges::stable_sort(rows, std::greater<>{},
                           [](const auto* row) { return row->loss_change.mean; });
  for (const protocol::AblateRow* row : rows) {
    json cells = protocol::to_json_form(*row);
    cells.erase("positions"), cells.erase("maps");
    table.rows.push_back(std::move(cells));
  }
  const bool one = result.rows.empty();
  table.notes.push_back("loss as it is " + with_ends(result.loss) + " nats a token; interval: " +
                        words_of(one ? result.loss : result.rows.front().loss_change));
  if (result.rows.size() > 1) {
    table.notes.push_back(std::to_string(result.rows.size()) + " intervals of 95 % each: " +
                          widgets::short_number(0.05 * double(result.rows.size())) +
                          " are expected to exclude 0 by chance");
  }
  table.notes.push_back(result.formula);
  table.notes.push_back("n = " + std::to_string(result.texts.size()) + " texts; " +
                        std::to_string(result.passes) + " passes");
  return table;
}

namespace {

Table blocks_table(const protocol::AblateResult& result) {
  Table table{.title = "change of the loss by position",
              .columns = {"change", "begin", "end", "value", "low", "high", "n"}};
  for (const protocol::AblateRow& row : result.rows) {
    for (const protocol::LossBlock& block : row.positions) {
      json cells = protocol::to_json_form(block.change);
      cells["change"] = row.change, cells["begin"] = block.begin, cells["end"] = block.end;
      table.rows.push_back(std::move(cells));
    }
  }
  table.for_files = true;
  return table;
}

// The heads whose maps move, furthest first.
Table moved_table(const protocol::AblateResult& result) {
  constexpr size_t most = 12;
  Table table{.title = "maps that move (JS divergence of the rows, nats)",
              .columns = {"change", "layer", "head", "value", "low", "high", "n"}};
  size_t still = 0;
  for (const protocol::AblateRow& row : result.rows) {
    std::vector<protocol::MapChange> maps = row.maps;
    std::ranges::stable_sort(maps, std::greater<>{},
                             [](const auto& map) { return map.divergence.mean; });
    for (size_t n = 0; n < maps.size(); ++n) {
      if (n >= most || maps[n].divergence.mean == 0) {
        ++still;
        continue;
      }
      json cells = protocol::to_json_form(maps[n].divergence);
      cells["change"] = row.change, cells["layer"] = maps[n].layer, cells["head"] = maps[n].head;
      table.rows.push_back(std::move(cells));
    }
  }
  if (still > 0) table.notes.push_back(std::to_string(still) + " more move less, or not at all");
  return table;
}

}  // namespace

Output question_output(const std::vector<Answered<protocol::AblateResult>>& answers,
                       const ModelNames& names) {
  const Answered<protocol::AblateResult>& answer = answers.front();
  const protocol::AblateResult& ablate = answer.result;
  Output output{.result = answer.json, .provenance = provenance_of(ablate)};
  output.tensors = answer.tensors;
  Table table = ablate_table(ablate);
  add_notes(table.notes, std::vector{ablate.provenance}, names);
  output.tables = {std::move(table), blocks_table(ablate)};
  if (Table moved = moved_table(ablate); !moved.rows.empty()) {
    output.tables.push_back(std::move(moved));
  } else if (!moved.notes.empty()) {
    output.tables[0].notes.push_back("no head's map moves");
  }
  output.figures = ablate_figures(ablate, names);
  return output;
}

namespace {

class AblateVerb : public Verb {
 public:
  std::string name() const override { return "ablate"; }
  std::string help() const override {
    return "what a model loses without some heads, with heads held back, or read otherwise (--set "
           "is the change)";
  }
  std::string example() const override {
    return "phasescope ablate rope --head L3H1 --texts 0:70:10\n"
           "phasescope ablate rope --by layer --how mean --texts 0:70:35 --out out/means\n"
           "phasescope ablate rope --head all --how sink --limit 0.1 --texts 0:70:35\n"
           "phasescope ablate rope --set encoding.base=5e4 --texts 0:70:35";
  }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [ablate, json, tensors] = run.ask<protocol::AblateResult>(request_);
    name_file(run.common().out, ablate, json);
    const ModelNames names({ablate.model});
    return question_output({{std::move(ablate), std::move(json), std::move(tensors)}}, names);
  }

 private:
  // The readings with mean outputs name the file that --out writes them to.
  static void name_file(const std::string& out, protocol::AblateResult& result,
                        nlohmann::json& json) {
    if (out.empty()) return;
    const std::filesystem::path path(out);
    if (path.has_extension() && path.extension() != ".safetensors") return;
    const std::string file = path.has_extension() ? out : (path / "tensors.safetensors").string();
    for (size_t n = 0; n < result.rows.size(); ++n) {
      std::string& reading = result.rows[n].reading;
      const std::string form = "FILE.safetensors";
      const size_t at = reading.find(form);
      if (at == std::string::npos) continue;
      reading.replace(at, form.size(), file);
      json["rows"][n]["reading"] = reading;
    }
  }

  protocol::AblateRequest request_;
};

}  // namespace

std::unique_ptr<Verb> ablate_verb() { return std::make_unique<AblateVerb>(); }

}  // namespace phasescope::app
