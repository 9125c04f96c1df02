#include "app/views/jobs_view.h"

#include <algorithm>
#include <cmath>

#include "app/figures/figures.h"
#include "formats/error.h"
#include "formats/json.h"
#include "protocol/shell_word.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using protocol::JobStatus;

constexpr auto kPollEvery = std::chrono::milliseconds(1000);

// sample_configs/ stands beside assets/ in the source tree and inside it where installed.
fs::path config_folder() {
  const fs::path beside = assets_folder().parent_path() / "sample_configs" / "desk";
  std::error_code error;
  return fs::is_directory(beside, error) ? beside : assets_folder() / "sample_configs" / "desk";
}

std::vector<std::string> config_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(config_folder(), error))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_live(const std::string& state) {
  return state == "running" || state == "queued" || state == "paused";
}

ImVec4 state_color(const std::string& state) {
  const auto& colors = widgets::palette();
  if (state == "failed" || state == "died") return colors.bad;
  if (state == "running") return colors.accent;
  if (state == "done") return colors.good;
  return colors.quiet;
}

std::string time_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

double fraction_of(const JobStatus& job) {
  return job.steps > 0 ? static_cast<double>(job.step) / static_cast<double>(job.steps) : 0;
}

// An evaluation has no steps of its own: its job counts hundredths.
std::string step_words(const JobStatus& job) {
  if (job.kind == "eval") return widgets::short_number(std::round(100 * fraction_of(job))) + " %";
  return std::to_string(job.step) + " / " + std::to_string(job.steps);
}

std::string progress_words(const JobStatus& job) {
  std::string words = (job.kind == "eval" ? "" : "step ") + step_words(job);
  if (job.seconds > 0) words += ", " + time_text(job.seconds) + " so far";
  if (job.state == "running" && job.seconds_left > 0)
    words += ", " + time_text(job.seconds_left) + " left";
  if (job.last) words += ", loss " + widgets::short_number(job.last->loss) + " nats a token";
  if (!job.kernel.empty()) words += "; attention by " + job.kernel;
  return words;
}

void show_job(ViewContext& context, const std::string& dir) {
  auto state = context.state<JobsState>();
  state.dir = dir;
  context.set_state("Show a job", state, "job");
}

}  // namespace

std::string JobsView::help_text() const {
  return "A job is a folder and a worker of its own: it goes on when this window is closed and is "
         "found again by its folder. Pause and cancel are read at every step; a job that died is "
         "resumed from its newest verified checkpoint.";
}

std::string JobsView::command_line(const ViewContext& context) const {
  const std::string dir = context.state<JobsState>().dir;
  return dir.empty() ? "phasescope jobs list" : "phasescope jobs show " + protocol::shell_word(dir);
}

void JobsView::ask(ViewContext& context) {
  if (configs_.empty()) configs_ = config_names();
  context.requests.ask(context.requests.of(kJobs), protocol::JobsRequest{});
  const std::string dir = context.state<JobsState>().dir;
  if (!dir.empty())
    context.requests.ask(context.requests.of(kJob), protocol::JobRequest{.dir = dir});
}

std::vector<Saved> JobsView::saved(ViewContext& context) {
  const auto* answer = context.requests.of(kJob).answer();
  if (!answer) return {};
  Output output{.result = protocol::to_json_form(answer->result)};
  output.figures = {job_curve_figure(answer->result)};
  return {
      {"", std::move(output), "phasescope jobs show " + protocol::shell_word(answer->result.dir)}};
}

// A job's state changes by itself: its folder is read again every second while the view is seen.
void JobsView::poll(ViewContext& context) {
  const auto now = std::chrono::steady_clock::now();
  if (!context.window.may_ask || now - polled_at_ < kPollEvery ||
      context.requests.of(kJobs).failed())
    return;
  polled_at_ = now;
  context.requests.ask_again(context.requests.of(kJobs), protocol::JobsRequest{});
  const std::string dir = context.state<JobsState>().dir;
  if (!dir.empty() && !context.requests.of(kJob).failed())
    context.requests.ask_again(context.requests.of(kJob), protocol::JobRequest{.dir = dir});
}

void JobsView::start_training(ViewContext& context) {
  const auto form = context.state<JobsState>();
  try {
    const auto config = formats::json_from_file(config_folder() / (form.config + ".json"));
    protocol::StartRequest request{.kind = "train", .name = form.config, .config = config};
    request.set.list = {"train.steps=" + std::to_string(form.steps)};
    context.requests.ask_again(context.requests.of(kStart), request);
  } catch (const formats::Error& error) {
    context.window.say(error.full_text(), true);
  }
}

void JobsView::start_eval(ViewContext& context) {
  const auto request = context.state<JobsState>().evaluation.request(context.session().models);
  context.requests.ask_again(
      context.requests.of(kStart),
      protocol::StartRequest{
          .kind = "eval", .name = request.task, .config = protocol::params_of(request)});
}

void JobsView::draw_form(ViewContext& context) {
  auto state = context.state<JobsState>();
  bool changed = draw_choice("##config", state.config, configs_, ImGui::GetFontSize() * 8);
  tooltip("The run configuration: sample_configs/desk");
  ImGui::SameLine();
  int steps = static_cast<int>(state.steps);
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 7);
  if (ImGui::InputInt("steps", &steps, 100, 1000)) {
    state.steps = std::clamp(steps, 1, 10'000'000);
    changed = true;
  }
  ImGui::SameLine();
  ImGui::BeginDisabled(context.requests.of(kStart).waiting() || configs_.empty());
  if (ImGui::Button("Train")) start_training(context);
  ImGui::SameLine();
  ImGui::EndDisabled();
  ImGui::BeginDisabled(context.requests.of(kStart).waiting() || context.models() == 0);
  if (ImGui::Button("Evaluate")) start_eval(context);
  tooltip("Perplexity of the open models, as a job");
  ImGui::EndDisabled();
  ImGui::SameLine();
  changed |= form_.draw(state.evaluation, JobsState{}.evaluation);
  if (changed) context.set_state("Change the form", state, "form");
  draw_tools(context);
}

void JobsView::draw_list(ViewContext& context) {
  const auto* answer = context.requests.of(kJobs).answer();
  if (!answer || answer->result.jobs.empty())
    return widgets::draw_empty(
        "No jobs yet. Start a training above: it runs beside this window "
        "and outlives it.");
  const ImGuiTableFlags flags =
      ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_ScrollY;
  if (!ImGui::BeginTable("jobs", 4, flags)) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (const char* name : {"job", "state", "step", "left"}) ImGui::TableSetupColumn(name);
  ImGui::TableHeadersRow();
  const std::string shown = context.state<JobsState>().dir;
  for (const JobStatus& job : answer->result.jobs) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::PushID(job.dir.c_str());
    const std::string name = job.name.empty() ? fs::path(job.dir).filename().string() : job.name;
    if (ImGui::Selectable(name.c_str(), job.dir == shown, ImGuiSelectableFlags_SpanAllColumns))
      show_job(context, job.dir);
    tooltip(job.dir);
    ImGui::PopID();
    ImGui::TableNextColumn();
    ImGui::TextColored(state_color(job.state), "%s", job.state.c_str());
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(step_words(job).c_str());
    ImGui::TableNextColumn();
    if (job.state == "running" && job.seconds_left > 0)
      ImGui::TextUnformatted(time_text(job.seconds_left).c_str());
  }
  ImGui::EndTable();
}

void JobsView::draw_buttons(ViewContext& context, const JobStatus& job) {
  const auto act = [&](const char* word, const char* action, bool enabled) {
    ImGui::BeginDisabled(!enabled || context.requests.of(kControl).waiting());
    if (ImGui::SmallButton(word))
      context.requests.ask_again(context.requests.of(kControl),
                                 protocol::ControlRequest{.dir = job.dir, .action = action});
    ImGui::EndDisabled();
    ImGui::SameLine();
  };
  act("Pause", "pause", job.state == "running");
  act("Resume", "resume", job.state == "paused" || !is_live(job.state));
  act("Cancel", "cancel", is_live(job.state));
  ImGui::NewLine();
}

void JobsView::draw_job(ViewContext& context, const JobStatus& job) {
  ImGui::PushFont(widgets::fonts().bold, 0.0F);
  ImGui::TextUnformatted(job.name.empty() ? job.dir.c_str() : job.name.c_str());
  ImGui::PopFont();
  ImGui::SameLine();
  ImGui::TextColored(state_color(job.state), "%s", job.state.c_str());
  ImGui::SameLine();
  draw_buttons(context, job);
  if (!job.message.empty()) {
    const auto& colors = widgets::palette();
    ImGui::PushTextWrapPos(0.0F);
    ImGui::TextColored(job.state == "running" ? colors.quiet : colors.warn, "%s",
                       job.message.c_str());
    ImGui::PopTextWrapPos();
  }
  ImGui::ProgressBar(static_cast<float>(fraction_of(job)), {-1, ImGui::GetFontSize() * 0.5F}, "");
  ImGui::PushTextWrapPos(0.0F);
  ImGui::TextColored(widgets::palette().quiet, "%s", progress_words(job).c_str());
  ImGui::PopTextWrapPos();
  if (job.curve.empty()) return;
  const auto& plot = plot_.get(
      job.dir + std::to_string(job.curve.size()) + "/" + std::to_string(job.curve.back().step),
      [&] { return job_curve_figure(job); });
  widgets::PlotDraw options;
  options.version = plot_.version();
  widgets::draw_plot(plot, options);
}

void JobsView::draw_content(ViewContext& context) {
  poll(context);
  draw_form(context);
  draw_question(context, context.requests.of(kStart), "start");
  if (context.requests.of(kControl).failed())
    draw_question(context, context.requests.of(kControl), "control");
  if (context.requests.of(kJobs).failed())
    draw_question(context, context.requests.of(kJobs), "jobs");
  if (const auto* started = context.requests.of(kStart).answer();
      started && started->serial != started_serial_) {
    started_serial_ = started->serial;
    show_job(context, started->result.dir);
  }
  const auto* job = context.requests.of(kJob).answer();
  const bool shown = job && !context.state<JobsState>().dir.empty();
  const float height = ImGui::GetContentRegionAvail().y;
  if (ImGui::BeginChild("list", {0, shown ? height * 0.35F : 0})) draw_list(context);
  ImGui::EndChild();
  if (!shown) return;
  ImGui::Separator();
  if (context.requests.of(kJob).failed()) draw_question(context, context.requests.of(kJob), "job");
  if (ImGui::BeginChild("job")) draw_job(context, job->result);
  ImGui::EndChild();
}

}  // namespace phasescope::app
