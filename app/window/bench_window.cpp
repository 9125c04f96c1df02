// `bench window`: how long frames take, with as much to draw as the window can show.
#include <imgui.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "app/window/gl_window.h"
#include "app/window/main_window.h"
#include "app/window_main.h"
#include "formats/error.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/map.h"

namespace phasescope::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLayers = 32, kHeads = 32, kTokens = 4096, kThumbnail = 64;

protocol::Reply info_of_bench() {
  protocol::LoadReport report;
  report.model.name = "bench", report.encoding = "rope", report.tokenizer = "bytes";
  report.model.layers = kLayers, report.model.heads = kHeads, report.model.context = kTokens;
  return {protocol::to_json_form(report), {}};
}

// Heads that differ to the eye and to the sort.
protocol::Reply heads_of_bench() {
  protocol::HeadsResult result;
  result.model = "bench", result.layers = kLayers, result.heads = kHeads;
  result.metrics = {{.key = "entropy", .title = "Entropy", .formula = "-sum_k A ln A"}};
  for (int cell = 0; cell < kLayers * kHeads; ++cell) {
    const double value = 0.1 * (cell * 37 % 100);
    result.rows.push_back(
        {cell / kHeads, cell % kHeads, {{"entropy", {value, value, value, 1}}}, {}});
  }
  std::vector<float> cells(std::size_t{kLayers} * kHeads * kThumbnail * kThumbnail);
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<float>(i % 97) / 97;
  return {protocol::to_json_form(result),
          {protocol::TensorRef::own<float>("thumbnails", {kLayers, kHeads, kThumbnail, kThumbnail},
                                           std::move(cells))}};
}

protocol::Reply map_of_bench() {
  protocol::MapResult result;
  result.model = "bench", result.tokens = result.keys = kTokens;
  result.row_end = result.column_end = result.height = result.width = kTokens;
  std::vector<float> cells(std::size_t{kTokens} * kTokens);
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<float>(i % 8191) / 8191;
  return {protocol::to_json_form(result),
          {protocol::TensorRef::own<float>("map", {kTokens, kTokens}, std::move(cells))}};
}

// A worker's place: the answers that fill the large views, at once; all other requests fail.
class BenchLink : public WorkerLink {
 public:
  void start() override {}
  void restart() override {}
  protocol::RequestId submit(const std::string& method, nlohmann::json,
                             protocol::Callbacks callbacks, const std::string&) override {
    waiting_.emplace_back(method, std::move(callbacks));
    return waiting_.size();
  }
  void cancel(protocol::RequestId) override {}
  std::size_t drain() override {
    using Make = protocol::Reply (*)();
    static const std::map<std::string, Make> kReplies{
        {kInfo.method, info_of_bench}, {"heads", heads_of_bench}, {"map", map_of_bench}};
    const auto now = std::exchange(waiting_, {});
    for (const auto& [method, callbacks] : now) {
      const auto found = kReplies.find(method);
      if (found != kReplies.end())
        callbacks.on_result(found->second());
      else
        callbacks.on_error({"bad_input", "nothing is measured here", "", ""});
    }
    return now.size();
  }
  protocol::WorkerState state() const override { return protocol::WorkerState::ready; }
  std::optional<protocol::DeathNotice> death() const override { return std::nullopt; }
  std::string description() const override { return "no worker"; }
  void set_wake(std::function<void()>) override {}

 private:
  std::vector<std::pair<std::string, protocol::Callbacks>> waiting_;
};

void draw_frame(GlWindow& gl_window, MainWindow& main_window) {
  gl_window.begin_frame();
  main_window.draw(gl_window.scale());
  ImGui::Render();
}

double thread_cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Seconds since this process was started, to the 10 ms of /proc.
double process_age() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::unique_ptr<GlWindow> any_surface(int width, int height) {
  try {
    return std::make_unique<GlWindow>(GlWindowOptions{width, height, false, "Phasescope"});
  } catch (const formats::Error&) {
    return std::make_unique<GlWindow>(GlWindowOptions{width, height, true, "Phasescope"});
  }
}

protocol::BenchRow row_of(const std::string& name, const std::string& unit,
                          std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  protocol::BenchRow row;
  row.name = name, row.unit = unit;
  row.value = values[static_cast<std::size_t>(std::lround(part * last))];
  row.min = values.front(), row.max = values.back();
  row.runs = static_cast<int64_t>(values.size());
  return row;
}

}  // namespace

protocol::BenchResult bench_window(int frames) {
  const auto gl_window = any_surface(1600, 1000);
  BenchLink link;
  Session session = default_session();
  session.models = {"bench"};
  MainWindow main_window(std::move(session), link, link);
  draw_frame(*gl_window, main_window);
  gl_window->present();
  const double first = process_age();
  main_window.start_asking();
  std::vector<double> own, whole;
  for (int i = 0; i < frames + 20; ++i) {
    const auto begin = Clock::now();
    const double before = thread_cpu_ms();
    gl_window->wait(0);
    draw_frame(*gl_window, main_window);
    const double after = thread_cpu_ms();
    gl_window->present();
    if (i < 20) continue;  // answers arrive and textures are made
    own.push_back(after - before);
    whole.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  protocol::BenchResult result;
  result.device = gl_window->renderer();
  result.rows.push_back({"first_frame", "s", first, first, first, 1});
  result.rows.push_back(row_of("frame_own_p99", "ms", own, 0.99));
  result.rows.push_back(row_of("frame_own_median", "ms", own, 0.5));
  result.rows.push_back(row_of("frame_whole_median", "ms", whole, 0.5));
  result.rows.push_back(row_of("frame_whole_p99", "ms", whole, 0.99));
  return result;
}

}  // namespace phasescope::app
