#include "tasks/reference_file.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/text_input.h"

namespace phasescope::tasks {
namespace {

// Sums in another order may round their last bits differently.
constexpr double kRounding = 1e-12;

bool alike(const Json& a, const Json& b) {
  if (!a.is_number() || !b.is_number() || !(a.is_number_float() || b.is_number_float())) {
    return a == b;
  }
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= kRounding * std::max(std::abs(x), std::abs(y));
}

// Without the name that the library gives the error: "[json.exception.type_error.302] type must be
// array, but is string".
std::string reason_of(const Json::exception& error) {
  const std::string text = error.what();
  return text.substr(text.starts_with('[') ? text.find(' ') + 1 : 0);
}

class FileChecker {
 public:
  FileChecker(const Task& task, const std::string& file) : task_(task), file_(file) {}

  void line(std::string_view text, std::int64_t number) {
    place_ = file_ + ", line " + std::to_string(number);
    try {
      const Json row = formats::parse_json(text, place_);
      if (!row.is_object() || !row.contains("kind")) {
        throw formats::bad_input("a row is an object with a \"kind\": task, example or metric",
                                 place_);
      }
      const Json& kind = row.at("kind");
      if (kind == "task") return head(row);
      if (kind == "example") return example(row);
      if (kind == "metric") return metric(row);
      throw formats::bad_input("a row's \"kind\" is task, example or metric, not " + kind.dump(),
                               place_);
    } catch (const Json::exception& error) {
      throw formats::bad_input("a row has not the form of its kind: " + reason_of(error), place_);
    } catch (const formats::Error& error) {
      // A task that cannot read an example knows nothing of the file.
      const std::string& where = error.where();
      if (where.starts_with(place_)) throw;
      throw formats::bad_input(error.message() + (where.empty() ? "" : ": " + where), place_,
                               error.hint());
    }
  }
  FileCheck result() const {
    if (check_.examples + check_.metrics > 0) return check_;
    throw formats::bad_input("the file has neither an example nor a metric", file_);
  }

 private:
  void head(const Json& row) {
    const TaskInfo& info = task_.info();
    const std::string& wanted = info.reference.empty() ? info.key : info.reference;
    if (row.at("task") != wanted) {
      throw formats::bad_input(
          "the file is about " + row.at("task").dump() + ", not \"" + wanted + "\"", place_);
    }
    add(first_difference(symbols(), row));
  }

  // The ids of the task, by the names that reference files give them.
  Json symbols() const {
    const TaskInfo& info = task_.info();
    if (info.form == Form::causal || info.form == Form::encoder_decoder) {
      return {{"vocabulary", info.input_symbols}, {"bos", info.bos}};
    }
    if (info.form != Form::placeholders) return Json::object();
    return {{"input_symbols", info.input_symbols},
            {"output_symbols", info.output_symbols},
            {"placeholder", task_.placeholder()}};
  }

  void add(const std::string& difference) {
    if (!difference.empty()) check_.differences.push_back(place_ + ", " + difference);
  }

  // What reference files have of some of their examples alone.
  static bool is_optional(const std::string& key) {
    constexpr const char* kOfSome[] = {"counts", "ids", "depth", "encoder_places"};
    return std::ranges::find(kOfSome, key) != std::end(kOfSome);
  }

  // A row that leaves something out has not been checked. Long prompts may stand there as a hash.
  static std::string lacking(const Json& ours, const Json& given) {
    for (const auto& [key, value] : ours.items()) {
      const auto found = given.find(key);
      const bool there = found == given.end() ? is_optional(key) : !found->is_null();
      if (!there && !(key == "input" && given.contains("input_sha256"))) return key + ": none";
    }
    return {};
  }

  void compare(const Json& ours, const Json& given) {
    const std::string difference = first_difference(ours, given);
    add(difference.empty() ? lacking(ours, given) : difference);
  }

  // Metrics name examples by their numbers.
  void example(const Json& row) {
    samples_.push_back(task_.again(row));
    Json ours = task_.row(samples_.back());
    ours["row"] = check_.examples++;
    compare(ours, row);
  }

  static constexpr const char* kPredictions[] = {"predictions", "generated", "nats"};

  void require_one_each(const Json& row) const {
    const std::size_t rows = row.at("rows").size();
    if (rows == 0) throw formats::bad_input("a metric is about no row", place_);
    for (const char* key : kPredictions) {
      if (!row.contains(key) || row.at(key).size() == rows) continue;
      throw formats::bad_input("a metric of " + std::to_string(rows) + " rows has " +
                                   std::to_string(row.at(key).size()) + " " + key,
                               place_);
    }
  }

  void metric(const Json& row) {
    require_one_each(row);
    std::vector<Sample> rows;
    for (const Json& number : row.at("rows")) {
      const auto n = number.get<std::size_t>();
      if (n >= samples_.size()) throw formats::bad_input("a metric names no row", place_);
      rows.push_back(samples_[n]);
    }
    ++check_.metrics;
    compare(task_.metric(rows, row), row);
  }

  const Task& task_;
  std::string file_, place_;
  std::vector<Sample> samples_;
  FileCheck check_;
};

}  // namespace

std::string first_difference(const Json& ours, const Json& given, const std::string& place) {
  if (ours.is_object() && given.is_object()) {
    for (const auto& [key, value] : ours.items()) {
      const auto other = given.find(key);
      if (other == given.end() || other->is_null()) continue;
      std::string found = first_difference(value, *other, place.empty() ? key : place + "." + key);
      if (!found.empty()) return found;
    }
    return {};
  }
  if (ours.is_array() && given.is_array()) {
    for (std::size_t n = 0; n < std::min(ours.size(), given.size()); ++n) {
      std::string found =
          first_difference(ours[n], given[n], place + "[" + std::to_string(n) + "]");
      if (!found.empty()) return found;
    }
    if (ours.size() == given.size()) return {};
    return place + ": " + std::to_string(given.size()) + " values, not " +
           std::to_string(ours.size());
  }
  if (alike(ours, given)) return {};
  return place + ": " + given.dump() + ", not " + ours.dump();
}

FileCheck check_file(const Task& task, const std::filesystem::path& path) {
  const std::string text = formats::read_text_file(path);
  FileChecker checker(task, path.filename().string());
  std::int64_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    ++number;
    if (end > at) checker.line(std::string_view(text).substr(at, end - at), number);
    at = end + 1;
  }
  return checker.result();
}

std::vector<Json> example_rows(const Task& task, const std::vector<Ids>& lengths,
                               std::int64_t trials, std::uint64_t seed) {
  const TaskInfo& info = task.info();
  std::vector<Json> rows{{{"kind", "task"},
                          {"task", info.reference.empty() ? info.key : info.reference},
                          {"source", "phasescope, seed " + std::to_string(seed)},
                          {"seed", seed}}};
  std::int64_t number = 0;
  for (const Ids& length : lengths) {
    for (std::int64_t n = 0; n < trials; ++n) {
      Json row = task.row(task.draw(seed, length, static_cast<std::uint64_t>(n)));
      row["kind"] = "example";
      row["row"] = number++;
      if (!row.contains("length")) row["length"] = length[0];
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace phasescope::tasks
