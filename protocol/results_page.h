#pragma once
// The page of results (docs/results.md): every field of every result with its title and unit, from
// the structs' lists of fields.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// Markdown, a section a struct: those that are added, and after each the structs in its fields.
class ResultsPage {
 public:
  // Adds the struct of a method's answer; "" for a struct that others have.
  template <class T>
  void add(const std::string& method = {}) {
    if (!known_.insert(name_of<T>()).second) return;
    text_ += "\n## " + name_of<T>() + "\n\n";
    if (!method.empty()) text_ += "The answer to `" + method + "`.\n\n";
    text_ += "| field | form | title | unit |\n|---|---|---|---|\n";
    std::vector<void (ResultsPage::*)()> inner;
    auto visit = [&]<class M>(const char* name, M&, const About& about = {}) {
      std::string form = form_of<M>(inner);
      if constexpr (requires { typename Parts<M>::Optional; }) {
        form += about.or_null ? ", or null" : ", or absent";
      }
      text_ += "| `" + std::string(name) + "` | " + form + " | " + about.title + " | " +
               about.unit + " |\n";
    };
    T value{};
    value.fields(visit);
    for (const auto add_inner : inner) (this->*add_inner)();
  }
  const std::string& text() const { return text_; }

 private:
  using Inner = std::vector<void (ResultsPage::*)()>;

  template <class T>
  struct Parts {};
  template <class T>
  struct Parts<std::vector<T>> {
    using List = T;
  };
  template <class T>
  struct Parts<std::map<std::string, T>> {
    using Map = T;
  };
  template <class T>
  struct Parts<std::optional<T>> {
    using Optional = T;
  };

  template <class T>
  void add_struct() {
    add<T>();
  }

  // The struct's name, without its namespace.
  template <class T>
  static std::string name_of() {
    const std::string said =
        __PRETTY_FUNCTION__;  // "... [with T = phasescope::protocol::EvalRow; "
    const std::string before = "T = phasescope::protocol::";
    const std::size_t begin = said.find(before) + before.size();
    return said.substr(begin, said.find_first_of(";]", begin) - begin);
  }

  static std::string plural(std::string form) {
    return form.ends_with("number") || form.ends_with("text") ? form + "s" : form;
  }

  template <class T>
  static std::string form_of(Inner& inner) {
    if constexpr (requires { typename Parts<T>::List; }) {
      return "list of " + plural(form_of<typename Parts<T>::List>(inner));
    } else if constexpr (requires { typename Parts<T>::Map; }) {
      return "by name, " + form_of<typename Parts<T>::Map>(inner);
    } else if constexpr (requires { typename Parts<T>::Optional; }) {
      return form_of<typename Parts<T>::Optional>(inner);
    } else if constexpr (std::is_same_v<T, IntervalEnd>) {
      return "number or null";
    } else if constexpr (std::is_same_v<T, bool>) {
      return "true or false";
    } else if constexpr (std::is_integral_v<T>) {
      return "whole number";
    } else if constexpr (std::is_floating_point_v<T>) {
      return "number";
    } else if constexpr (std::is_same_v<T, std::string>) {
      return "text";
    } else if constexpr (std::is_same_v<T, json>) {
      return "JSON";
    } else if constexpr (detail::HasFields<T>) {
      inner.push_back(&ResultsPage::add_struct<T>);
      return name_of<T>();
    } else {  // of a form written by hand, which its header tells
      return name_of<T>();
    }
  }

  std::string text_;
  std::set<std::string> known_;
};

}  // namespace phasescope::protocol
