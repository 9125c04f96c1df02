#pragma once
// What each view shows, by the view's id. A view's state is a struct of its own, in its own file:
//
//   struct ShiftState {
//     static constexpr const char* kView = "shift";
//     int64_t shown = 3;
//     template <class V> void fields(V& v) { v("shown", shown); }
//   };
//   const ShiftState state = session.views.get<ShiftState>();
//
// A session keeps them all, of views that are not in this program too.
#include <map>
#include <stdexcept>
#include <string>

#include "protocol/json_form.h"

namespace phasescope::app {

class ViewStates {
 public:
  // As it was set last; as it is by default where it was never set, or cannot be read.
  template <class State>
  State get() const {
    const auto found = by_view_.find(State::kView);
    if (found == by_view_.end()) return {};
    try {
      return protocol::from_json_form<State>(found->second);
    } catch (const std::exception&) {  // edited by hand
      return {};
    }
  }
  // A state that is the default's leaves no trace, so that setting it is no change.
  template <class State>
  void set(const State& state) {
    nlohmann::json form = protocol::to_json_form(state);
    if (form == protocol::to_json_form(State{}))
      by_view_.erase(State::kView);
    else
      by_view_[State::kView] = std::move(form);
  }
  bool operator==(const ViewStates&) const = default;

 private:
  friend struct protocol::detail::Form<ViewStates>;
  std::map<std::string, nlohmann::json> by_view_;
};

}  // namespace phasescope::app

template <>
struct phasescope::protocol::detail::Form<phasescope::app::ViewStates> {
  using States = phasescope::app::ViewStates;
  using Map = std::map<std::string, json>;
  static json write(const States& states) { return Form<Map>::write(states.by_view_); }
  static void read(const json& j, States& states) {
    if (!j.is_object()) throw std::invalid_argument("\"views\" is no object");
    Form<Map>::read(j, states.by_view_);
  }
  static void put(json& out, const char* name, const States& states) { out[name] = write(states); }
};
