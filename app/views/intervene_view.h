#pragma once

#include <map>
#include <optional>
#include <utility>

#include "app/views/question_view.h"
#include "protocol/messages/ablate.h"
#include "protocol/messages/models.h"
#include "protocol/model_reading.h"

namespace phasescope::app {

// The text of the window is read unless a corpus is asked for.
struct InterveneState : QuestionForm {
  static constexpr const char* kView = "intervene";
  InterveneState() { reads = "text"; }
  std::string how = "zero";              // of what is done next
  std::string whose = "head";            // the selected head, its layer, all
  std::map<std::string, double> limits;  // of each way, as chosen last
  template <class V>
  void fields(V& v) {
    QuestionForm::fields(v);
    v("how", how), v("whose", whose), v("limits", limits);
  }
};

inline constexpr Asks<protocol::AblateResult> kIntervene{
    "intervene", protocol::AblateRequest::method, "measuring the change", Lane::slow};

// ---- edits of a reading ---------------------------------------------------------------------

// One change of a model: "head_windows" of "L0H1" is "256", or "base" is "1e6" (of no heads).
struct ReadingEdit {
  std::string key;    // as settings have it: "encoding.head_windows"
  std::string heads;  // "L0H1", "L2", "all"; empty where the key is not of heads
  std::string value;
  bool operator==(const ReadingEdit&) const = default;
};

// Whether a setting is a list of heads with a value each.
bool is_of_heads(const std::string& key);
// The settings of a reading one by one, and the other way: an edit of the same key and heads
// replaces the one that is there, in its place.
std::vector<ReadingEdit> edits_of(const protocol::Settings& settings);
protocol::Settings with_edit(const protocol::Settings& settings, const ReadingEdit& edit);
protocol::Settings without_edit(const protocol::Settings& settings, const ReadingEdit& edit);

// Makes the edit on the selected model: opens the reading beside the model it is of, or puts the
// changed reading in place of the one that is selected. One step of undo.
void add_edit(ViewContext& context, const ReadingEdit& edit);
// Takes it back; of the last one the reading is closed, and the model itself is selected.
void remove_edit(ViewContext& context, const ReadingEdit& edit);

// The option of every encoding that does `how` (AblateRequest), and its value.
ReadingEdit edit_of(const std::string& how, const std::string& heads, double limit);

// What a slider of a number runs over: factors of 64 each way, as far as the encoding takes them;
// of 0, which has no factors, all that it takes, or one each way.
std::pair<double, double> slider_ends(const protocol::EncodingNumber& number);

// Items of a context menu: what can be done to the selected head.
void draw_intervention_menu(ViewContext& context);

// ---- the view -------------------------------------------------------------------------------

// Heads taken out, held back or moved, parameters of an encoding changed: each change is a reading
// of the model, which every other view shows beside it; here is what it does to loss and maps.
class InterveneView
    : public QuestionView<protocol::AblateRequest, protocol::AblateResult, InterveneState> {
 public:
  std::string title() const override { return "Intervene"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::right_bottom; }
  void add_commands(std::vector<Command>& list) const override;
  void draw_content(ViewContext& context) override;

 protected:
  const Asks<protocol::AblateResult>& asks() const override { return kIntervene; }
  std::string what_it_shows() const override;
  double passes_of_a_text(const protocol::AblateRequest&,
                          const protocol::LoadReport&) const override {
    return 4;  // both readings, once for the loss and once over whole maps
  }
  bool instant(const QuestionForm& form) const override { return form.reads == "text"; }
  bool joins(const protocol::AblateRequest&) const override { return false; }
  bool concerns(const ViewContext& context, std::size_t index) const override;
  std::string model_asked(const std::string& model) const override;
  void add_selection(protocol::AblateRequest& request, const Session& session) const override;
  std::vector<std::string> given_by_selection() const override {
    return {"head", "how", "limit", "by", "maps"};
  }

 private:
  void draw_new_edit(ViewContext& context);
  void draw_edits(ViewContext& context);
  void draw_parameters(ViewContext& context);
  void draw_parameter(ViewContext& context, const protocol::EncodingNumber& number,
                      const protocol::EncodingNumber& first);

  std::optional<double> held_limit_;   // while its slider is held
  std::map<std::string, float> held_;  // sliders that are held, by key
};

}  // namespace phasescope::app
