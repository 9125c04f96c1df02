#pragma once
// What each view shows, by the view's id. A view's state is a struct of its own, in its own file:
//
//   struct ShiftState {
//     static constexpr const char* kView = "shift";
//     std::int64_t shown = 3;
//     template <class V> void fields(V& v) { v("shown", shown); }
//   };
//   const ShiftState state = session.views.get<ShiftState>();
//
// A session keeps them all, of views that are not in this program too.
#include <algorithm>
#include <any>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "protocol/json_form.h"

namespace phasescope::app {

class ViewStates {
 public:
  // As it was set last; as it is by default where it was never set, or cannot be read. It is read
  // from its form once, however often it is asked for.
  template <class State>
  State get() const {
    const auto found = by_view_.find(State::kView);
    if (found == by_view_.end()) return {};
    const One& one = *found->second;
    if (const State* state = std::any_cast<State>(&one.read)) return *state;
    try {
      State state = protocol::from_json_form<State>(one.form);
      one.read = state;
      return state;
    } catch (const std::exception&) {  // edited by hand
      return {};
    }
  }
  // A state that is the default's leaves no trace, so that setting it is no change.
  template <class State>
  void set(const State& state) {
    nlohmann::json form = protocol::to_json_form(state);
    if (form == protocol::to_json_form(State{})) {
      by_view_.erase(State::kView);
    } else {
      put(State::kView, std::move(form));
    }
  }
  bool operator==(const ViewStates& other) const {
    return std::ranges::equal(by_view_, other.by_view_, [](const auto& a, const auto& b) {
      return a.first == b.first && (a.second == b.second || a.second->form == b.second->form);
    });
  }

 private:
  friend struct protocol::detail::Form<ViewStates>;
  // Never changed, so that sessions and steps of undo share it.
  struct One {
    nlohmann::json form;
    mutable std::any read = {};  // what get() made of it, for the thread that draws alone
  };
  void put(const std::string& view, nlohmann::json form) {
    by_view_[view] = std::make_shared<const One>(One{std::move(form)});
  }
  std::map<std::string, std::shared_ptr<const One>> by_view_;
};

}  // namespace phasescope::app

template <>
struct phasescope::protocol::detail::Form<phasescope::app::ViewStates> {
  using States = phasescope::app::ViewStates;
  static json write(const States& states) {
    json forms = json::object();
    for (const auto& [view, one] : states.by_view_) forms[view] = one->form;
    return forms;
  }
  static void read(const json& j, States& states) {
    if (!j.is_object()) throw std::invalid_argument("\"views\" is no object");
    states.by_view_.clear();
    for (const auto& [view, form] : j.items()) states.put(view, form);
  }
  static void put(json& out, const char* name, const States& states) { out[name] = write(states); }
};
