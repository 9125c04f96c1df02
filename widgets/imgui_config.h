#pragma once

// Dear ImGui's compile-time settings, shared by every file that includes it (IMGUI_USER_CONFIG).

#define IMGUI_USE_WCHAR32
#define IMGUI_ENABLE_FREETYPE
#define IMGUI_DISABLE_OBSOLETE_FUNCTIONS
#define ImDrawIdx unsigned int

// Dear ImGui and ImPlot take an estimate of 1 / sqrt(x) for the edges of lines, in which processors
// of different makers differ in the last bits: the same data would be other pictures.
#if defined(__x86_64__)
#include <immintrin.h>
#define _mm_rsqrt_ss(x) _mm_div_ss(_mm_set_ss(1.0F), _mm_sqrt_ss(x))
#endif
