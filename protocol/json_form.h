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
#include <concepts>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
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

// What every file would else instantiate for every field of every struct, compiled once.
double read_double(const json& j);
json write_double(double value);
void read_one(const json& j, bool& value);
void read_one(const json& j, int& value);
void read_one(const json& j, long& value);
void read_one(const json& j, long long& value);
void read_one(const json& j, unsigned long& value);
void read_one(const json& j, double& value);
void read_one(const json& j, float& value);
void read_one(const json& j, std::string& value);
void read_one(const json& j, std::vector<double>& values);
void read_one(const json& j, std::vector<long>& values);
void read_one(const json& j, std::vector<std::string>& values);
json write_one(bool value);
json write_one(int value);
json write_one(long value);
json write_one(long long value);
json write_one(unsigned long value);
json write_one(double value);
json write_one(float value);
json write_one(const std::string& value);
json write_one(const std::vector<double>& values);
json write_one(const std::vector<long>& values);
json write_one(const std::vector<std::string>& values);

template <class T, class... Others>
concept OneOf = (std::same_as<T, Others> || ...);
template <class T>
concept ReadAtOnce = OneOf<T, bool, int, long, long long, unsigned long, double, float, std::string,
                           std::vector<double>, std::vector<long>, std::vector<std::string>>;

// The member of that name, or else of that alias, unless it is null.
const json* member_in(const json& j, const char* name, const char* alias);
void put_in(json& out, const char* name, json value);

template <class T>
struct Form {
  static json write(const T& value) {
    if constexpr (ReadAtOnce<T>) {
      return write_one(value);
    } else if constexpr (HasFields<T>) {
      json out = json::object();
      auto visit = [&out]<class M>(const char* name, M& member, const About& about = {}) {
        if (about.or_null) {
          put_in(out, name, Form<M>::write(member));
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
    if constexpr (ReadAtOnce<T>) {
      read_one(j, value);
    } else if constexpr (HasFields<T>) {
      auto visit = [&j]<class M>(const char* name, M& member, const About& about = {}) {
        if (const json* found = member_in(j, name, about.alias)) Form<M>::read(*found, member);
      };
      value.fields(visit);
    } else {
      j.get_to(value);
    }
  }
  static void put(json& out, const char* name, const T& value) { put_in(out, name, write(value)); }
};

template <class T>
requires(!ReadAtOnce<std::vector<T>>) struct Form<std::vector<T>> {
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
  static void put(json& out, const char* name, const std::vector<T>& v) {
    put_in(out, name, write(v));
  }
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
  static void put(json& out, const char* name, const Map& v) { put_in(out, name, write(v)); }
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
    if (value) put_in(out, name, Form<T>::write(*value));
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
