#include "app/views/model_table.h"

#include <imgui.h>

#include <algorithm>
#include <utility>

#include "app/views/kept_tables.h"
#include "app/views/view.h"
#include "app/window/commands.h"

namespace phasescope::app {
namespace {

constexpr std::size_t kRowsBeforeScrolling = 24, kRowsWithoutSearch = 8;

}  // namespace

widgets::TableDraw options_of_rows(std::size_t rows, std::uint64_t version) {
  const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  widgets::TableDraw options;
  options.version = version;
  options.searchable = rows > kRowsWithoutSearch;
  options.height = line * static_cast<float>(std::min(rows, kRowsBeforeScrolling) + 1) +
                   ImGui::GetStyle().ScrollbarSize + 4 +
                   (options.searchable ? ImGui::GetFrameHeightWithSpacing() : 0);
  return options;
}

widgets::TableCell cell_of_model(const Session& session, const std::string& model,
                                 const std::string& help) {
  const ModelNames names = names_of(session);
  const std::string name = names.short_name(model);
  auto cell = widgets::words_cell_of(name, names.color(model));
  if (name != model) cell.help = model + (help.empty() ? "" : "\n");
  cell.help += help;
  return cell;
}

float ModelTable::height_of(std::size_t rows) {
  if (rows == 0) return 0;
  const float room = ImGui::GetContentRegionAvail().y;
  const float whole = options_of_rows(rows, 0).height;
  return std::min(whole, std::max(room / 2, ImGui::GetTextLineHeightWithSpacing() * 3)) +
         ImGui::GetStyle().ItemSpacing.y;
}

void ModelTable::draw(ViewContext& context, const ModelRows& rows, std::uint64_t version,
                      float height, bool old, const std::function<void()>& menu) {
  if (height <= 0) return;
  if (ImGui::BeginChild("numbers", {0, height}, ImGuiChildFlags_NavFlattened)) {
    const Dimmed dimmed(old);
    draw_rows(context, rows, version, menu);
  }
  ImGui::EndChild();
}

void ModelTable::draw_rows(ViewContext& context, const ModelRows& rows, std::uint64_t version,
                           const std::function<void()>& menu) {
  widgets::TableDraw options = options_of_rows(rows.spec.rows.size(), version);
  options.height = std::min(options.height, ImGui::GetContentRegionAvail().y);
  const Session& session = context.session();
  const auto place_of = [&](int row) {
    const std::string& model = rows.models[static_cast<std::size_t>(row)];
    const auto found = std::ranges::find(session.models, model);
    return found == session.models.end() ? std::int64_t{-1} : found - session.models.begin();
  };
  options.selected = [&](int row) { return place_of(row) == session.selection.model; };
  options.menu = [&](int) { menu(); };
  const auto drawn = draw_kept_table(context, rows.spec.id, table_, rows.spec, options);
  if (drawn.clicked < 0) return;
  if (const std::int64_t model = place_of(drawn.clicked); model >= 0) select_model(context, model);
}

}  // namespace phasescope::app
