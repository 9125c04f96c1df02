#include "app/figures/model_names.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace phasescope::app {
namespace {

// A model's name without the settings in parentheses that it is read with, whatever is in them.
std::string_view without_settings(std::string_view model) {
  return model.substr(0, model.ends_with(')') ? model.rfind(" (") : std::string_view::npos);
}

// The last `parts` parts of a path, or all of it where it has no more.
std::string_view end_of_path(std::string_view path, std::size_t parts) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  std::size_t begin = path.size();
  for (std::size_t i = 0; i < parts; ++i) {
    begin = begin > 0 ? path.rfind('/', begin - 1) : std::string_view::npos;
    if (begin == std::string_view::npos) return path;
  }
  return path.substr(begin + 1);
}

// "models/rope" -> "models_rope", "rope (yarn x2)" -> "rope_yarn_x2".
std::string plain_letters(const std::string& name) {
  std::string plain;
  for (const char c : name) {
    const bool kept = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
    if (kept) {
      plain += c;
    } else if (c != ')' && !plain.ends_with('_')) {
      plain += '_';
    }
  }
  return plain;
}

}  // namespace

ModelNames::ModelNames(const std::vector<std::string>& models) {
  for (const std::string& model : models) {
    if (std::ranges::find(models_, model) == models_.end()) models_.push_back(model);
  }
  colors_ = models_;
}

ModelNames::ModelNames(const std::vector<std::string>& models, std::vector<std::string> colors,
                       std::vector<std::string> taken)
    : ModelNames(models) {
  taken_ = std::move(taken);
  for (const std::string& model : models_) {
    if (std::ranges::find(colors, model) == colors.end()) colors.push_back(model);
  }
  colors_ = std::move(colors);
}

// Two readings of one model differ by their settings; a reading and another model's by their paths,
// or nobody could tell whose weights it has.
std::string ModelNames::short_name(const std::string& model) const {
  const std::string_view path = without_settings(model);
  const auto parts = static_cast<std::size_t>(std::ranges::count(path, '/')) + 1;
  for (std::size_t taken = 1; taken <= parts; ++taken) {
    const std::string_view end = end_of_path(path, taken);
    const auto is_another = [&](const std::string& other) {
      const std::string_view its = without_settings(other);
      return its != path && end_of_path(its, taken) == end;
    };
    if (std::ranges::none_of(models_, is_another) && std::ranges::none_of(taken_, is_another)) {
      return std::string(end) + model.substr(path.size());
    }
  }
  return model;
}

std::string ModelNames::file_name(const std::string& model) const {
  const std::string name = plain_letters(short_name(model));
  std::size_t alike = 0;  // models before this one that end in the same letters
  for (const std::string& other : models_) {
    if (other == model) break;
    alike += plain_letters(short_name(other)) == name;
  }
  return alike == 0 ? name : name + "__" + std::to_string(alike + 1);
}

int ModelNames::color(const std::string& model) const {
  return static_cast<int>(std::ranges::find(colors_, model) - colors_.begin());
}

ModelNames names_in(const protocol::CompareResult& result) {
  std::vector<std::string> models{result.a, result.b};
  for (const protocol::ComparePair& pair : result.others) models.push_back(pair.b);
  return ModelNames(models);
}

namespace {

template <class Rows>
ModelNames names_of(const Rows& rows) {
  std::vector<std::string> models;
  for (const auto& row : rows) models.push_back(row.model);
  return ModelNames(models);
}

}  // namespace

ModelNames names_in(const protocol::DistanceResult& result) { return names_of(result.models); }
ModelNames names_in(const protocol::EvalResult& result) { return names_of(result.rows); }
ModelNames names_in(const protocol::ShiftResult& result) { return names_of(result.rows); }
ModelNames names_in(const protocol::TheoryResult& result) { return names_of(result.checks); }

}  // namespace phasescope::app
