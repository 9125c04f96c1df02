#include "widgets/heatmap.h"

#include <glad/gl.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "widgets/map_colors.h"
#include "widgets/theme.h"

namespace phasescope::widgets {
namespace {

// Finite marks that survive every driver, where inf and NaN may not.
constexpr float kMaskMark = -3.0e38F;
constexpr float kNotFiniteMark = 3.0e38F;

// On the screen the masked half of a map is paler than in a file.
constexpr Rgba kMaskedInLight{0xdc, 0xdd, 0xe2, 255};

constexpr const char* kVertexSource = R"(#version 330 core
void main() {  // one triangle that covers the target
  vec2 corner = vec2((gl_VertexID << 1) & 2, gl_VertexID & 2);
  gl_Position = vec4(corner * 2.0 - 1.0, 0.0, 1.0);
})";

constexpr const char* kFragmentSource = R"(#version 330 core
uniform sampler2D values;
uniform sampler2D table;   // 256 colours
uniform vec2 range;        // low, high
uniform float decades;     // above 0: log scale
uniform vec4 masked;
uniform vec4 not_finite;
out vec4 color;
void main() {
  float value = texelFetch(values, ivec2(gl_FragCoord.xy), 0).r;
  if (value < -2.9e38) { color = masked; return; }
  if (value > 2.9e38) { color = not_finite; return; }
  float t = range.y > range.x ? (value - range.x) / (range.y - range.x) : 0.5;
  if (decades > 0.0) t = 1.0 + log(max(value, 1e-37) / range.y) / log(10.0) / decades;
  color = texelFetch(table, ivec2(int(clamp(t, 0.0, 1.0) * 255.0 + 0.5), 0), 0);
})";

unsigned compiled(unsigned kind, const char* source) {
  const unsigned shader = glCreateShader(kind);
  glShaderSource(shader, 1, &source, nullptr);
  glCompileShader(shader);
  int done = 0;
  glGetShaderiv(shader, GL_COMPILE_STATUS, &done);
  if (done) return shader;
  char log[1024] = "";
  glGetShaderInfoLog(shader, sizeof log, nullptr, log);
  throw std::runtime_error(std::string("the heatmap's shader does not compile: ") + log);
}

unsigned new_texture() {
  unsigned texture = 0;
  glGenTextures(1, &texture);
  glBindTexture(GL_TEXTURE_2D, texture);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
  return texture;
}

// The shader and its colour tables; made with the first heatmap, gone with the context.
struct Painter {
  unsigned program = 0, vertex_array = 0;
  unsigned tables[2][3] = {};  // by ground and map

  Painter() {
    program = glCreateProgram();
    glAttachShader(program, compiled(GL_VERTEX_SHADER, kVertexSource));
    glAttachShader(program, compiled(GL_FRAGMENT_SHADER, kFragmentSource));
    glLinkProgram(program);
    glGenVertexArrays(1, &vertex_array);
    for (const Ground ground : {Ground::light, Ground::dark}) {
      for (int map = 0; map < 3; ++map) {
        tables[static_cast<int>(ground)][map] = new_texture();
        const auto colors = color_table(static_cast<Colormap>(map), ground);
        glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, 256, 1, 0, GL_RGBA, GL_UNSIGNED_BYTE,
                     colors.data());
      }
    }
  }

  int place(const char* name) const { return glGetUniformLocation(program, name); }
};

Painter& painter() {
  static Painter one;
  return one;
}

void set_color(int place, Rgba color) {
  glUniform4f(place, color.r / 255.F, color.g / 255.F, color.b / 255.F, 1.F);
}

PictureTaker& picture_taker() {
  static PictureTaker one;
  return one;
}

}  // namespace

void set_picture_taker(PictureTaker taker) { picture_taker() = std::move(taker); }

bool has_gl() { return glad_glCreateProgram != nullptr; }

HeatmapTexture::~HeatmapTexture() { release(); }

void HeatmapTexture::release() {
  if (!has_gl()) return;
  if (float_texture_) glDeleteTextures(1, &float_texture_);
  if (color_texture_) glDeleteTextures(1, &color_texture_);
  if (framebuffer_) glDeleteFramebuffers(1, &framebuffer_);
  float_texture_ = color_texture_ = framebuffer_ = 0;
}

void HeatmapTexture::set_values(int rows, int cols, std::vector<float>&& values) {
  if (rows < 0 || cols < 0 || values.size() != static_cast<std::size_t>(rows) * cols) {
    throw std::invalid_argument("a heatmap needs rows * cols values");
  }
  rows_ = rows, cols_ = cols;
  values_ = std::move(values);
  for (float& value : values_) {
    if (value == kMaskedCell) {
      value = kMaskMark;
    } else if (!std::isfinite(value)) {
      value = kNotFiniteMark;
    }
  }
  values_changed_ = true;
}

std::uint64_t HeatmapTexture::colored(const MapSpec& look) {
  if (rows_ == 0 || cols_ == 0 || (!has_gl() && !picture_taker())) return 0;
  const Look wanted{look.colormap, drawn_range(look.colormap, look.range), look.log_decades,
                    is_dark()};
  look_changed_ = look_changed_ || wanted != look_;
  look_ = wanted;
  if (!has_gl()) return taken();
  if (values_changed_) upload();
  if (look_changed_) render();
  return color_texture_;
}

// The shader's colours, by the processor.
std::uint64_t HeatmapTexture::taken() {
  if (taken_ && !values_changed_ && !look_changed_) return taken_;
  const auto table = color_table(look_.colormap, look_.dark ? Ground::dark : Ground::light);
  MapSpec map;
  map.colormap = look_.colormap, map.range = look_.range, map.log_decades = look_.log_decades;
  Image picture{cols_, rows_, {}};
  for (const float value : values_) {
    const double place = std::clamp(scale_place(map, static_cast<double>(value)), 0.0, 1.0);
    picture.pixels.push_back(value == kMaskMark ? look_.dark ? kMaskedOnDark : kMaskedInLight
                             : value == kNotFiniteMark
                                 ? kNotFiniteColor
                                 : table[static_cast<std::size_t>(place * 255 + 0.5)]);
  }
  values_changed_ = look_changed_ = false;
  return taken_ = picture_taker()(taken_, std::move(picture));
}

void HeatmapTexture::upload() {
  if (!float_texture_) float_texture_ = new_texture();
  if (!color_texture_) color_texture_ = new_texture();
  if (!framebuffer_) glGenFramebuffers(1, &framebuffer_);
  glPixelStorei(GL_UNPACK_ALIGNMENT, 4);
  glBindTexture(GL_TEXTURE_2D, float_texture_);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_R32F, cols_, rows_, 0, GL_RED, GL_FLOAT, values_.data());
  glBindTexture(GL_TEXTURE_2D, color_texture_);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, cols_, rows_, 0, GL_RGBA, GL_UNSIGNED_BYTE, nullptr);
  std::vector<float>().swap(values_);
  values_changed_ = false, look_changed_ = true;
}

void HeatmapTexture::render() {
  Painter& paint = painter();
  int before = 0;
  glGetIntegerv(GL_FRAMEBUFFER_BINDING, &before);
  glBindFramebuffer(GL_FRAMEBUFFER, framebuffer_);
  glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, color_texture_, 0);
  glViewport(0, 0, cols_, rows_);
  glDisable(GL_BLEND), glDisable(GL_SCISSOR_TEST), glDisable(GL_DEPTH_TEST);
  glUseProgram(paint.program);
  glActiveTexture(GL_TEXTURE1);
  glBindTexture(GL_TEXTURE_2D, paint.tables[look_.dark][static_cast<int>(look_.colormap)]);
  glActiveTexture(GL_TEXTURE0);
  glBindTexture(GL_TEXTURE_2D, float_texture_);
  glUniform1i(paint.place("values"), 0);
  glUniform1i(paint.place("table"), 1);
  glUniform2f(paint.place("range"), static_cast<float>(look_.range.low),
              static_cast<float>(look_.range.high));
  glUniform1f(paint.place("decades"), static_cast<float>(look_.log_decades));
  set_color(paint.place("masked"), look_.dark ? kMaskedOnDark : kMaskedInLight);
  set_color(paint.place("not_finite"), kNotFiniteColor);
  glBindVertexArray(paint.vertex_array);
  glDrawArrays(GL_TRIANGLES, 0, 3);
  glBindVertexArray(0);
  glUseProgram(0);
  glBindFramebuffer(GL_FRAMEBUFFER, static_cast<unsigned>(before));
  look_changed_ = false;
}

}  // namespace phasescope::widgets
