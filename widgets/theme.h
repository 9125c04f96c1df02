#pragma once

#include <imgui.h>

#include <string>

#include "widgets/colormap.h"

namespace phasescope::widgets {

// The fonts of the window; all may be the same one where the system has few.
struct Fonts {
  ImFont* text = nullptr;
  ImFont* bold = nullptr;
  ImFont* mono = nullptr;
};

// Loads Inter and JetBrains Mono where they are installed, else DejaVu, else ImGui's own, with the
// scripts of the installed Noto fonts merged in. Files are mapped and glyphs drawn when first used,
// so that nothing is paid for what is not shown. Call once for each ImGui context.
Fonts load_fonts(float size = 15.0F);
const Fonts& fonts();

// "light" or "dark"; anything else is light. Sets ImGui's and ImPlot's colours, scaled for HiDPI.
void apply_theme(const std::string& name, float scale = 1.0F);
bool is_dark();

// Colours that carry meaning, readable on the present theme.
struct Palette {
  ImVec4 quiet;   // secondary text
  ImVec4 accent;  // selection, links
  ImVec4 good, bad, warn;
  ImVec4 panel;  // a raised strip
  ImVec4 rule;
};
const Palette& palette();

ImVec4 color_vec(Rgba color, float alpha = 1.0F);
ImU32 color_u32(Rgba color, float alpha = 1.0F);
// The colour of a model's curves on the present theme.
ImVec4 series_vec(int index, float alpha = 1.0F);
// The colour of a model's name: nearer to the text's, as far as reading it needs.
ImVec4 series_text(int index);

}  // namespace phasescope::widgets
