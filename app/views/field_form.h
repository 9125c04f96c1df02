#pragma once
// Forms of a request's fields, from the same list as its JSON and its options on the command line.
//
// Sections: what was chosen | the form | extrapolation tasks.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "app/figures/eval_names.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/eval_tasks.h"
#include "protocol/request.h"

namespace phasescope::app {

// ---- what was chosen ----------------------------------------------------------------------------

// `request` with the fields that `chosen` names, an object by their keys. What the request has not,
// or does not take, is left out: a session may be edited by hand.
void put_choices(const std::vector<protocol::BoundField>& fields, const nlohmann::json& chosen);
template <class Request>
Request with_choices(Request request, const nlohmann::json& chosen) {
  put_choices(protocol::detail::bound_fields(request), chosen);
  return request;
}

// ---- the form -----------------------------------------------------------------------------------

// What a form calls a field: its title and its unit as its list of fields has them, or its key in
// words where that says it: "Length (tokens)".
std::string title_of(const protocol::BoundField& field);
// A key in words: "Weight decay" for "weight_decay".
std::string title_of_key(const std::string& key);

// A line a field: a tick, its choices, or its words as the command line has them; its help and its
// range on hover.
class FieldForm {
 public:
  // `chosen` gets the value of a field that was changed, by its key, and loses what is as by
  // default; `defaults`: the same fields of such an object, which an empty line stands for. True
  // where a field was changed. What a field does not take stays in its line, and why below it.
  bool draw(nlohmann::json& chosen, const std::vector<protocol::BoundField>& fields,
            const std::vector<protocol::BoundField>& defaults);

 private:
  enum class Change { none, made, emptied };
  struct Line {
    std::string typed, fault;
  };
  Change draw_line(const protocol::BoundField& field, const protocol::BoundField& fallback);
  Change draw_text(const protocol::BoundField& field, const protocol::BoundField& fallback);

  std::map<std::string, Line> lines_;  // by key
};

// A button that opens the form of a request's fields.
class OptionsForm {
 public:
  // `chosen` is what with_choices() takes; `usual` what it is before the user chose anything.
  // Left out are arguments of the command line, objects, what belongs to other requests
  // (About::of), and the keys that are `hidden`: the session or the view itself fills them. True
  // where a field was changed.
  template <class Request>
  bool draw(nlohmann::json& chosen, const nlohmann::json& usual,
            const std::set<std::string>& hidden) {
    if (!begin(chosen, usual)) return false;
    Request now = with_choices(Request{}, chosen), defaults{};
    return draw_fields(chosen, usual, protocol::detail::bound_fields(now),
                       protocol::detail::bound_fields(defaults), hidden);
  }

 private:
  friend class EvalForm;
  static bool begin(const nlohmann::json& chosen, const nlohmann::json& usual);
  bool draw_fields(nlohmann::json& chosen, const nlohmann::json& usual,
                   std::vector<protocol::BoundField> fields,
                   std::vector<protocol::BoundField> defaults, const std::set<std::string>& hidden);

  FieldForm form_;
};

// ---- extrapolation tasks ------------------------------------------------------------------------

// An extrapolation test beside its models: the task, and what was chosen of its options.
struct EvalChoices {
  std::string task = kPerplexity;
  nlohmann::json options = nlohmann::json::object();
  template <class V>
  void fields(V& v) {
    v("task", task), v("options", options);
  }
  protocol::EvalRequest request(std::vector<std::string> models) const;
  bool operator==(const EvalChoices&) const = default;
};

// A button that opens the form of these choices; true where one was changed. `tasks`: what the
// worker has, to choose among; the one that is chosen already where that is not known. The form
// has the fields of that task alone.
class EvalForm {
 public:
  bool draw(EvalChoices& choices, const EvalChoices& usual,
            const protocol::EvalTasks* tasks = nullptr);

 private:
  OptionsForm form_;
};

}  // namespace phasescope::app
