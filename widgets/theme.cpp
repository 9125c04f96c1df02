#include "widgets/theme.h"

#include <fcntl.h>
#include <implot.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

namespace phasescope::widgets {
namespace {

// What letters of the window's size need against what they stand on (WCAG 2.1, 1.4.3).
constexpr double kLeastContrast = 4.5;

struct State {
  Fonts fonts;
  Palette palette;
  std::vector<ImVec4> series_texts;
  bool dark = false;
};

State& state() {
  static State one;
  return one;
}

constexpr std::initializer_list<const char*> kTextFiles = {
    "/usr/share/fonts/opentype/inter/Inter-Regular.otf",
    "/usr/share/fonts/truetype/inter/Inter-Regular.ttf",
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf"};
constexpr std::initializer_list<const char*> kBoldFiles = {
    "/usr/share/fonts/opentype/inter/Inter-SemiBold.otf",
    "/usr/share/fonts/truetype/inter/Inter-SemiBold.ttf",
    "/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf",
    "/usr/share/fonts/TTF/DejaVuSans-Bold.ttf"};
constexpr std::initializer_list<const char*> kMonoFiles = {
    "/usr/share/fonts/truetype/jetbrains-mono/JetBrainsMono-Regular.ttf",
    "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf",
    "/usr/share/fonts/TTF/DejaVuSansMono.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationMono-Regular.ttf"};
constexpr std::initializer_list<const char*> kScriptFiles = {
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/noto/NotoSansHebrew-Regular.ttf",
    "/usr/share/fonts/truetype/noto/NotoSansArabic-Regular.ttf",
    "/usr/share/fonts/truetype/noto/NotoSansDevanagari-Regular.ttf",
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
    "/usr/share/fonts/truetype/noto/NotoSansSymbols2-Regular.ttf"};

// The file's bytes stay mapped as long as the program runs: the atlas reads glyphs from them later.
std::pair<void*, int> mapped(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {nullptr, 0};
  struct stat info {};
  void* bytes = nullptr;
  if (fstat(file, &info) == 0 && info.st_size > 0) {
    bytes = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED) bytes = nullptr;
  }
  close(file);
  return {bytes, static_cast<int>(info.st_size)};
}

ImFont* add_font(const char* path, float size, bool merge) {
  const auto [bytes, length] = mapped(path);
  if (!bytes) return nullptr;
  ImFontConfig config;
  config.FontDataOwnedByAtlas = false;
  config.MergeMode = merge;
  return ImGui::GetIO().Fonts->AddFontFromMemoryTTF(bytes, length, size, &config);
}

ImFont* first_font(std::initializer_list<const char*> files, float size) {
  for (const char* file : files) {
    ImFont* font = add_font(file, size, false);
    if (!font) continue;
    for (const char* script : kScriptFiles) add_font(script, size, true);
    return font;
  }
  return ImGui::GetIO().Fonts->AddFontDefault();
}

ImVec4 rgb(unsigned hex, float alpha = 1.0F) {
  return {static_cast<float>(hex >> 16 & 255) / 255, static_cast<float>(hex >> 8 & 255) / 255,
          static_cast<float>(hex & 255) / 255, alpha};
}

// Those of WCAG 2.1: relative luminance, and the contrast of two colours.
double luminance(const ImVec4& color) {
  const auto linear = [](double part) {
    return part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.x) + 0.7152 * linear(color.y) + 0.0722 * linear(color.z);
}

double contrast(const ImVec4& a, const ImVec4& b) {
  const auto [low, high] = std::minmax({luminance(a), luminance(b)});
  return (high + 0.05) / (low + 0.05);
}

ImVec4 mixed(const ImVec4& a, const ImVec4& b, float part) {
  return {a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part, a.z + (b.z - a.z) * part, 1};
}

struct Shades {
  unsigned back, panel, raised, input, text, quiet, rule, accent;
};
constexpr Shades kLight{0xf6f7f9, 0xffffff, 0xeef0f4, 0xf1f3f6,
                        0x1b1e25, 0x5a606e, 0xdadee6, 0x2561a4};
constexpr Shades kDark{0x14161b, 0x1b1e25, 0x262a34, 0x242833,
                       0xe4e7ee, 0x9fa6b4, 0x343a47, 0x69aaec};

void set_colors(const Shades& s) {
  ImVec4* c = ImGui::GetStyle().Colors;
  c[ImGuiCol_Text] = rgb(s.text);
  c[ImGuiCol_TextDisabled] = rgb(s.quiet);
  c[ImGuiCol_WindowBg] = rgb(s.panel);
  c[ImGuiCol_ChildBg] = rgb(s.panel, 0);
  c[ImGuiCol_PopupBg] = rgb(s.panel);
  c[ImGuiCol_Border] = rgb(s.rule);
  c[ImGuiCol_FrameBg] = rgb(s.input);
  c[ImGuiCol_FrameBgHovered] = rgb(s.raised);
  c[ImGuiCol_FrameBgActive] = rgb(s.raised);
  c[ImGuiCol_TitleBg] = c[ImGuiCol_TitleBgActive] = c[ImGuiCol_TitleBgCollapsed] = rgb(s.back);
  c[ImGuiCol_MenuBarBg] = rgb(s.back);
  c[ImGuiCol_DockingEmptyBg] = rgb(s.back);
  c[ImGuiCol_ScrollbarBg] = rgb(s.panel, 0);
  c[ImGuiCol_ScrollbarGrab] = rgb(s.rule);
  c[ImGuiCol_Button] = rgb(s.raised);
  c[ImGuiCol_ButtonHovered] = rgb(s.accent, 0.22F);
  c[ImGuiCol_ButtonActive] = rgb(s.accent, 0.35F);
  c[ImGuiCol_Header] = rgb(s.accent, 0.16F);
  c[ImGuiCol_HeaderHovered] = rgb(s.accent, 0.22F);
  c[ImGuiCol_HeaderActive] = rgb(s.accent, 0.30F);
  c[ImGuiCol_Separator] = rgb(s.rule);
  c[ImGuiCol_SeparatorHovered] = c[ImGuiCol_SeparatorActive] = rgb(s.accent, 0.6F);
  c[ImGuiCol_ResizeGrip] = rgb(s.rule, 0);
  c[ImGuiCol_CheckMark] = c[ImGuiCol_SliderGrab] = c[ImGuiCol_SliderGrabActive] = rgb(s.accent);
  c[ImGuiCol_Tab] = c[ImGuiCol_TabDimmed] = rgb(s.back);
  c[ImGuiCol_TabSelected] = c[ImGuiCol_TabDimmedSelected] = rgb(s.panel);
  c[ImGuiCol_TabHovered] = rgb(s.raised);
  c[ImGuiCol_TabSelectedOverline] = rgb(s.accent);
  c[ImGuiCol_TabDimmedSelectedOverline] = rgb(s.rule);
  c[ImGuiCol_PlotHistogram] = rgb(s.accent);
  c[ImGuiCol_TableHeaderBg] = rgb(s.raised);
  c[ImGuiCol_TableBorderLight] = c[ImGuiCol_TableBorderStrong] = rgb(s.rule);
  c[ImGuiCol_TableRowBgAlt] = rgb(s.raised, 0.35F);
  c[ImGuiCol_TextSelectedBg] = rgb(s.accent, 0.30F);
  c[ImGuiCol_NavCursor] = rgb(s.accent);
  c[ImGuiCol_ModalWindowDimBg] = rgb(0x000000, 0.35F);
}

void set_plot_look(const Shades& s, float scale) {
  ImPlotStyle& style = ImPlot::GetStyle();
  ImVec4* c = style.Colors;
  c[ImPlotCol_FrameBg] = rgb(s.panel, 0);
  c[ImPlotCol_PlotBg] = rgb(s.panel);
  c[ImPlotCol_PlotBorder] = rgb(s.rule);
  c[ImPlotCol_AxisText] = rgb(s.text);
  c[ImPlotCol_AxisGrid] = rgb(s.rule, 0.8F);
  c[ImPlotCol_AxisTick] = rgb(s.rule);
  c[ImPlotCol_InlayText] = rgb(s.text);
  c[ImPlotCol_Crosshairs] = rgb(s.quiet, 0.8F);
  style.PlotPadding = style.LabelPadding = style.MajorTickLen = {4 * scale, 4 * scale};
  style.MinorTickLen = {2 * scale, 2 * scale};
  style.MinorAlpha = 0.0F;
}

// What coloured words stand on: the window's ground and panels, and rows that are lit.
std::vector<ImVec4> grounds_of_words(const Shades& s) {
  const ImVec4 panel = rgb(s.panel), accent = rgb(s.accent);
  return {rgb(s.back), panel, rgb(s.raised), rgb(s.input), mixed(panel, accent, 0.22F)};
}

// The colour of a model's curves, as far towards that of words as its name needs to be read.
ImVec4 readable(const ImVec4& color, const Shades& s) {
  const std::vector<ImVec4> grounds = grounds_of_words(s);
  constexpr int kSteps = 64;
  for (int step = 0; step < kSteps; ++step) {
    const ImVec4 tried = mixed(color, rgb(s.text), static_cast<float>(step) / kSteps);
    const auto legible = [&](const ImVec4& on) { return contrast(tried, on) >= kLeastContrast; };
    if (std::ranges::all_of(grounds, legible)) return tried;
  }
  return rgb(s.text);
}

void set_shape(float scale) {
  ImGuiStyle& style = ImGui::GetStyle();
  style.WindowPadding = {10, 8};
  style.FramePadding = {8, 4};
  style.ItemSpacing = {8, 6};
  style.CellPadding = {6, 3};
  style.WindowRounding = 0;
  style.FrameRounding = style.GrabRounding = 4;
  style.PopupRounding = 6;
  style.TabRounding = 3;
  style.ScrollbarSize = 11;
  style.ScrollbarRounding = 6;
  style.WindowBorderSize = style.PopupBorderSize = 1;
  style.FrameBorderSize = 1;
  style.TabBarOverlineSize = 2;
  style.DockingSeparatorSize = 3;
  style.WindowMenuButtonPosition = ImGuiDir_Left;
  style.ScaleAllSizes(scale);
  style.FontScaleDpi = scale;
}

}  // namespace

Fonts load_fonts(float size) {
  Fonts& loaded = state().fonts;
  loaded.text = first_font(kTextFiles, size);
  loaded.bold = first_font(kBoldFiles, size);
  loaded.mono = first_font(kMonoFiles, size);
  ImGui::GetIO().FontDefault = loaded.text;
  return loaded;
}

const Fonts& fonts() { return state().fonts; }

void apply_theme(const std::string& name, float scale) {
  State& s = state();
  s.dark = name == "dark";
  const Shades& shades = s.dark ? kDark : kLight;
  ImGui::GetStyle() = ImGuiStyle();
  s.dark ? ImGui::StyleColorsDark() : ImGui::StyleColorsLight();
  set_shape(scale);
  set_colors(shades);
  if (ImPlot::GetCurrentContext()) set_plot_look(shades, scale);
  s.palette = {rgb(shades.quiet),
               rgb(shades.accent),
               rgb(s.dark ? 0x53c28b : 0x1d6d47),
               rgb(s.dark ? 0xee8995 : 0xb3263b),
               rgb(s.dark ? 0xe0b050 : 0x815807),
               rgb(shades.raised),
               rgb(shades.rule)};
  s.series_texts.clear();
  for (int i = 0; i < series_count(); ++i) {
    s.series_texts.push_back(readable(series_vec(i), shades));
  }
}

bool is_dark() { return state().dark; }
const Palette& palette() { return state().palette; }

ImVec4 color_vec(Rgba color, float alpha) {
  return {color.r / 255.F, color.g / 255.F, color.b / 255.F, alpha};
}

ImU32 color_u32(Rgba color, float alpha) {
  return ImGui::ColorConvertFloat4ToU32(color_vec(color, alpha));
}

ImVec4 series_vec(int index, float alpha) {
  ImVec4 color = color_vec(series_color(index), alpha);
  if (!state().dark) return color;
  // On a dark ground the same hues need more light.
  for (float* part : {&color.x, &color.y, &color.z}) *part += (1.0F - *part) * 0.25F;
  return color;
}

ImVec4 series_text(int index) {
  const auto& texts = state().series_texts;
  if (texts.empty()) return series_vec(index);
  const int count = static_cast<int>(texts.size());
  return texts[static_cast<std::size_t>(((index % count) + count) % count)];
}

}  // namespace phasescope::widgets
