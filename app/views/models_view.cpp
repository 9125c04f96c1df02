#include "app/views/models_view.h"

#include <imgui_internal.h>  // of words that are cut
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/figures/figures.h"
#include "protocol/model_reading.h"
#include "widgets/busy.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

// In font sizes: a list with less room has fewer columns.
constexpr float kNarrowList = 24, kTightList = 16;
constexpr std::size_t kMostHosts = 8;
constexpr const char* kModelTitles[] = {"model", "encoding", "trained", "parameters"};

using protocol::LoadReport;
using protocol::ModelSummary;

std::string count_text(double count, const char* unit) {
  const char* scale = count >= 1e9 ? "G" : count >= 1e6 ? "M" : count >= 1e3 ? "k" : "";
  const double divisor = count >= 1e9 ? 1e9 : count >= 1e6 ? 1e6 : count >= 1e3 ? 1e3 : 1;
  return widgets::short_number(std::round(count / divisor * 100) / 100) + " " + scale + unit;
}

int place_of(const Session& session, const std::string& name) {
  const auto found = std::find(session.models.begin(), session.models.end(), name);
  return found == session.models.end() ? -1 : static_cast<int>(found - session.models.begin());
}

void fact(const char* name, const std::string& value, const ImVec4* color = nullptr) {
  if (value.empty()) return;
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::TextColored(widgets::palette().quiet, "%s", name);
  ImGui::TableNextColumn();
  ImGui::PushTextWrapPos(0.0F);
  if (color) ImGui::PushStyleColor(ImGuiCol_Text, *color);
  ImGui::TextUnformatted(value.c_str());
  if (color) ImGui::PopStyleColor();
  ImGui::PopTextWrapPos();
}

std::string in_lines(const std::vector<std::string>& words) {
  std::string lines;
  for (const std::string& word : words) lines += (lines.empty() ? "" : "\n") + word;
  return lines;
}

std::string memory_of(const LoadReport& report) {
  if (report.memory_bytes <= 0) return "";
  return count_text(double(report.weight_bytes), "B") + " of weights in " + report.dtype + ", " +
         count_text(double(report.memory_bytes), "B") + " with a text of " +
         std::to_string(report.length) + " tokens";
}

std::string dtypes_of(const LoadReport& report) {
  std::string line;
  for (const auto& [dtype, count] : report.dtypes) {
    line += (line.empty() ? "" : ", ") + std::to_string(count) + " tensors " + dtype;
  }
  return line;
}

// With those that were opened from a path, which the worker does not list.
std::vector<ModelSummary> with_opened(const ViewContext& context, std::vector<ModelSummary> list) {
  std::vector<std::string> names = context.session().models;
  names.insert(names.end(), context.session().recent.begin(), context.session().recent.end());
  for (const std::string& name : names) {
    const bool known = std::any_of(list.begin(), list.end(),
                                   [&](const ModelSummary& model) { return model.name == name; });
    if (known) continue;
    ModelSummary model;
    if (const auto* report = context.info(name)) model = report->model;
    model.name = name;
    list.push_back(std::move(model));
  }
  return list;
}

struct NameDrawn {
  bool clicked = false, cut = false;
};

// A row by the name of its model, which ends in an ellipsis where its column does: a long reading
// would look like another one.
NameDrawn draw_row_name(const std::string& name, bool selected) {
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::CalcTextSize(name.c_str());
  const float room = ImGui::GetContentRegionAvail().x;
  const float top = at.y + ImGui::GetCurrentWindow()->DC.CurrLineTextBaseOffset;
  NameDrawn drawn{.cut = size.x > room + 1};
  // The row's own words, which would run on to the column's end, are there for its name alone.
  if (drawn.cut) ImGui::PushStyleColor(ImGuiCol_Text, ImVec4(0, 0, 0, 0));
  drawn.clicked = ImGui::Selectable(name.c_str(), selected, ImGuiSelectableFlags_SpanAllColumns);
  if (!drawn.cut) return drawn;
  ImGui::PopStyleColor();
  ImGui::RenderTextEllipsis(ImGui::GetWindowDrawList(), {at.x, top}, {at.x + room, top + size.y},
                            at.x + room, name.c_str(), nullptr, &size);
  return drawn;
}

// Why an open model could not be opened; empty where it could, or where nobody has tried.
std::string failure_of(const ViewContext& context, const std::string& model) {
  if (place_of(context.session(), model) < 0) return "";
  const Question& info = context.requests.of(kInfo, model);
  return info.failed() ? context.requests.busy(info).text : "";
}

// The same with what can be done about it, in a line of its own.
std::string advice_about(const ViewContext& context, const std::string& model) {
  const std::string why = failure_of(context, model);
  if (why.empty()) return "";
  const std::string hint = context.requests.of(kInfo, model).error().hint;
  return hint.empty() ? why : why + "\n" + hint;
}

// How a model that rotates can be stretched without training, and by what.
struct Stretch {
  const char *key, *title, *help;
};
constexpr Stretch kStretches[] = {
    {"linear", "PI", "positions divided by the factor (2306.15595)"},
    {"ntk", "NTK", "the base times factor^(d/(d-2))"},
    {"dynamic", "dynamic NTK", "the base grows with the text once it is longer than trained"},
    {"yarn", "YaRN", "fast planes stay, slow ones are divided by the factor (2309.00071)"},
    {"base", "longer base", "the base times the factor"},
};

const Stretch& stretch_of(const std::string& key) {
  for (const Stretch& stretch : kStretches) {
    if (key == stretch.key) return stretch;
  }
  return kStretches[0];
}

// Goes on in the present line where the next item has room there.
void same_line_for(const std::string& words) {
  const float width = ImGui::CalcTextSize(words.c_str()).x + ImGui::GetStyle().FramePadding.x * 2;
  ImGui::SameLine();
  if (ImGui::GetContentRegionAvail().x < width) ImGui::NewLine();
}

protocol::Settings settings_of(const LoadReport& report, const std::string& scaling,
                               const std::string& factor) {
  if (scaling != "base") return {{"encoding.scaling", scaling}, {"encoding.factor", factor}};
  const double base = report.encoding_options.value("base", 10000.0) * std::stod(factor);
  return {{"encoding.base", base == std::floor(base) && base < 1e15
                                ? std::to_string(static_cast<std::int64_t>(base))
                                : nlohmann::json(base).dump()}};
}

}  // namespace

std::string ModelsView::help_text() const {
  return "Bundled and recent models. A tick opens one: its colour is the same in every view. The "
         "selected model's load report says which encoding was found and why, what was missing or "
         "unused in the file, and what it takes in memory. A model that rotates q and k can be "
         "read "
         "a second time with its rotation stretched, without training: the extrapolation view "
         "shows "
         "what that does past the trained length.";
}

std::string ModelsView::command_line(const ViewContext& context) const {
  const std::string model = selected_model(context.session());
  if (model.empty()) return "phasescope models";
  return command_of<protocol::InfoRequest>({context.requests.of(kInfo, model).asked()});
}

void ModelsView::ask(ViewContext& context) {
  context.requests.ask(context.requests.of(kModels), protocol::ModelsRequest{});
  context.models_known();
}

void ModelsView::draw_row(ViewContext& context, const ModelSummary& model,
                          const ModelNames& listed) {
  const Session& session = context.session();
  const int place = place_of(session, model.name);
  bool open = place >= 0;
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::PushID(model.name.c_str());
  if (open) {
    const int color = names_of(session).color(session.models[static_cast<std::size_t>(place)]);
    ImGui::PushStyleColor(ImGuiCol_CheckMark, widgets::series_vec(color));
  }
  if (ImGui::Checkbox("##open", &open)) {
    open ? open_model_or_say(context, model.name) : close_model(context, model.name);
  }
  if (place >= 0) ImGui::PopStyleColor();
  ImGui::TableNextColumn();
  ImGui::AlignTextToFramePadding();
  const bool selected = place >= 0 && place == session.selection.model;
  const std::string name = listed.short_name(model.name);
  const NameDrawn drawn = draw_row_name(name, selected);
  if (drawn.clicked) {
    place >= 0 ? select_model(context, place) : open_model_or_say(context, model.name);
  }
  const std::string failure = advice_about(context, model.name);
  tooltip((failure.empty() ? "" : failure + "\n") + (drawn.cut ? name + "\n" : "") + model.title +
          (model.note.empty() ? "" : "\n" + model.note) +
          (model.path.empty() ? "" : "\n" + model.path) +
          (name == model.name || model.name == model.path ? "" : "\n" + model.name));
  draw_row_menu(context, model.name);
  draw_failure(context, model.name);
  ImGui::TableNextColumn();
  ImGui::TextUnformatted(model.encoding.c_str());
  ImGui::TableNextColumn();
  if (model.context > 0) {
    ImGui::TextUnformatted(std::to_string(model.context).c_str());
    tooltip("Tokens that it was trained at");
  }
  ImGui::TableNextColumn();
  ImGui::TextColored(widgets::palette().quiet, "%s",
                     model.parameters ? count_text(double(model.parameters), "").c_str() : "");
  ImGui::PopID();
}

// Under its row: what is said below the list has no room in a small window.
void ModelsView::draw_failure(ViewContext& context, const std::string& model) {
  const std::string why = failure_of(context, model);
  if (why.empty()) return;
  ImGui::PushStyleColor(ImGuiCol_Text, widgets::palette().bad);
  ImGui::TextWrapped("%s", why.c_str());
  ImGui::PopStyleColor();
  tooltip(model + "\n" + advice_about(context, model));
}

ModelsView::Listed ModelsView::listed(const ViewContext& context) {
  Listed all;
  if (const auto* answer = context.requests.of(kModels).answer()) {
    all.models = answer->result.models;
  }
  all.models = with_opened(context, std::move(all.models));
  std::vector<std::string> names;
  for (const ModelSummary& model : all.models) names.push_back(model.name);
  all.names = ModelNames(names);
  all.rows.columns = {{.title = kModelTitles[0], .numbers = false},
                      {.title = kModelTitles[1], .numbers = false},
                      {.title = kModelTitles[2]},
                      {.title = kModelTitles[3]}};
  const auto number = [](std::int64_t value) {
    return widgets::number_cell_of(value > 0 ? double(value) : widgets::TableCell::kNone);
  };
  for (const ModelSummary& model : all.models) {
    all.rows.rows.push_back({widgets::words_cell_of(all.names.short_name(model.name)),
                             widgets::words_cell_of(model.encoding), number(model.context),
                             number(model.parameters)});
  }
  return all;
}

void ModelsView::draw_search(ViewContext& context) {
  auto state = context.state<ModelsState>();
  ImGui::SetNextItemWidth(-1);
  if (ImGui::InputTextWithHint("##search", "Search, or a condition: trained>256", &state.search)) {
    context.set_state("Search models", state, "search models");
  }
}

// A click on one sorts by it, a third click as they stood.
void ModelsView::draw_titles() {
  // A name and a number are whole or not there: of a narrow list the encoding goes, which most
  // names say, and the parameters; of a very narrow one the trained length too.
  const float room = ImGui::GetContentRegionAvail().x / ImGui::GetFontSize();
  const int narrow = room < kNarrowList ? ImGuiTableColumnFlags_Disabled : 0;
  const int tight = room < kTightList ? ImGuiTableColumnFlags_Disabled : 0;
  const auto numbers =
      ImGuiTableColumnFlags_WidthFixed | ImGuiTableColumnFlags_PreferSortDescending;
  ImGui::TableSetupColumn("##open",
                          ImGuiTableColumnFlags_WidthFixed | ImGuiTableColumnFlags_NoSort);
  ImGui::TableSetupColumn(kModelTitles[0], 0, 1.8F);
  ImGui::TableSetupColumn(kModelTitles[1], narrow, 1.1F);
  ImGui::TableSetupColumn(kModelTitles[2], numbers | tight, ImGui::CalcTextSize("trained vv").x);
  ImGui::TableSetupColumn(kModelTitles[3], numbers | narrow, ImGui::CalcTextSize("888.88 M vv").x);
  ImGui::TableHeadersRow();
  const ImGuiTableSortSpecs* sorting = ImGui::TableGetSortSpecs();
  if (!sorting || !sorting->SpecsDirty) return;
  const bool by_one = sorting->SpecsCount > 0;
  arranged_.column = by_one ? sorting->Specs[0].ColumnIndex - 1 : -1;
  arranged_.descending = by_one && sorting->Specs[0].SortDirection == ImGuiSortDirection_Descending;
}

void ModelsView::draw_list(ViewContext& context) {
  const std::string key = serials_of(context.requests.of(kModels).answer()) +
                          std::to_string(context.edit.revision()) + "/" +
                          std::to_string(context.requests.generation());
  const Listed& all = listed_.get(key, [&] { return listed(context); });
  draw_search(context);
  const auto flags = ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_Sortable |
                     ImGuiTableFlags_SortTristate | ImGuiTableFlags_NoSavedSettings;
  if (!ImGui::BeginTable("models", 5, flags)) return;
  draw_titles();
  arranged_.search = context.state<ModelsState>().search;
  bool told = arranged_.column >= 0;  // of sorted ones those from files stand anywhere
  for (const int row : widgets::rows_in_order(all.rows, arranged_)) {
    const ModelSummary& model = all.models[static_cast<std::size_t>(row)];
    if (!model.bundled && !std::exchange(told, true)) {
      ImGui::TableNextRow();
      ImGui::TableSetColumnIndex(1);
      ImGui::TextColored(widgets::palette().quiet, "opened from files");
    }
    draw_row(context, model, all.names);
  }
  ImGui::EndTable();
}

// The menu of a row: one that was opened from a file and is closed can be forgotten.
void ModelsView::draw_row_menu(ViewContext& context, const std::string& model) {
  if (!ImGui::BeginPopupContextItem()) return;
  const bool open = place_of(context.session(), model) >= 0;
  const auto& recent = context.session().recent;
  if (ImGui::MenuItem(open ? "Close" : "Open")) {
    open ? close_model(context, model) : open_model_or_say(context, model);
  }
  const bool known = std::ranges::find(recent, model) != recent.end();
  if (known && !open && ImGui::MenuItem("Forget it (its files stay)")) {
    context.edit.apply("Forget " + model, [&](Session& s) { std::erase(s.recent, model); });
  }
  ImGui::EndPopup();
}

// The worker of another machine, which is offered again from then on; of this one for no name.
void ModelsView::connect(ViewContext& context, const std::string& host) {
  if (host == context.window.remote) return;
  context.window.connect(host);
  if (host.empty()) return;
  auto state = context.state<ModelsState>();
  std::erase(state.hosts, host);
  state.hosts.insert(state.hosts.begin(), host);
  if (state.hosts.size() > kMostHosts) state.hosts.resize(kMostHosts);
  context.edit.apply_silently([&](Session& s) { s.views.set(state); });
}

// The machine that computes: typed, or one of those that were used before.
void ModelsView::draw_host(ViewContext& context) {
  if (!context.window.connect) return;
  if (!typing_host_) host_ = context.window.remote;
  width_of_next(9);
  const bool entered = ImGui::InputTextWithHint("##host", "this machine", &host_,
                                                ImGuiInputTextFlags_EnterReturnsTrue);
  typing_host_ = ImGui::IsItemActive();
  tooltip(
      "Where models are opened and computed: a host that ssh reaches without a password and that "
      "has phasescope; empty for this machine. Enter connects");
  ImGui::SameLine(0, 0);
  if (entered) connect(context, host_);
  if (!ImGui::BeginCombo("host", "", ImGuiComboFlags_NoPreview)) return;
  if (ImGui::Selectable("this machine", context.window.remote.empty())) connect(context, "");
  const std::vector<std::string> hosts = context.state<ModelsState>().hosts;
  for (const std::string& host : hosts) {
    if (ImGui::Selectable(host.c_str(), host == context.window.remote)) connect(context, host);
  }
  ImGui::EndCombo();
}

// Which numbers, what runs attention and where, of all models together.
void ModelsView::draw_computing(ViewContext& context) {
  Computing computing = context.session().computing;
  const std::string& host = context.window.remote;
  const std::string where = (computing.device.empty() ? "" : " on " + computing.device) +
                            (host.empty() ? "" : " at " + host);
  const std::string dtype = computing.dtype == "auto" ? "the automatic dtype" : computing.dtype;
  const std::string words = "Computed in " + dtype + ", " + computing.backend + where;
  const float arrow = ImGui::GetFontSize() + 3 * ImGui::GetStyle().FramePadding.x;
  const bool fits =
      ImGui::CalcTextSize(words.c_str()).x + arrow <= ImGui::GetContentRegionAvail().x;
  const bool open =
      ImGui::CollapsingHeader(((fits ? words : "Computing") + "###computing").c_str());
  tooltip(fits ? "" : words);
  if (!open) return;
  auto& facts = context.requests.of(kWorkerFacts);
  if (context.window.may_ask) context.requests.ask(facts, protocol::WorkerInfoRequest{});
  std::vector<std::string> devices{"the worker's"};
  if (facts.answer()) {
    for (const auto& device : facts.answer()->result.value("devices", nlohmann::json::array())) {
      devices.push_back(device.get<std::string>());
    }
  }
  std::string device = computing.device.empty() ? devices.front() : computing.device;
  bool changed =
      draw_choice("numbers", computing.dtype, protocol::choices_of(protocol::kComputedInAbout));
  tooltip(protocol::kComputedInAbout.help);
  changed |=
      draw_choice("attention by", computing.backend, protocol::choices_of(protocol::kBackendAbout));
  tooltip(protocol::kBackendAbout.help);
  changed |= draw_choice("device", device, devices);
  tooltip(protocol::kDeviceAbout.help);
  draw_host(context);
  if (!changed) return;
  computing.device = device == devices.front() ? "" : device;
  context.edit.apply("Compute in " + computing.dtype, [&](Session& s) { s.computing = computing; });
}

void ModelsView::draw_report(const LoadReport& report, const std::string& name) {
  const ModelSummary& model = report.model;
  const auto& colors = widgets::palette();
  ImGui::SeparatorText((name + ": load report").c_str());
  widgets::draw_paragraph(model.note, colors.warn);
  if (!ImGui::BeginTable("report", 2)) return;
  ImGui::TableSetupColumn("fact", ImGuiTableColumnFlags_WidthFixed);
  ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthStretch);
  fact("encoding",
       report.encoding + (report.encoding_why.empty() ? "" : " (" + report.encoding_why + ")"));
  fact("scaling", report.scaling);
  fact("source", report.encoding_source);
  fact("shape", std::to_string(model.layers) + " layers, " + std::to_string(model.heads) +
                    " heads of " + std::to_string(report.head_dim) + ", width " +
                    std::to_string(model.width));
  fact("context", std::to_string(model.context) + " tokens trained");
  fact("parameters", count_text(double(model.parameters), ""));
  fact("family", report.family);
  fact("stored", dtypes_of(report));
  fact("memory", memory_of(report));
  fact("tokenizer", report.tokenizer);
  fact("missing", in_lines(report.missing), &colors.bad);
  fact("unused", in_lines(report.unexpected), &colors.warn);
  fact("tied", in_lines(report.tied));
  fact("quirks", in_lines(report.quirks));
  fact("warnings", in_lines(report.warnings), &colors.warn);
  for (const protocol::RopePlanRow& row : report.rope_plan) {
    fact(report.rope_plan.size() > 1 ? ("layers " + row.layers).c_str() : "layers", words_of(row));
  }
  for (const protocol::TensorInfo& tensor : report.flagged) {
    fact("flagged", tensor.name + ": " + tensor.flag, &colors.bad);
  }
  ImGui::EndTable();
}

void ModelsView::draw_reading(ViewContext& context, const std::string& name) {
  const LoadReport& report = *context.info(name);
  const auto& options = report.encoding_options;
  if (!options.contains("scaling") || !options.contains("base")) return;
  ImGui::AlignTextToFramePadding();
  ImGui::TextColored(widgets::palette().quiet, "read it with");
  std::vector<std::string> titles;
  for (const Stretch& stretch : kStretches) titles.emplace_back(stretch.title);
  next_control(choice_width(titles));
  std::string title = stretch_of(scaling_).title;
  if (draw_choice("##scaling", title, titles)) {
    for (const Stretch& stretch : kStretches) {
      if (title == stretch.title) scaling_ = stretch.key;
    }
  }
  tooltip(stretch_of(scaling_).help);
  same_line_for("x1.5 vv");
  std::string factor = "x" + amount_;
  if (draw_choice("##factor", factor, {"x1.5", "x2", "x4", "x8", "x16"})) {
    amount_ = factor.substr(1);
  }
  tooltip("How many times longer than trained");
  same_line_for("Open reading");
  const protocol::Settings settings = settings_of(report, scaling_, amount_);
  if (ImGui::Button("Open reading")) open_reading(context, name, settings);
  tooltip("Opens " + protocol::name_of({protocol::model_reading(name).model, settings}) +
          " beside it: the same weights, nothing is trained");
}

// The worker compares what the model computes with what a file says that it should be.
void ModelsView::draw_check(ViewContext& context, const std::string& name) {
  if (!ImGui::CollapsingHeader("Check against a reference")) return;
  auto state = context.state<ModelsState>();
  ImGui::SetNextItemWidth(-ImGui::GetFontSize() * 5);
  if (ImGui::InputTextWithHint("##reference", "a .safetensors file", &state.reference)) {
    context.set_state("Name a reference", state, "reference");
  }
  tooltip("Inputs and expected tensors, as phasescope capture or other programs write them");
  ImGui::SameLine();
  auto& question = context.requests.of(kReferenceCheck, name);
  ImGui::BeginDisabled(state.reference.empty() || question.waiting());
  if (ImGui::Button("Check")) {
    question.reset();  // the file may be another one by now
    context.requests.ask(question,
                         protocol::CheckRequest{.model = name, .reference = state.reference});
  }
  ImGui::EndDisabled();
  draw_question(context, question, "");
  if (!question.answer() || question.failed()) return;
  const protocol::ReferenceCheckResult& check = question.answer()->result;
  const auto& colors = widgets::palette();
  ImGui::TextColored(check.verdict == "equal" ? colors.good : colors.bad, "%s",
                     check.verdict.c_str());
  tooltip(check.reference);
  if (!ImGui::BeginTable("check", 3, ImGuiTableFlags_SizingStretchProp)) return;
  for (const char* title : {"tensor", "error", "tolerance"}) ImGui::TableSetupColumn(title);
  ImGui::TableHeadersRow();
  for (const protocol::CheckedTensor& tensor : check.tensors) {
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(tensor.name.c_str());
    ImGui::TableNextColumn();
    ImGui::TextColored(tensor.ok ? colors.good : colors.bad, "%s",
                       widgets::short_number(tensor.error).c_str());
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(widgets::short_number(tensor.tolerance).c_str());
  }
  ImGui::EndTable();
}

void ModelsView::draw_content(ViewContext& context) {
  if (ImGui::Button("Open...")) context.window.open_dialog = "model";
  tooltip("A folder (HF layout, a job, a checkpoint) or a .safetensors, .gguf or .bin file");
  draw_tools(context);
  draw_question(context, context.requests.of(kModels), "models");
  draw_list(context);
  draw_computing(context);
  const std::string model = selected_model(context.session());
  if (model.empty()) return;
  auto& info = context.requests.of(kInfo, model);
  draw_question(context, info, short_name(context.session(), model));
  if (!info.answer()) return;
  draw_reading(context, model);
  draw_check(context, model);
  draw_report(info.answer()->result, short_name(context.session(), model));
}

}  // namespace phasescope::app
