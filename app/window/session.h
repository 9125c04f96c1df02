#pragma once
// What the window shows, as one value. Only commands and edits (session_history.h) change it; undo,
// linked selection, saved sessions and the equivalent command lines all come from it.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/figures/model_names.h"
#include "app/window/view_states.h"
#include "protocol/head_name.h"
#include "protocol/json_form.h"
#include "widgets/hover.h"

namespace phasescope::app {

// A text that is never changed, so that copies share it: every step of undo keeps a session, and
// every question about a text names it.
class SharedText {
 public:
  SharedText() : SharedText(std::string()) {}
  SharedText(std::string text);  // NOLINT: a text is one wherever it is given
  SharedText(const char* text) : SharedText(std::string(text)) {}  // NOLINT
  const std::string& str() const { return *text_; }
  bool empty() const { return text_->empty(); }
  // Differs between any two texts that were made apart.
  std::uint64_t serial() const { return serial_; }
  bool operator==(const SharedText& other) const {
    return text_ == other.text_ || *text_ == *other.text_;
  }

 private:
  std::shared_ptr<const std::string> text_;
  std::uint64_t serial_;
};

struct TextInput {
  static constexpr const char* kBundled = "default.txt";
  static constexpr const char* kTyped = "typed";
  static constexpr const char* kSample = "sample ";
  std::string name = kBundled;  // a file's absolute path, kTyped, or "sample addition:7"
  SharedText words;
  std::int64_t length = 0;  // tokens read at most; 0: the model's trained context
  template <class V>
  void fields(V& v) {
    v("name", name), v("words", words), v("length", length);
  }
  // Nobody chose it: the text that the program opens on.
  bool untouched() const { return name == kBundled; }
  // "addition:7" of a sample of a task, nothing of another text.
  static std::string sample_in(const std::string& name) {
    const std::string begin = kSample;
    return name.starts_with(begin) ? name.substr(begin.size()) : "";
  }
  bool operator==(const TextInput&) const = default;
};

// What every view marks: a head (-1: the mean of the layer's heads), a pair of tokens, a distance
// between tokens, a position in a sequence of whichever text.
struct Selection {
  std::int64_t model = 0, layer = 0, head = 0;
  std::optional<std::int64_t> query, key;
  std::optional<std::int64_t> distance = {}, position = {};
  // Whose head of an encoder-decoder it is: "dec" (also where it is empty), "enc" or "cross".
  std::string stack = {};
  template <class V>
  void fields(V& v) {
    v("model", model), v("layer", layer), v("head", head), v("query", query), v("key", key);
    v("distance", distance), v("position", position), v("stack", stack);
  }
  bool operator==(const Selection&) const = default;
};
// The selection as axes of figures are marked by it; the query is the token that is selected.
widgets::Hover marks_of(const Selection& selection);

// The part of the text on show: queries [row_begin, row_end) and keys [col_begin, col_end); an end
// of 0 means all of them.
struct Region {
  std::int64_t row_begin = 0, row_end = 0, col_begin = 0, col_end = 0;
  template <class V>
  void fields(V& v) {
    v("row_begin", row_begin), v("row_end", row_end), v("col_begin", col_begin);
    v("col_end", col_end);
  }
  bool operator==(const Region&) const = default;
};

// What models are computed in, by what and where; requests have the same by default.
struct Computing {
  std::string dtype = "auto", backend = "fused", device;  // device: empty for the worker's
  template <class V>
  void fields(V& v) {
    v("dtype", dtype), v("backend", backend), v("device", device);
  }
  bool operator==(const Computing&) const = default;
  // Into a request that opens or runs a model, where it says nothing else itself.
  template <class Request>
  void put(Request& request) const {
    if constexpr (requires { request.running.dtype; }) {
      put_into(request.running, Request{}.running);
    } else if constexpr (requires { request.opening.dtype; }) {
      put_into(request.opening, Request{}.opening);
    }
  }

 private:
  template <class Part>
  void put_into(Part& part, const Part& unset) const {
    if (dtype != Computing{}.dtype && part.dtype == unset.dtype) part.dtype = dtype;
    if (!device.empty() && part.device == unset.device) part.device = device;
    if constexpr (requires { part.backend; }) {
      if (backend != Computing{}.backend && part.backend == unset.backend) part.backend = backend;
    }
  }
};

struct Session {
  static constexpr std::int64_t kVersion = 3;
  std::int64_t version = kVersion;
  // In the order opened; folders and files by their absolute path.
  std::vector<std::string> models;
  // Whose each colour is: a model keeps its own while others come and go. "": no open model's.
  std::vector<std::string> colors;
  TextInput text;
  Computing computing;
  Selection selection;
  Region region;
  ViewStates views;
  std::vector<std::string> recent;  // paths of models that were opened, newest first
  std::string theme = "light";
  // How large letters and all else are, times the display's own scale; 0.75 to 3.
  double scale = 1;
  std::vector<std::string> closed_views;  // ids; all others are open
  std::string layout;                     // Dear ImGui's own text; empty: the default layout
  template <class V>
  void fields(V& v) {
    v("version", version), v("models", models), v("colors", colors), v("text", text),
        v("computing", computing);
    v("selection", selection);
    v("region", region), v("views", views), v("recent", recent), v("theme", theme);
    v("scale", scale);
    v("closed_views", closed_views), v("layout", layout);
  }
  bool operator==(const Session&) const = default;
};

// Frees the colours of models that are closed, and gives the first free ones to those that have
// none.
void give_colors(Session& session);

// rope and tapa_norm open on the bundled text.
Session default_session();

// The model that `selection` names, or "" when none is open.
std::string selected_model(const Session& session);
// What the open models are called and which colours they have. One of a file is never called as a
// bundled one is, whether that is open or not.
ModelNames names_of(const Session& session);
std::string short_name(const Session& session, const std::string& model);
using protocol::name_of_head;

// What a model is called in a session: a bundled one by its name, any other by its absolute path,
// so that the session opens it from wherever the window is started. Settings stay behind it.
std::string lasting_name(const std::string& model);

// The folder of bundled texts and configurations: $PHASESCOPE_ASSETS, ../share/phasescope beside
// the program, or the source tree's assets/.
std::filesystem::path assets_folder();

}  // namespace phasescope::app

template <>
struct phasescope::protocol::detail::Form<phasescope::app::SharedText> {
  using Text = phasescope::app::SharedText;
  static json write(const Text& text) { return text.str(); }
  static void read(const json& j, Text& text) { text = j.get<std::string>(); }
  static void put(json& out, const char* name, const Text& text) { out[name] = text.str(); }
};
