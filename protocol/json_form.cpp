#include "protocol/json_form.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace phasescope::protocol::detail {
namespace {

template <class T>
bool holds(const json& j) {
  using Limits = std::numeric_limits<T>;
  if (j.is_number_unsigned()) return std::in_range<T>(j.get<std::uint64_t>());
  if (j.is_number_integer()) return std::in_range<T>(j.get<std::int64_t>());
  if (!j.is_number_float()) return true;  // get_to() tells of another type
  const double number = j.get<double>();
  return number >= static_cast<double>(Limits::min()) &&
         number < static_cast<double>(Limits::max()) + 1;
}

// What T does not hold would come out as some other number.
template <class T>
void read_integer(const json& j, T& value) {
  if (!holds<T>(j)) {
    throw std::invalid_argument("the number " + j.dump() + " is outside the whole numbers of " +
                                std::to_string(8 * sizeof(T)) + " bits");
  }
  j.get_to(value);
}

template <class T>
void read_list(const json& j, std::vector<T>& values) {
  values.clear();
  for (const json& item : j) read_one(item, values.emplace_back());
}

template <class T>
json write_list(const std::vector<T>& values) {
  json out = json::array();
  for (const T& value : values) out.push_back(write_one(value));
  return out;
}

}  // namespace

double read_double(const json& j) {
  if (j.is_number()) return j.get<double>();
  const std::string text = j.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw std::invalid_argument("expected a number but got \"" + text + "\"");
}

void read_one(const json& j, bool& value) { j.get_to(value); }
void read_one(const json& j, int& value) { read_integer(j, value); }
void read_one(const json& j, long& value) { read_integer(j, value); }
void read_one(const json& j, long long& value) { read_integer(j, value); }
void read_one(const json& j, unsigned long& value) { read_integer(j, value); }
void read_one(const json& j, double& value) { value = read_double(j); }
void read_one(const json& j, float& value) { value = static_cast<float>(read_double(j)); }
void read_one(const json& j, std::string& value) { j.get_to(value); }
void read_one(const json& j, std::vector<double>& values) { read_list(j, values); }
void read_one(const json& j, std::vector<long>& values) { read_list(j, values); }
void read_one(const json& j, std::vector<std::string>& values) { read_list(j, values); }

json write_one(bool value) { return value; }
json write_one(int value) { return value; }
json write_one(long value) { return value; }
json write_one(long long value) { return value; }
json write_one(unsigned long value) { return value; }
json write_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}
json write_one(double value) { return write_double(value); }
json write_one(float value) { return write_double(static_cast<double>(value)); }
json write_one(const std::string& value) { return value; }
json write_one(const std::vector<double>& values) { return write_list(values); }
json write_one(const std::vector<long>& values) { return write_list(values); }
json write_one(const std::vector<std::string>& values) { return write_list(values); }

const json* member_in(const json& j, const char* name, const char* alias) {
  auto found = j.find(name);
  if (found == j.end() && *alias != '\0') found = j.find(alias);
  return found == j.end() || found->is_null() ? nullptr : &*found;
}

void put_in(json& out, const char* name, json value) { out[name] = std::move(value); }

}  // namespace phasescope::protocol::detail
