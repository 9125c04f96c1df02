#pragma once
// A form of a request's fields, from the same list as its JSON and its options on the command line.
#include <map>
#include <string>
#include <vector>

#include "protocol/messages/eval.h"
#include "protocol/request.h"

namespace phasescope::app {

// A line a field: its choices, or its words as the command line has them; its help on hover.
class FieldForm {
 public:
  // `defaults`: the same fields of an object as it is by default, which an empty line stands for.
  // True where a field was changed. What a field does not take stays in its line, and why below it.
  bool draw(const std::vector<protocol::BoundField>& fields,
            const std::vector<protocol::BoundField>& defaults);

 private:
  struct Line {
    std::string typed, fault;
  };
  bool draw_line(const protocol::BoundField& field, const protocol::BoundField& fallback);

  std::map<std::string, Line> lines_;  // by key
};

// What an extrapolation test takes beside its models.
struct EvalChoices {
  protocol::PerplexityOptions perplexity;
  std::string corpus;  // a path; empty for the bundled validation texts
  template <class V>
  void fields(V& v) {
    perplexity.fields(v);
    v("corpus", corpus);
  }
  protocol::EvalRequest request(std::vector<std::string> models) const;
  bool operator==(const EvalChoices&) const = default;
};

// A button that opens the form of these choices; true where one was changed.
class EvalForm {
 public:
  bool draw(EvalChoices& choices, const EvalChoices& defaults);

 private:
  FieldForm form_;
};

}  // namespace phasescope::app
