#pragma once
// One JSON form for plain structs. A struct lists its members once:
//
//   struct Row {
//     int layer = 0;
//     double entropy = 0;
//     template <class V> void fields(V& v) { v("layer", layer); v("entropy", entropy); }
//   };
//
// (a field may be followed by what is said of it, about.h)
// and to_json(row) / from_json<Row>(json) follow from that. Numbers are plain; NaN and infinities
// are the strings "nan", "inf", "-inf" (JSON has no other form for them). An empty optional is left
// out when writing, or null where its field says `or_null`, and stays empty when absent or null.
// Members that are absent when reading keep their default, so that fields can be added; a field is
// read by its alias too.
#include <cmath>
#include <concepts>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "protocol/about.h"

namespace phasescope::protocol {

using nlohmann::json;

namespace detail {

struct AnyVisitor {
  template <class T>
  void operator()(const char*, T&, const About& = {}) {}
};

template <class T>
concept HasFields = requires(T t, AnyVisitor v) {
  t.fields(v);
};

inline json write_double(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return x;
}

inline double read_double(const json& j) {
  if (j.is_number()) return j.get<double>();
  const std::string text = j.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw std::invalid_argument("expected a number but got \"" + text + "\"");
}

template <class T>
struct Form {
  static json write(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      return write_double(static_cast<double>(value));
    } else if constexpr (HasFields<T>) {
      json out = json::object();
      auto visit = [&out]<class M>(const char* name, M& member, const About& about = {}) {
        if (about.or_null) {
          out[name] = Form<M>::write(member);
        } else {
          Form<M>::put(out, name, member);
        }
      };
      const_cast<T&>(value).fields(visit);  // fields() only hands out references
      return out;
    } else {
      return json(value);
    }
  }
  static void read(const json& j, T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(read_double(j));
    } else if constexpr (HasFields<T>) {
      auto visit = [&j]<class M>(const char* name, M& member, const About& about = {}) {
        auto it = j.find(name);
        if (it == j.end() && *about.alias) it = j.find(about.alias);
        if (it != j.end() && !it->is_null()) Form<M>::read(*it, member);
      };
      value.fields(visit);
    } else {
      j.get_to(value);
    }
  }
  static void put(json& out, const char* name, const T& value) { out[name] = write(value); }
};

template <class T>
struct Form<std::vector<T>> {
  static json write(const std::vector<T>& values) {
    json out = json::array();
    for (const T& value : values) out.push_back(Form<T>::write(value));
    return out;
  }
  static void read(const json& j, std::vector<T>& values) {
    values.clear();
    for (const json& item : j) {
      T value{};
      Form<T>::read(item, value);
      values.push_back(std::move(value));
    }
  }
  static void put(json& out, const char* name, const std::vector<T>& v) { out[name] = write(v); }
};

template <class T>
struct Form<std::map<std::string, T>> {
  using Map = std::map<std::string, T>;
  static json write(const Map& values) {
    json out = json::object();
    for (const auto& [key, value] : values) out[key] = Form<T>::write(value);
    return out;
  }
  static void read(const json& j, Map& values) {
    values.clear();
    for (const auto& [key, item] : j.items()) Form<T>::read(item, values[key]);
  }
  static void put(json& out, const char* name, const Map& v) { out[name] = write(v); }
};

template <class T>
struct Form<std::optional<T>> {
  static json write(const std::optional<T>& value) {
    return value ? Form<T>::write(*value) : json(nullptr);
  }
  static void read(const json& j, std::optional<T>& value) {
    if (j.is_null()) {
      value.reset();
      return;
    }
    T inner{};
    Form<T>::read(j, inner);
    value = std::move(inner);
  }
  static void put(json& out, const char* name, const std::optional<T>& value) {
    if (value) out[name] = Form<T>::write(*value);
  }
};

}  // namespace detail

template <class T>
json to_json_form(const T& value) {
  return detail::Form<T>::write(value);
}

// Throws nlohmann::json::exception or std::invalid_argument where a member has another type.
template <class T>
T from_json_form(const json& j) {
  T value{};
  detail::Form<T>::read(j, value);
  return value;
}

}  // namespace phasescope::protocol
