#pragma once

// Dear ImGui's compile-time settings, shared by every file that includes it (IMGUI_USER_CONFIG).

#define IMGUI_USE_WCHAR32
#define IMGUI_ENABLE_FREETYPE
#define IMGUI_DISABLE_OBSOLETE_FUNCTIONS
#define ImDrawIdx unsigned int
