#pragma once
// Which heads fail past the trained length, and the smallest repair found.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/messages/questions.h"

namespace phasescope::protocol {

// The loss past the trained length with heads treated one by one: an XrayResult. Texts of twice the
// trained length where none is asked for.
struct XrayRequest {
  static constexpr const char* method = "xray";
  static constexpr const char* verb = "xray";
  std::string model;
  Running running;
  QuestionTexts reading;
  QuestionHeads chosen;
  std::string treatment = "window";
  std::int64_t limit = 0;
  std::string by = "head";
  bool repair = false;
  double enough = 0.9;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    chosen.fields(v);
    running.fields(v);
    v("treatment", treatment,
      About{.help =
                "window (farther keys are not seen) or clamp (they are read as if they stood at "
                "the limit)",
            .choices = "window|clamp"});
    v("limit", limit,
      About{.help = "distance at which the treatment begins (0, the default: the trained length; "
                    "of a clamp one less)",
            .title = "Limit of distances",
            .unit = "tokens",
            .low = 0});
    v("by", by,
      About{.help = "heads one by one, or whole layers",
            .title = "At a time",
            .choices = "head|layer"});
    v("repair", repair,
      About{.help = "also search, greedily, for the fewest heads whose treatment is enough",
            .title = "Look for a repair"});
    v("enough", enough,
      About{.help = "share of what treating all heads wins back that a repair has to reach",
            .title = "Share of the loss",
            .low = 0,
            .high = 1,
            .needs = "repair"});
  }
};

// Losses in bits a token over the rows past the trained length; `head` is -1 of a whole layer.
// one_alone: what treating it alone takes off the plain loss. leave_one_out: what is lost where all
// but it are treated. share: one_alone of what treating all returns.
struct XrayRow {
  std::int64_t layer = 0, head = 0;
  Interval one_alone, leave_one_out;
  std::optional<Interval> share;
  std::string why;  // where there is no share
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("one_alone", one_alone);
    v("leave_one_out", leave_one_out), v("share", share, About{.or_null = true}), v("why", why);
  }
};

// Mean weight of the rows past the trained length of all texts on what training never showed: of
// each plane's phases ("phases"), of the table's values ("values"), or of distances ("distances",
// and of TAPE, whose content moves the phases, "distances of the rigid rotation").
struct XrayUnseen {
  std::int64_t layer = 0, head = 0;
  std::string of;
  std::vector<double> planes;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("of", of), v("planes", planes);
  }
};

// Mean losses of a block of rows from `begin`.
struct XrayPosition {
  std::int64_t begin = 0;
  double plain = 0, all = 0;
  std::optional<double> repaired;
  template <class V>
  void fields(V& v) {
    v("begin", begin), v("plain", plain), v("all", all), v("repaired", repaired);
  }
};

// The smallest set of heads found on texts 0, 2, ..; measured on texts 1, 3, ..., and where there
// are none, why not.
struct XrayRepair {
  std::vector<std::string> heads;
  double share_choose = 0;
  std::optional<Interval> change_test;
  std::string why;
  std::string reading;  // the model with it: "rope (head_windows=L0H1:256)"
  template <class V>
  void fields(V& v) {
    v("heads", heads), v("share_choose", share_choose);
    v("change_test", change_test, About{.or_null = true});
    v("why", why), v("reading", reading);
  }
};

struct XrayResult {
  std::string model, formula, treatment, verdict;
  std::int64_t trained = 0, limit = 0, passes = 0;  // passes: of one text each, all that were run
  Interval plain, all, returned;                    // returned: plain - all
  std::vector<XrayRow> rows;
  std::optional<double> order_agreement;  // Spearman, one_alone against leave_one_out
  std::string why;                        // where there is none
  std::vector<XrayUnseen> unseen;
  std::vector<XrayPosition> positions;
  std::optional<XrayRepair> repair;
  std::vector<std::string> texts;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("formula", formula), v("treatment", treatment), v("verdict", verdict);
    v("trained", trained), v("limit", limit), v("passes", passes);
    v("plain", plain), v("all", all), v("returned", returned);
    v("rows", rows), v("order_agreement", order_agreement, About{.or_null = true});
    v("why", why), v("unseen", unseen);
    v("positions", positions), v("repair", repair), v("texts", texts);
    v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
