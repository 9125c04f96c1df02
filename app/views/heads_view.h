#pragma once

#include <algorithm>
#include <map>

#include "app/views/field_form.h"
#include "app/views/head_pictures.h"
#include "app/views/view.h"
#include "protocol/messages/heads.h"
#include "widgets/data_table.h"
#include "widgets/head_grid.h"

namespace phasescope::app {

// A head that was chosen beside others, for their mean.
struct ChosenHead {
  std::string model;
  std::int64_t layer = 0, head = 0;
  template <class V>
  void fields(V& v) {
    v("model", model), v("layer", layer), v("head", head);
  }
  bool operator==(const ChosenHead&) const = default;
};

struct HeadsState {
  static constexpr const char* kView = "heads";
  std::string metric = "entropy";
  bool sorted = false;     // by the metric, largest first; else layers down, heads across
  bool ascending = false;  // where sorted: smallest first
  // Heads that it does not find are dimmed, and left out of the table (widgets/data_table.h).
  std::string search = {};
  bool pictures = true, table = true, scatter = false;  // what is shown
  std::string across = "entropy", up = "sink";          // metrics of the scatter
  std::vector<ChosenHead> chosen = {};
  // The request's fields (field_form.h): with "corpus" over many texts, else of the session's text.
  nlohmann::json options = nlohmann::json::object();
  bool is_chosen(const ChosenHead& head) const {
    return std::ranges::find(chosen, head) != chosen.end();
  }
  bool corpus() const { return options.value("corpus", nlohmann::json(false)) != false; }
  template <class V>
  void fields(V& v) {
    v("metric", metric), v("sorted", sorted), v("ascending", ascending);
    v("search", search);
    v("pictures", pictures), v("table", table), v("scatter", scatter), v("across", across);
    v("up", up), v("chosen", chosen), v("options", options);
    // Sessions of before have this alone, and no path.
    bool over_texts = corpus();
    v("corpus", over_texts);
    if (over_texts && !corpus()) options["corpus"] = true;
  }
};

inline constexpr Asks<protocol::HeadsResult> kHeads{"heads", protocol::HeadsRequest::method,
                                                    "measuring the heads"};

// Every head of every open model: as a thumbnail, as a row of a table of all metrics, as a point
// between two of them.
class HeadsView : public View {
 public:
  std::string id() const override { return "heads"; }
  std::string title() const override { return "Heads"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle; }
  void add_commands(std::vector<Command>& list) const override;
  void drop_closed(const Session& session) override { keep_open(session, grids_); }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override;

 private:
  using HeadsAnswer = Answer<protocol::HeadsResult>;
  // Columns of the table before those of the metrics.
  static constexpr int kNameColumns = 2;
  struct Grid {
    HeadPictures pictures;
    Cached<widgets::HeadGridSpec> spec;
    Cached<widgets::HeadCaptionWords> captions;
    Cached<float> least_caption;  // no caption of the widest ones is narrower
    Cached<widgets::CaptionWidths> widths;
  };
  // The heads of all models as rows, a model after the other; where each model's rows begin.
  struct Rows {
    widgets::TableSpec table;
    std::vector<std::string> metrics;  // of the columns behind the model and the head
    std::vector<std::size_t> model;    // of each row: its place in the session
    std::vector<int> cell;             // and layer * heads + head
    std::vector<int> begin;            // by model; -1 of one without an answer
    std::vector<std::string> made_of;  // by model; the same where its rows are
  };
  // The pictures' place: models beside each other, and the room of each.
  struct Places {
    int columns = 1;
    ImVec2 room{0, 0};
    float pixels = 0;  // of the smallest picture
    // All models have the same, or those that have none had larger pictures than their neighbours.
    widgets::HeadCaptions captions = widgets::HeadCaptions::full;
  };
  // Where a head is: the session's model and the cell.
  struct Place {
    std::size_t model = 0;
    int cell = -1;
  };
  void draw_controls(ViewContext& context);
  void draw_choices_of_reading(ViewContext& context);
  void draw_chosen(ViewContext& context);
  void draw_panes(ViewContext& context, ImVec2 room);
  void draw_pictures(ViewContext& context);
  void draw_table(ViewContext& context);
  void draw_scatter(ViewContext& context);
  void draw_model(ViewContext& context, std::size_t index, const Places& places);
  void draw_model_line(ViewContext& context, std::size_t index);
  void draw_head_tooltip(const ViewContext& context, const HeadsAnswer& answer, int cell) const;
  const HeadsAnswer* answer_of(const ViewContext& context, std::size_t index) const;
  static const HeadsAnswer* first_answer(const ViewContext& context);
  // What a metric is called, with its unit.
  std::string heading_in(const ViewContext& context, const std::string& metric) const;
  // A choice among metrics by their headings, so many pixels wide.
  bool draw_metric_choice(const ViewContext& context, const char* label, std::string& metric,
                          const std::vector<std::string>& keys, float width);
  static ChosenHead chosen_head(const ViewContext& context, std::size_t model,
                                const protocol::HeadsResult& result, int cell);
  const Rows& rows(const ViewContext& context);
  Rows columns(const ViewContext& context) const;
  void add_rows(const ViewContext& context, std::size_t index, Rows& rows) const;
  const std::vector<char>& found_rows(const ViewContext& context);
  std::string words_left_out(const ViewContext& context);
  const widgets::HeadGridSpec& spec_of(const ViewContext& context, std::size_t index);
  const widgets::HeadCaptionWords& captions_of(const ViewContext& context, std::size_t index);
  widgets::HeadGridFit fit_of(const ViewContext& context, std::size_t index, ImVec2 room,
                              widgets::HeadCaptions most);
  std::string captions_key(const ViewContext& context, std::size_t index);
  void make_pictures(ViewContext& context, const HeadsAnswer& answer, Grid& grid);
  bool add_or_move_rows(const ViewContext& context, std::size_t index, Rows& next);
  Places best_places(const ViewContext& context, ImVec2 room);
  Places scrolled_places(const ViewContext& context, ImVec2 room);
  std::string places_key(const ViewContext& context, ImVec2 room);
  bool larger_beside(const ViewContext& context, ImVec2 room, ImVec2 whole, float part);
  widgets::PlotSpec scatter_of(const ViewContext& context);
  std::vector<std::string> notes_of(const ViewContext& context);
  // A click on a head selects it; with Ctrl it is taken among the chosen ones, or out of them.
  void take(ViewContext& context, Place place);
  void select_cell(ViewContext& context, Place place);
  Place place_of_row(const ViewContext& context, int row);
  int row_of(const ViewContext& context, const widgets::Hover& marks);
  void point_at_head(ViewContext& context, Place place);

  OptionsForm form_;
  std::map<std::string, Grid> grids_;
  bool made_pictures_ = false;  // of a model, in this frame
  Rows rows_;
  std::string rows_key_, rows_seen_;
  std::uint64_t rows_version_ = 0;
  bool rows_whole_ = true;     // those of no model are left for the next frame
  std::size_t made_rows_ = 0;  // in this frame
  Cached<std::vector<char>> found_;
  Cached<Places> places_;
  Cached<bool> beside_;
  Cached<widgets::PlotSpec> scatter_;
  widgets::DataTable table_;
  widgets::TableArrangement shown_;  // as the table was last arranged from the session
};

// The colours of every head's picture, and what they are of.
widgets::MapSpec look_of_pictures();

// Which stack's heads are shown of an encoder-decoder, by Compare too: that of the session.
void draw_stack_choice(ViewContext& context);

}  // namespace phasescope::app
