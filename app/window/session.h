#pragma once
// What the window shows, as one value. Only commands and edits (editor.h) change it; undo, linked
// selection, saved sessions and the equivalent command lines all come from it.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/file_system.h"
#include "protocol/json_form.h"

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
  std::string name = kBundled;  // a file, or "typed"
  SharedText words;
  int64_t length = 0;  // tokens read at most; 0: the model's trained context
  template <class V>
  void fields(V& v) {
    v("name", name), v("words", words), v("length", length);
  }
  // Nobody chose it: the text that the program opens on.
  bool untouched() const { return name == kBundled; }
  bool operator==(const TextInput&) const = default;
};

// The head, query and key that every view marks. head -1: the mean of the layer's heads.
struct Selection {
  int64_t model = 0, layer = 0, head = 0;
  std::optional<int64_t> query, key;
  template <class V>
  void fields(V& v) {
    v("model", model), v("layer", layer), v("head", head), v("query", query), v("key", key);
  }
  bool operator==(const Selection&) const = default;
};

struct HeadsState {
  std::string metric = "entropy";
  bool sorted = false;  // by the metric, largest first; else layers down, heads across
  double at_least = 0;  // heads whose metric is below are dimmed
  bool filtered = false;
  template <class V>
  void fields(V& v) {
    v("metric", metric), v("sorted", sorted), v("at_least", at_least), v("filtered", filtered);
  }
  bool operator==(const HeadsState&) const = default;
};

// Queries [row_begin, row_end) and keys [col_begin, col_end); an end of 0 means all of them.
struct MapState {
  std::string of = "weight", pool = "max";
  std::string show = "a";  // a, both, difference
  bool logarithmic = false;
  int64_t row_begin = 0, row_end = 0, col_begin = 0, col_end = 0;
  template <class V>
  void fields(V& v) {
    v("of", of), v("pool", pool), v("show", show), v("logarithmic", logarithmic);
    v("row_begin", row_begin), v("row_end", row_end), v("col_begin", col_begin);
    v("col_end", col_end);
  }
  bool operator==(const MapState&) const = default;
};

struct PatternsState {
  int64_t layer = 0;
  std::string figure = "dot products";
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("figure", figure);
  }
  bool operator==(const PatternsState&) const = default;
};

struct DistanceState {
  std::string figure = "near - far";
  bool corpus = true;
  int64_t layer = -1;  // -1: all layers pooled
  template <class V>
  void fields(V& v) {
    v("figure", figure), v("corpus", corpus), v("layer", layer);
  }
  bool operator==(const DistanceState&) const = default;
};

struct ShiftState {
  std::vector<int64_t> by{1, 3, 16};  // measured
  int64_t shown = 3;                  // in the figure; the table has all
  template <class V>
  void fields(V& v) {
    v("by", by), v("shown", shown);
  }
  bool operator==(const ShiftState&) const = default;
};

struct TheoryState {
  std::string check;  // the one shown in full
  template <class V>
  void fields(V& v) {
    v("check", check);
  }
  bool operator==(const TheoryState&) const = default;
};

struct ExtrapolationState {
  std::string figure = "loss by position";
  int64_t trials = 16;  // texts; the interval says what that is worth
  template <class V>
  void fields(V& v) {
    v("figure", figure), v("trials", trials);
  }
  bool operator==(const ExtrapolationState&) const = default;
};

struct JobsState {
  std::string dir;              // the job shown in full
  std::string config = "tapa";  // of the training form
  int64_t steps = 200;
  template <class V>
  void fields(V& v) {
    v("dir", dir), v("config", config), v("steps", steps);
  }
  bool operator==(const JobsState&) const = default;
};

struct Session {
  int64_t version = 1;
  std::vector<std::string> models;  // in the order opened; colours follow it
  TextInput text;
  Selection selection;
  HeadsState heads;
  MapState map;
  PatternsState patterns;
  DistanceState distance;
  ShiftState shift;
  TheoryState theory;
  ExtrapolationState extrapolation;
  JobsState jobs;
  std::vector<std::string> recent;  // paths of models that were opened, newest first
  std::string theme = "light";
  std::vector<std::string> closed_views;  // ids; all others are open
  std::string layout;                     // Dear ImGui's own text; empty: the default layout
  template <class V>
  void fields(V& v) {
    v("version", version), v("models", models), v("text", text), v("selection", selection);
    v("heads", heads), v("map", map), v("patterns", patterns), v("distance", distance);
    v("shift", shift), v("theory", theory), v("extrapolation", extrapolation), v("jobs", jobs);
    v("recent", recent), v("theme", theme), v("closed_views", closed_views), v("layout", layout);
  }
  bool operator==(const Session&) const = default;
};

// rope and tapa_norm open on the bundled text.
Session default_session();

// The model that `selection` names, or "" when none is open.
std::string selected_model(const Session& session);
// A model as the views name it: the last part of its path, with the folder before it (or all of the
// path) where others of `models` end alike.
std::string short_name(const std::vector<std::string>& models, const std::string& model);
// The same among the open models.
std::string short_name(const Session& session, const std::string& model);
// "L3H5", "L3" for the mean of a layer's heads.
std::string name_of_head(int64_t layer, int64_t head);

struct LoadedSession {
  Session session;
  std::string warning;  // what was wrong with the file, empty when nothing was
};

// Reads a session. A file that is corrupt or newer is kept as FILE.bad and the default is used; a
// missing one is no fault.
LoadedSession load_session(formats::FileSystem& fs, const std::filesystem::path& path);
void save_session(formats::FileSystem& fs, const std::filesystem::path& path,
                  const Session& session);

// $XDG_STATE_HOME/phasescope/session.json, ~/.local/state/... where that is not set.
std::filesystem::path default_session_path();
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
