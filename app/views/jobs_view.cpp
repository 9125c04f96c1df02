#include "app/views/jobs_view.h"

#include <algorithm>
#include <cmath>

#include "app/figures/figures.h"
#include "app/figures/job_figures.h"
#include "app/outputs/eval_output.h"
#include "app/outputs/result_tables.h"
#include "app/views/kept_tables.h"
#include "app/views/model_table.h"
#include "protocol/shell_word.h"
#include "widgets/busy.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::JobStatus;

// While a job runs, and while none does that could change: with the frames that are drawn anyway,
// and, where nothing happens, with one that is drawn for it.
constexpr double kPollRunning = 1, kPollIdle = 5, kPollAsleep = 60;
// What was told to start or to go on shows that by then.
constexpr auto kAfterAnAct = std::chrono::seconds(20);
constexpr std::int64_t kLogLines = 200;
// In font sizes: what is said of a job, its tabs, and a curve that can be read.
constexpr float kJobHeight = 26;

using protocol::is_live;

widgets::TableCell::Tone tone_of_job(const std::string& state) {
  using Tone = widgets::TableCell::Tone;
  if (state == "failed" || state == "died") return Tone::bad;
  if (state == "running") return Tone::accent;
  return state == "done" ? Tone::good : Tone::quiet;
}

std::string time_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

double fraction_of(const JobStatus& job) {
  return job.steps > 0 ? static_cast<double>(job.step) / static_cast<double>(job.steps) : 0;
}

double percent_of(const JobStatus& job) { return std::round(100 * fraction_of(job)); }

// An evaluation has no steps of its own: its job counts hundredths.
std::string step_words(const JobStatus& job) {
  if (job.kind == "eval") return widgets::short_number(percent_of(job)) + " %";
  return "step " + std::to_string(job.step) + " of " + std::to_string(job.steps);
}

// As curves have it; a job keeps it in nats.
double last_loss_in_bits(const JobStatus& job) {
  return job.last ? job.last->loss / std::log(2.0) : std::nan("");
}

std::string progress_words(const JobStatus& job) {
  std::string words = step_words(job);
  if (job.seconds > 0) words += ", " + time_text(job.seconds) + " so far";
  if (job.state == "running" && job.seconds_left > 0) {
    words += ", " + time_text(job.seconds_left) + " left";
  }
  if (job.last) {
    words += ", loss " + widgets::short_number(last_loss_in_bits(job)) + " bits a token";
  }
  if (!job.kernel.empty()) words += "; attention by " + job.kernel;
  return words;
}

void show_job(ViewContext& context, const std::string& dir) {
  auto state = context.state<JobsState>();
  state.dir = dir;
  state.form = false;
  std::erase(state.beside, dir);
  context.set_state("Show a job", state, "job");
}

// Folders of the jobs whose curves are drawn, the one shown in full first.
std::vector<std::string> dirs_drawn(const JobsState& state) {
  std::vector<std::string> dirs;
  if (!state.dir.empty()) dirs.push_back(state.dir);
  dirs.insert(dirs.end(), state.beside.begin(), state.beside.end());
  return dirs;
}

std::string step_of(const std::string& checkpoint) {
  return checkpoint.starts_with("step-") ? checkpoint.substr(5) : checkpoint;
}

// The result of an eval that has ended, as its verb has it.
Output output_of_eval(const JobStatus& job) {
  const auto result = protocol::from_json_form<protocol::EvalResult>(job.result);
  return eval_output(result, job.result, names_in(result));
}

}  // namespace

std::string JobsView::help_text() const {
  return "A job is a folder and a worker of its own: it goes on when this window is closed and is "
         "found again by its folder. A training is started from a form over all that a run "
         "configuration has, beginning with a shipped one, a file or another job. Ticked jobs have "
         "their curves over each other. Pause and cancel are read at every step; a job that died "
         "is resumed from its newest verified checkpoint.";
}

std::string JobsView::command_line(const ViewContext& context) const {
  const std::string dir = context.state<JobsState>().dir;
  return dir.empty() ? "phasescope jobs list" : "phasescope jobs show " + protocol::shell_word(dir);
}

void JobsView::ask(ViewContext& context) {
  if (configs_.empty()) configs_ = config_names();
  context.requests.ask(context.requests.of(kJobs), protocol::JobsRequest{});
  const auto state = context.state<JobsState>();
  for (const std::string& dir : dirs_drawn(state)) {
    context.requests.ask(context.requests.of(kJob, dir), protocol::JobRequest{.dir = dir});
  }
  if (!state.form) return;
  if (state.run.is_null()) {
    auto loaded = state;
    load_source(context, loaded, (config_folder() / (state.source + ".json")).string());
    if (loaded.run.is_null()) return;
    context.edit.apply_silently([&](Session& s) { s.views.set(loaded); });
  }
  context.requests.ask(context.requests.of(kJobForm),
                       protocol::FormRequest{.config = context.state<JobsState>().run});
}

// A job's state changes by itself: its folder is read again while the view is seen, seldom where no
// job runs, which only another program could start then.
void JobsView::poll(ViewContext& context) {
  const auto now = std::chrono::steady_clock::now();
  const auto* jobs = context.requests.of(kJobs).answer();
  const bool running = jobs && std::ranges::any_of(jobs->result.jobs, [](const JobStatus& job) {
                         return is_live(job.state);
                       });
  const bool acted = now - acted_at_ < kAfterAnAct;
  const bool awake = !jobs || running || acted;
  poll_pause_ = awake ? kPollRunning : kPollAsleep;
  const std::chrono::duration<double> since = now - polled_at_;
  if (!context.window.may_ask || since.count() < (awake ? kPollRunning : kPollIdle) ||
      context.requests.of(kJobs).failed()) {
    return;
  }
  polled_at_ = now;
  context.requests.ask_again(context.requests.of(kJobs), protocol::JobsRequest{});
  const auto state = context.state<JobsState>();
  for (const std::string& dir : dirs_drawn(state)) {
    auto& job = context.requests.of(kJob, dir);
    // One that has ended stays as it is.
    const bool ended = job.answer() && !is_live(job.answer()->result.state);
    const auto* list = context.requests.of(kJobs).answer();
    const bool changed =
        !ended || !list || std::ranges::any_of(list->result.jobs, [&](const JobStatus& listed) {
          return listed.dir == dir && listed.state != job.answer()->result.state;
        });
    if (changed && !job.failed()) context.requests.ask_again(job, protocol::JobRequest{.dir = dir});
  }
  auto& log = context.requests.of(kJobLog, state.dir);
  if (log_seen_ && !state.dir.empty() && !log.failed()) {
    context.requests.ask_again(log, protocol::LogRequest{.dir = state.dir, .lines = kLogLines});
  }
  log_seen_ = false;
}

std::vector<JobStatus> JobsView::jobs_drawn(const ViewContext& context) const {
  std::vector<JobStatus> jobs;
  for (const std::string& dir : dirs_drawn(context.state<JobsState>())) {
    if (const auto* answer = context.requests.of(kJob, dir).answer()) {
      jobs.push_back(answer->result);
      jobs.back().name = name_of(context, answer->result);
    }
  }
  return jobs;
}

// As the list has it, where no two jobs look alike.
std::string JobsView::name_of(const ViewContext& context, const JobStatus& job) const {
  const auto* list = context.requests.of(kJobs).answer();
  if (list && names_of_list(*list).contains(job.dir)) return names_.value().at(job.dir);
  return names_of_jobs({&job, 1}).at(job.dir);
}

const JobsView::Names& JobsView::names_of_list(const Answer<protocol::JobsResult>& list) const {
  return names_.get(serials_of(&list), [&] { return names_of_jobs(list.result.jobs); });
}

widgets::PlotSpec JobsView::plot_of(const ViewContext& context) const {
  const auto state = context.state<JobsState>();
  const std::vector<JobStatus> jobs = jobs_drawn(context);
  if (jobs.size() == 1 && state.curve == job_quantities().front()) {
    return job_curve_figure(jobs.front());
  }
  return job_curves_figure(jobs, state.curve);
}

std::vector<Saved> JobsView::saved(ViewContext& context) {
  const auto state = context.state<JobsState>();
  const auto* answer = context.requests.of(kJob, state.dir).answer();
  if (!answer) return {};
  const JobStatus& job = answer->result;
  if (job.kind == "eval" && !job.result.is_object()) return {};
  Output output{.result = protocol::to_json_form(job)};
  if (job.kind == "eval") {
    output = output_of_eval(job);
  } else {
    output.figures = {plot_of(context)};
  }
  return {{"", std::move(output), "phasescope jobs show " + protocol::shell_word(job.dir)}};
}

void JobsView::start(ViewContext& context, const protocol::StartRequest& request) {
  acted_at_ = std::chrono::steady_clock::now();
  context.requests.ask_again(context.requests.of(kStart), request);
}

void JobsView::start_eval(ViewContext& context) {
  const auto request = context.state<JobsState>().evaluation.request(context.session().models);
  start(context, {.kind = "eval", .name = request.task, .config = protocol::params_of(request)});
}

void JobsView::draw_bar(ViewContext& context) {
  auto state = context.state<JobsState>();
  bool changed = false;
  if (ImGui::Button(state.form ? "Back to the jobs" : "New training...")) {
    state.form = !state.form, changed = true;
  }
  tooltip("A form over the whole run configuration");
  next_control(button_width("Evaluate"));
  ImGui::BeginDisabled(context.requests.of(kStart).waiting() || context.models() == 0);
  if (ImGui::Button("Evaluate")) start_eval(context);
  tooltip("Perplexity of the open models, as a job");
  ImGui::EndDisabled();
  next_control(button_width("Options *"));
  changed |= form_.draw(state.evaluation, JobsState{}.evaluation);
  if (changed) context.set_state("Change the form", state, "form");
  draw_tools(context);
}

// ---- the list -------------------------------------------------------------------------------

// The list of jobs, with whether each one's curve is drawn over that of the one shown, and how far
// it is.
widgets::TableSpec JobsView::list_of(const protocol::JobsResult& result, const Names& names,
                                     const JobsState& state) {
  using widgets::number_cell_of, widgets::words_cell_of;
  widgets::TableSpec list{.id = "jobs", .frozen = 2};
  list.columns = {{.title = "curve", .help = "its curve over that of the job shown"},
                  {.title = "job", .numbers = false},
                  {.title = "state", .numbers = false},
                  {.title = "done (%)", .help = "of its steps"},
                  {.title = "left (min)", .help = "by what its steps took so far"},
                  {.title = "loss (bits a token)", .help = "at the last step"}};
  for (const JobStatus& job : result.jobs) {
    const bool beside = std::ranges::find(state.beside, job.dir) != state.beside.end();
    const bool can_be_drawn = job.dir != state.dir && job.kind == "train";
    auto curve = can_be_drawn ? widgets::box_cell_of(beside, "Its curve over that of the job shown")
                              : words_cell_of(job.dir == state.dir ? "shown" : " ");
    auto name = words_cell_of(names.at(job.dir)), its_state = words_cell_of(job.state);
    name.help = job.dir, its_state.tone = tone_of_job(job.state), its_state.help = job.message;
    auto done = number_cell_of(percent_of(job)), left = number_cell_of(std::nan(""));
    done.help = step_words(job);
    if (job.state == "running" && job.seconds_left > 0) {
      left.number = std::round(job.seconds_left / 6) / 10, left.help = time_text(job.seconds_left);
    }
    list.rows.push_back({std::move(curve), std::move(name), std::move(its_state), std::move(done),
                         std::move(left), number_cell_of(last_loss_in_bits(job))});
  }
  return list;
}

void JobsView::draw_list(ViewContext& context) {
  const auto* answer = context.requests.of(kJobs).answer();
  if (!answer) return;  // what is waited for, or went wrong, stands above
  if (answer->result.jobs.empty()) {
    return widgets::draw_empty(
        "No jobs yet. Start a training above: it runs beside this window and outlives it.");
  }
  auto state = context.state<JobsState>();
  const std::vector<JobStatus>& jobs = answer->result.jobs;
  std::string key = serials_of(answer) + state.dir;
  for (const std::string& dir : state.beside) key += "\n" + dir;
  const auto& list =
      list_.get(key, [&] { return list_of(answer->result, names_of_list(*answer), state); });
  widgets::TableDraw options = options_of_rows(jobs.size(), list_.version());
  options.height = 0;
  options.hint = "Search, or a condition: loss<2";
  const auto dir_of = [&](int row) { return jobs[static_cast<std::size_t>(row)].dir; };
  options.selected = [&](int row) { return dir_of(row) == state.dir; };
  options.menu = [&](int) { draw_menu_items(context); };
  const auto drawn = draw_kept_table(context, id(), list_table_, list, options);
  if (drawn.box >= 0) {
    if (std::erase(state.beside, dir_of(drawn.box)) == 0) state.beside.push_back(dir_of(drawn.box));
    context.set_state("Draw a job's curve", state);
  } else if (drawn.clicked >= 0) {
    show_job(context, dir_of(drawn.clicked));
  }
}

// ---- one job --------------------------------------------------------------------------------

void JobsView::draw_buttons(ViewContext& context, const JobStatus& job) {
  const auto act = [&](const char* word, const char* action, bool enabled) {
    next_control(button_width(word));
    ImGui::BeginDisabled(!enabled || context.requests.of(kControl).waiting());
    if (ImGui::SmallButton(word)) {
      acted_at_ = std::chrono::steady_clock::now();
      context.requests.ask_again(context.requests.of(kControl),
                                 protocol::ControlRequest{.dir = job.dir, .action = action});
    }
    ImGui::EndDisabled();
  };
  act("Pause", "pause", job.state == "running");
  act("Resume", "resume", job.state == "paused" || !is_live(job.state));
  act("Cancel", "cancel", is_live(job.state));
  next_control(button_width("Clone"));
  ImGui::BeginDisabled(job.kind != "train" || !job.config.is_object());
  if (ImGui::SmallButton("Clone")) {
    auto state = context.state<JobsState>();
    state.form = true, state.source = names_of_jobs({&job, 1}).at(job.dir);
    state.run = config_to_clone(job.config);
    state.typed.clear(), lines_.forget();
    context.set_state("Clone a job", state);
  }
  ImGui::EndDisabled();
  tooltip("A new training that begins with this one's configuration");
  next_control(button_width("Remove..."));
  ImGui::BeginDisabled(is_live(job.state) || context.requests.of(kControl).waiting());
  if (ImGui::SmallButton("Remove...")) ImGui::OpenPopup("remove");
  ImGui::EndDisabled();
  tooltip("Deletes its files; asks before");
  draw_removal(context, job);
}

// Nothing of a job is deleted without a word.
void JobsView::draw_removal(ViewContext& context, const JobStatus& job) {
  if (!ImGui::BeginPopup("remove")) return;
  const std::size_t count = job.checkpoints.size();
  ImGui::Text("Delete %s, its curves, its log and its %s?", name_of(context, job).c_str(),
              count == 1 ? "checkpoint" : (std::to_string(count) + " checkpoints").c_str());
  ImGui::TextColored(widgets::palette().quiet, "%s", job.dir.c_str());
  if (ImGui::Button("Delete")) {
    acted_at_ = std::chrono::steady_clock::now();
    context.requests.ask_again(context.requests.of(kControl),
                               protocol::ControlRequest{.dir = job.dir, .action = "remove"});
    auto state = context.state<JobsState>();
    state.dir.clear();
    context.set_state("Remove a job", state);
    ImGui::CloseCurrentPopup();
  }
  ImGui::SameLine();
  if (ImGui::Button("Keep it")) ImGui::CloseCurrentPopup();
  ImGui::EndPopup();
}

// What was trained, as a model of the window; two of its checkpoints beside each other.
void JobsView::draw_opening(ViewContext& context, const JobStatus& job) {
  if (job.checkpoints.empty()) return;
  if (ImGui::Button("Open the model")) open_model_or_say(context, job.dir);
  tooltip("Its newest checkpoint, in all views");
  if (job.checkpoints.size() < 2) return;
  auto state = context.state<JobsState>();
  const auto there = [&](const std::string& name) {
    return std::ranges::find(job.checkpoints, name) != job.checkpoints.end();
  };
  if (!there(state.first)) state.first = job.checkpoints.front();
  if (!there(state.second)) state.second = job.checkpoints.back();
  const float width = ImGui::GetFontSize() * 7;
  next_control(ImGui::CalcTextSize("or compare").x + ImGui::GetStyle().ItemSpacing.x + width);
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted("or compare");
  ImGui::SameLine();
  bool changed = draw_choice("##first", state.first, job.checkpoints, width);
  next_control(width);
  changed |= draw_choice("##second", state.second, job.checkpoints, width);
  if (changed) context.set_state("Choose checkpoints", state, "checkpoints");
  next_control(button_width("Open both"));
  ImGui::BeginDisabled(state.first == state.second);
  if (ImGui::Button("Open both")) {
    for (const std::string& checkpoint : {state.first, state.second}) {
      open_model_or_say(context, job.dir + "/checkpoints/" + checkpoint);
    }
  }
  ImGui::EndDisabled();
  tooltip("Steps " + step_of(state.first) + " and " + step_of(state.second) +
          " as two models: maps, curves and the comparison follow");
}

void JobsView::draw_head(ViewContext& context, const JobStatus& job) {
  ImGui::PushFont(widgets::fonts().bold, 0.0F);
  ImGui::TextUnformatted(name_of(context, job).c_str());
  ImGui::PopFont();
  tooltip(job.dir);
  ImGui::SameLine();
  ImGui::TextColored(widgets::color_of(tone_of_job(job.state)), "%s", job.state.c_str());
  draw_buttons(context, job);
  const auto& colors = widgets::palette();
  widgets::draw_paragraph(job.message, job.state == "running" ? colors.quiet : colors.warn);
  ImGui::ProgressBar(static_cast<float>(fraction_of(job)), {-1, ImGui::GetFontSize() * 0.5F}, "");
  widgets::draw_paragraph(progress_words(job), colors.quiet);
  draw_opening(context, job);
}

void JobsView::draw_curves(ViewContext& context, const JobStatus& job) {
  if (job.curve.empty()) return widgets::draw_empty("No step has been made yet.");
  auto state = context.state<JobsState>();
  // Curves are long, and with numbers of every head at every probe large: no frame copies them.
  std::string key;
  for (const std::string& dir : dirs_drawn(state)) {
    if (const auto* answer = context.requests.of(kJob, dir).answer()) {
      key += "/" + dir + std::to_string(answer->result.curve.size()) +
             (answer->result.last ? "," + std::to_string(answer->result.last->step) : "");
    }
  }
  const auto& quantities =
      quantities_.get(key, [&] { return job_quantities(jobs_drawn(context)); });
  if (draw_choice("##curve", state.curve, quantities)) {
    context.set_state("Show another curve", state);
  }
  const auto& plot = plot_.get(state.curve + key, [&] { return plot_of(context); });
  widgets::PlotDraw options;
  options.version = plot_.version();
  draw_figure(context, plot, options);
}

void JobsView::draw_log(ViewContext& context, const JobStatus& job) {
  log_seen_ = true;
  auto& question = context.requests.of(kJobLog, job.dir);
  if (context.window.may_ask) {
    context.requests.ask(question, protocol::LogRequest{.dir = job.dir, .lines = kLogLines});
  }
  if (question.failed()) draw_question(context, question, "log");
  if (!question.answer()) return;
  const std::string text = question.answer()->result.value("log", "");
  if (text.empty()) return widgets::draw_empty("Nothing was written to log.txt.");
  ImGui::PushFont(widgets::fonts().mono, 0.0F);
  const bool at_end = ImGui::GetScrollY() >= ImGui::GetScrollMaxY();
  ImGui::TextUnformatted(text.c_str(), text.c_str() + text.size());
  if (at_end) ImGui::SetScrollHereY(1.0F);
  ImGui::PopFont();
}

// The result of an eval that has ended, as its verb would show it.
void JobsView::draw_result(ViewContext& context, const JobStatus& job) {
  if (!job.result.is_object()) {
    return widgets::draw_empty("The result is here once the job is done.");
  }
  const auto& output =
      result_.get(job.dir + std::to_string(job.result.size()), [&] { return output_of_eval(job); });
  for (const widgets::PlotSpec& plot : output.figures) {
    ImGui::PushID(plot.id.c_str());
    widgets::PlotDraw options;
    options.version = result_.version();
    options.size = {-1, ImGui::GetFontSize() * 15};
    draw_figure(context, plot, options);
    ImGui::PopID();
  }
  tables_.draw(context, id() + "/result", output, result_.version());
}

void JobsView::draw_job(ViewContext& context, const JobStatus& job) {
  draw_head(context, job);
  if (!ImGui::BeginTabBar("of the job")) return;
  const auto tab = [&](const char* title, auto draw) {
    if (!ImGui::BeginTabItem(title)) return;
    if (ImGui::BeginChild(title, {0, 0}, ImGuiChildFlags_NavFlattened)) draw();
    ImGui::EndChild();
    ImGui::EndTabItem();
  };
  if (job.kind == "eval") {
    tab("Result", [&] { draw_result(context, job); });
  } else {
    tab("Curves", [&] { draw_curves(context, job); });
  }
  tab("Log", [&] { draw_log(context, job); });
  tab("Configuration", [&] {
    ImGui::PushFont(widgets::fonts().mono, 0.0F);
    ImGui::TextUnformatted(job.config.dump(1).c_str());
    ImGui::PopFont();
  });
  ImGui::EndTabBar();
}

void JobsView::draw_content(ViewContext& context) {
  poll(context);
  draw_bar(context);
  draw_question(context, context.requests.of(kStart), "start");
  if (context.requests.of(kControl).failed()) {
    draw_question(context, context.requests.of(kControl), "control");
  }
  // Asked again every second: that it is on its way is said before the first answer alone.
  if (auto& jobs = context.requests.of(kJobs); jobs.failed() || !jobs.answer()) {
    draw_question(context, jobs, "jobs");
  }
  if (const auto* started = context.requests.of(kStart).answer();
      started && started->serial != started_serial_) {
    started_serial_ = started->serial;
    show_job(context, started->result.dir);
  }
  const auto state = context.state<JobsState>();
  if (state.form) return draw_form(context);
  auto& question = context.requests.of(kJob, state.dir);
  const auto* job = question.answer();
  const bool shown = job && !state.dir.empty();
  const float height = ImGui::GetContentRegionAvail().y;
  const auto* list = context.requests.of(kJobs).answer();
  const float whole = options_of_rows(list ? list->result.jobs.size() : 1, 0).height;
  const ImVec2 size{0, shown ? std::min(height * 0.35F, whole) : 0};
  if (ImGui::BeginChild("list", size, ImGuiChildFlags_NavFlattened)) draw_list(context);
  ImGui::EndChild();
  if (!shown) return;
  ImGui::Separator();
  if (question.failed()) draw_question(context, question, "job");
  // A view with less room is scrolled: a curve of a few pixels shows nothing.
  const float least = ImGui::GetFontSize() * kJobHeight;
  const float room = std::max(least, ImGui::GetContentRegionAvail().y);
  if (ImGui::BeginChild("job", {0, room}, ImGuiChildFlags_NavFlattened)) {
    draw_job(context, job->result);
  }
  ImGui::EndChild();
}

}  // namespace phasescope::app
