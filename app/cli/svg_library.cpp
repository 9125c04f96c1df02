// SVG to PDF and PNG by librsvg and cairo, which are opened when the first figure is converted:
// neither the program's start nor a machine without them pays for it.
#include <dlfcn.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "app/cli/output.h"
#include "formats/error.h"

namespace phasescope::app {
namespace {

// What is used of the libraries' interfaces, as their manuals declare it (librsvg 2.52 and later,
// cairo 1.16 and later). Both keep them stable within the version that the file names say.
struct Rectangle {
  double x, y, width, height;
};
struct Problem {  // a GError
  unsigned domain;
  int code;
  char* message;
};
using Handle = void;
using Surface = void;
using Context = void;
using WriteBytes = int (*)(void* closure, const unsigned char* bytes, unsigned length);
constexpr int kArgb32 = 0, kCreationDate = 5;
constexpr double kPointsOfPixel = 72.0 / 96.0;

class Libraries {
 public:
  explicit Libraries(const std::string& rsvg) {
    rsvg_ = dlopen(rsvg.c_str(), RTLD_NOW | RTLD_LOCAL);
    cairo_ = dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
    gobject_ = dlopen("libgobject-2.0.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!rsvg_ || !cairo_ || !gobject_) return;
    there_ = true;
    find(rsvg_, "rsvg_handle_new_from_data", new_from_data);
    find(rsvg_, "rsvg_handle_set_dpi", set_dpi);
    find(rsvg_, "rsvg_handle_get_intrinsic_size_in_pixels", size_in_pixels);
    find(rsvg_, "rsvg_handle_render_document", render);
    find(gobject_, "g_object_unref", unref);
    find(cairo_, "cairo_pdf_surface_create_for_stream", pdf_surface);
    find(cairo_, "cairo_pdf_surface_set_metadata", set_metadata);
    find(cairo_, "cairo_image_surface_create", image_surface);
    find(cairo_, "cairo_surface_write_to_png_stream", write_png);
    find(cairo_, "cairo_surface_finish", finish);
    find(cairo_, "cairo_surface_status", surface_status);
    find(cairo_, "cairo_surface_destroy", destroy_surface);
    find(cairo_, "cairo_create", create);
    find(cairo_, "cairo_scale", scale);
    find(cairo_, "cairo_destroy", destroy);
  }
  bool there() const { return there_; }

  Handle* (*new_from_data)(const unsigned char*, std::size_t, Problem**) = nullptr;
  void (*set_dpi)(Handle*, double) = nullptr;
  int (*size_in_pixels)(Handle*, double*, double*) = nullptr;
  int (*render)(Handle*, Context*, const Rectangle*, Problem**) = nullptr;
  void (*unref)(void*) = nullptr;
  Surface* (*pdf_surface)(WriteBytes, void*, double, double) = nullptr;
  void (*set_metadata)(Surface*, int, const char*) = nullptr;
  Surface* (*image_surface)(int, int, int) = nullptr;
  int (*write_png)(Surface*, WriteBytes, void*) = nullptr;
  void (*finish)(Surface*) = nullptr;
  int (*surface_status)(Surface*) = nullptr;
  void (*destroy_surface)(Surface*) = nullptr;
  Context* (*create)(Surface*) = nullptr;
  void (*scale)(Context*, double, double) = nullptr;
  void (*destroy)(Context*) = nullptr;

 private:
  template <class Function>
  void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    there_ = there_ && function;
  }

  void *rsvg_ = nullptr, *cairo_ = nullptr, *gobject_ = nullptr;
  bool there_ = false;
};

// They stay open: GLib cannot be unloaded. PHASESCOPE_LIBRSVG names the library where it lies in an
// unusual place. Figures are written beside the window, in threads of their own.
const Libraries& libraries() {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<const Libraries>> opened;
  const char* chosen = std::getenv("PHASESCOPE_LIBRSVG");
  const std::string name = chosen ? chosen : "librsvg-2.so.2";
  const std::lock_guard lock(mutex);
  auto& library = opened[name];
  if (!library) library = std::make_unique<const Libraries>(name);
  return *library;
}

int append(void* closure, const unsigned char* bytes, unsigned length) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(bytes), length);
  return 0;
}

formats::Error not_drawn(const std::string& why) {
  return formats::internal_error("librsvg could not draw the figure: " + why);
}

void require(bool done, const Problem* problem, const char* what) {
  if (!done) throw not_drawn(problem ? problem->message : what);
}

// Draws the whole picture, so large, on the surface.
void draw(Handle* picture, Surface* surface, double zoom, Rectangle page) {
  const Libraries& library = libraries();
  const std::unique_ptr<Context, void (*)(Context*)> context(library.create(surface),
                                                             library.destroy);
  library.scale(context.get(), zoom, zoom);
  Problem* problem = nullptr;
  require(library.render(picture, context.get(), &page, &problem), problem, "no reason given");
}

}  // namespace

bool can_convert_svg() { return libraries().there(); }

std::string convert_svg(const std::string& svg, const std::string& format, double zoom) {
  const Libraries& library = libraries();
  if (!library.there()) {
    throw formats::bad_input("PDF and PNG figures need the library librsvg", "",
                             "apt install librsvg2-2, or write SVG");
  }
  Problem* problem = nullptr;
  const std::unique_ptr<Handle, void (*)(void*)> picture(
      library.new_from_data(reinterpret_cast<const unsigned char*>(svg.data()), svg.size(),
                            &problem),
      library.unref);
  require(picture != nullptr, problem, "it is no SVG");
  library.set_dpi(picture.get(), 96);
  Rectangle page{0, 0, 0, 0};
  require(library.size_in_pixels(picture.get(), &page.width, &page.height), nullptr,
          "it has no size");
  const bool pdf = format == "pdf";
  std::string bytes;
  const std::unique_ptr<Surface, void (*)(Surface*)> surface(
      pdf ? library.pdf_surface(append, &bytes, page.width * kPointsOfPixel,
                                page.height * kPointsOfPixel)
          : library.image_surface(kArgb32, static_cast<int>(std::ceil(page.width * zoom)),
                                  static_cast<int>(std::ceil(page.height * zoom))),
      library.destroy_surface);
  // Two exports of the same figure are the same bytes.
  if (pdf) library.set_metadata(surface.get(), kCreationDate, "1970-01-01T00:00:00+00:00");
  draw(picture.get(), surface.get(), pdf ? kPointsOfPixel : zoom, page);
  if (!pdf) require(library.write_png(surface.get(), append, &bytes) == 0, nullptr, "no PNG");
  library.finish(surface.get());
  require(library.surface_status(surface.get()) == 0, nullptr, "the surface has failed");
  return bytes;
}

}  // namespace phasescope::app
