#pragma once
// What questions about positions share: which texts and which heads they are asked of.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// The questions that there are: {"questions": [QuestionInfo]}.
struct QuestionsListRequest {
  static constexpr const char* method = "questions.list";
  static constexpr const char* verb = "";
  template <class V>
  void fields(V&) {}
};

struct QuestionInfo {
  std::string id, question, measure, source;
  // A command that asks it of bundled models, and the one of its figures that the page shows.
  std::string command, figure;
  template <class V>
  void fields(V& v) {
    v("id", id), v("question", question), v("measure", measure), v("source", source);
    v("command", command), v("figure", figure);
  }
};

// The texts of a question: every `step`-th of those from a to b of the corpus.
struct QuestionTexts : ReadingMany {
  std::string texts = "0:70:5";
  template <class V>
  void fields(V& v) {
    ReadingMany::fields(v);
    v("texts", texts,
      About{.help = "texts of the corpus that are read, a:b:step",
            .title = "Texts of the corpus",
            .excludes = "input"});
  }
};

// The heads that are reported; all where a list is empty.
struct QuestionHeads {
  std::vector<std::int64_t> layers, heads;
  template <class V>
  void fields(V& v) {
    v("layers", layers,
      About{.help = "layers that are reported, e.g. 0,3 (default: all)", .low = 0});
    v("heads", heads,
      About{.help = "heads of each layer that are reported, e.g. 0,3 (default: all)", .low = 0});
  }
};

}  // namespace phasescope::protocol
