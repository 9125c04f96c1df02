#pragma once
// What Dear ImGui drew in a frame as pixels, by no graphics library: whole numbers decide which
// pixels a triangle covers and how colours mix, so that every machine gets the same picture.
#include <imgui.h>

#include <cstdint>
#include <map>

#include "widgets/map_image.h"

namespace phasescope::testing {

// Textures that are no font's: pictures of maps, by the id that they are drawn by.
using Pictures = std::map<std::uint64_t, widgets::Image>;

// `data` as HeadlessImGui::end_frame() left it, on `ground`. A texture that is neither a font's nor
// among `pictures` is drawn as its vertices' colours alone.
widgets::Image soft_drawn(const ImDrawData& data, widgets::Rgba ground, const Pictures& pictures);

}  // namespace phasescope::testing
