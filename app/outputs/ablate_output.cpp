#include <algorithm>

#include "app/figures/intervals.h"
#include "app/figures/intervention_figures.h"
#include "app/outputs/question_output.h"
#include "protocol/messages/ablate.h"

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
  Table table{.title = "change of the loss by position (nats a token)",
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
  constexpr std::size_t most = 12;
  Table table{.title = "maps that move (JS divergence of the rows, nats)",
              .columns = {"change", "layer", "head", "value", "low", "high", "n"}};
  std::size_t still = 0;
  for (const protocol::AblateRow& row : result.rows) {
    std::vector<protocol::MapChange> maps = row.maps;
    std::ranges::stable_sort(maps, std::greater<>{},
                             [](const auto& map) { return map.divergence.mean; });
    for (std::size_t n = 0; n < maps.size(); ++n) {
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

}  // namespace phasescope::app
