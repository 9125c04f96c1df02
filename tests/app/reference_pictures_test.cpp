// Every view as it looks empty, busy, failed and full, light and dark: drawn in software and
// compared with the pictures of before, bit for bit, by their hashes. `./dev looks` shows what is
// different, `./dev looks --update` takes the new looks for right.
#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "app/views/jobs_view.h"
#include "app/window/commands.h"
#include "app/window/main_window.h"
#include "formats/sha256.h"
#include "tests/app/made_up_worker.h"
#include "tests/app/one_view.h"
#include "tests/widgets/headless_imgui.h"
#include "tests/widgets/soft_draw.h"
#include "widgets/heatmap.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using phasescope::testing::HeadlessImGui;
using phasescope::testing::Pictures;
using phasescope::testing::soft_drawn;

constexpr ImVec2 kSize{760, 520};
constexpr const char* kStates[] = {"empty", "busy", "failed", "full"};
constexpr const char* kThemes[] = {"light", "dark"};

// Of letters and all that goes with them; another one to look at, which nothing is compared with.
float scale_to_draw() {
  const char* scale = std::getenv("PHASESCOPE_LOOKS_SCALE");
  return scale ? std::stof(scale) : 1;
}
const fs::path kHashes = fs::path(PHASESCOPE_TEST_DATA) / "app" / "reference_pictures.txt";

// What decides how letters and curves look: two machines that differ in it draw different pictures.
// The C library's sines and exponentials take another path where the processor has FMA.
std::string letters() {
  std::string files;
  for (const char* font : {"/usr/share/fonts/opentype/inter/Inter-Regular.otf",
                           "/usr/share/fonts/opentype/inter/Inter-SemiBold.otf",
                           "/usr/share/fonts/truetype/jetbrains-mono/JetBrainsMono-Regular.ttf",
                           "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"}) {
    files += fs::exists(font) ? formats::sha256_of_file(font).substr(0, 8) + " " : "- ";
  }
  // The library that draws them, with its version, as it is loaded.
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (const auto at = line.find("libfreetype"); at != std::string::npos) {
      files += line.substr(at) + " ";
      break;
    }
  }
  return files + "glibc " + gnu_get_libc_version() +
         (__builtin_cpu_supports("fma") ? ", fma" : ", no fma");
}

struct Looks {
  std::string letters;
  std::map<std::string, std::string> hashes;  // by "view state theme"
};

Looks read_looks() {
  Looks looks;
  std::ifstream file(kHashes);
  std::getline(file, looks.letters);
  for (std::string line; std::getline(file, line);) {
    if (const auto end = line.rfind(' '); end != std::string::npos) {
      looks.hashes[line.substr(0, end)] = line.substr(end + 1);
    }
  }
  return looks;
}

std::string hash_of(const widgets::Image& image) {
  const auto* bytes = reinterpret_cast<const char*>(image.pixels.data());
  return formats::sha256_hex(std::string_view(bytes, image.pixels.size() * sizeof(widgets::Rgba)))
      .substr(0, 16);
}

class ReferencePictures : public ::testing::TestWithParam<std::string> {
 protected:
  ReferencePictures() {
    widgets::set_picture_taker([this](std::uint64_t id, widgets::Image image) {
      if (id == 0) id = kFirstPicture + pictures_.size();
      pictures_[id] = std::move(image);
      return id;
    });
  }
  ~ReferencePictures() override { widgets::set_picture_taker({}); }

  static Session session_in(const std::string& state, const std::string& view) {
    Session session = default_session();
    if (state == "empty") session.models.clear();
    if (state == "full") {
      session.views.set(JobsState{"jobs/tapa"});
      session.selection.query = 20, session.selection.key = 3;
      if (view == "intervene") add_reading(session);
    }
    return session;
  }

  // One view alone in a window, when it has come to rest.
  widgets::Image picture(const std::string& state, const std::string& theme) {
    HeadlessImGui gui(kSize);
    widgets::apply_theme(theme, scale_to_draw());
    pictures_.clear();
    MadeUpWorker link;
    if (state == "busy") link.set_manner("", MadeUpWorker::Manner::hold);
    if (state == "failed") {
      link.set_manner("", MadeUpWorker::Manner::fail);
      if (GetParam() != "models") link.set_manner("model.info", MadeUpWorker::Manner::answer);
    }
    Session session = session_in(state, GetParam());
    session.theme = theme;
    SessionHistory edit(std::move(session));
    WorkerRequests requests(link, link);
    WindowState window;
    window.may_ask = true;
    ViewContext context{edit, requests, window};
    const std::unique_ptr<View> view = view_named(GetParam());
    for (int frame = 0; frame < 10; ++frame) {
      gui.begin_frame(0.1F);
      requests.begin_frame();
      if (frame == 3) press_run(*view, context);
      // Progress is shown of what takes a while.
      if (frame == 6 && state == "busy") {
        std::this_thread::sleep_for(std::chrono::milliseconds(220));
      }
      ImGui::SetNextWindowPos({0, 0});
      ImGui::SetNextWindowSize(kSize);
      view->draw(context);
      gui.end_frame();
    }
    const ImVec4 ground = ImGui::GetStyleColorVec4(ImGuiCol_WindowBg);
    const auto part = [](float value) { return static_cast<std::uint8_t>(value * 255 + 0.5F); };
    return soft_drawn(*ImGui::GetDrawData(), {part(ground.x), part(ground.y), part(ground.z), 255},
                      pictures_);
  }

  static constexpr std::uint64_t kFirstPicture = 1000;
  Pictures pictures_;
};

// With PHASESCOPE_LOOKS set, pictures and hashes are written into that folder in place of being
// compared.
TEST_P(ReferencePictures, AreAsTheyWere) {
  const char* folder = std::getenv("PHASESCOPE_LOOKS");
  const Looks before = read_looks();
  if (!folder && before.letters != letters()) {
    GTEST_SKIP() << "letters look otherwise here: " << letters() << ", there " << before.letters;
  }
  for (const char* state : kStates) {
    for (const char* theme : kThemes) {
      const std::string name = GetParam() + " " + state + " " + theme;
      const widgets::Image now = picture(state, theme);
      if (!folder) {
        const auto found = before.hashes.find(name);
        EXPECT_EQ(hash_of(now), found == before.hashes.end() ? "none" : found->second)
            << name << " looks otherwise: ./dev looks shows how";
        continue;
      }
      std::string file = name + ".png";
      std::ranges::replace(file, ' ', '_');
      std::ofstream(fs::path(folder) / file, std::ios::binary) << widgets::png_of(now);
      std::ofstream(fs::path(folder) / "hashes.txt", std::ios::app)
          << name << " " << hash_of(now) << "\n";
      std::ofstream(fs::path(folder) / "letters.txt") << letters() << "\n";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReferencePictures, ::testing::ValuesIn(ids_of_views()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name;
                         });

// --- the drawing itself --------------------------------------------------------------------------

// A rectangle covers the pixels whose middle is in it, two that share an edge leave no gap and no
// pixel twice, and half of a colour is half of it.
TEST(SoftDraw, CoversEachPixelOnce) {
  HeadlessImGui gui({16, 12});
  gui.begin_frame();
  ImDrawList* list = ImGui::GetForegroundDrawList();
  list->Flags = ImDrawListFlags_None;
  list->AddRectFilled({2, 3}, {7, 9}, IM_COL32(255, 0, 0, 128));
  list->AddRectFilled({7, 3}, {11, 9}, IM_COL32(255, 0, 0, 128));
  gui.end_frame();
  const auto image = soft_drawn(*ImGui::GetDrawData(), {0, 0, 255, 255}, {});
  for (int y = 0; y < 12; ++y) {
    for (int x = 0; x < 16; ++x) {
      const bool inside = x >= 2 && x < 11 && y >= 3 && y < 9;
      const widgets::Rgba expected =
          inside ? widgets::Rgba{128, 0, 127, 255} : widgets::Rgba{0, 0, 255, 255};
      EXPECT_EQ(image.pixels[static_cast<std::size_t>(y) * 16 + x], expected) << x << "," << y;
    }
  }
}

// A picture drawn at its own size is itself.
TEST(SoftDraw, DrawsAPictureAsItIs) {
  widgets::Image picture{3, 2, {}};
  for (std::uint8_t i = 0; i < 6; ++i) picture.pixels.push_back({i, 10, 20, 255});
  HeadlessImGui gui({8, 8});
  gui.begin_frame();
  ImGui::GetForegroundDrawList()->AddImage(static_cast<ImTextureID>(77), {1, 2}, {4, 4});
  gui.end_frame();
  const auto image = soft_drawn(*ImGui::GetDrawData(), {}, {{77, picture}});
  for (int y = 0; y < 2; ++y) {
    for (int x = 0; x < 3; ++x) {
      EXPECT_EQ(image.pixels[static_cast<std::size_t>(y + 2) * 8 + x + 1],
                picture.pixels[static_cast<std::size_t>(y) * 3 + x]);
    }
  }
}

}  // namespace
}  // namespace phasescope::app
