#include "tasks/named_sample.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "formats/error.h"

namespace phasescope::tasks {
namespace {

constexpr std::int64_t kShownLength = 8;

std::vector<std::string> parts_of(const std::string& words, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : words) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::int64_t number_of(std::string_view word, const std::string& whole, const std::string& option) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error == std::errc() && end == word.data() + word.size() && number >= 0) return number;
  throw formats::bad_usage("expected whole numbers but got \"" + whole + "\"", option);
}

}  // namespace

Ids shown_length(const Task& task) {
  const TaskInfo& info = task.info();
  const auto usual = std::clamp(kShownLength, info.shortest, info.longest);
  return Ids(static_cast<std::size_t>(info.dimensions), usual);
}

Ids length_of_words(const std::string& words, const std::string& option) {
  Ids length;
  for (const std::string& word : parts_of(words, ',')) {
    length.push_back(number_of(word, words, option));
  }
  return length;
}

void check_given_length(const Task& task, const Ids& length, const std::string& option) {
  try {
    task.check_length(length);
  } catch (const formats::Error& error) {
    throw formats::bad_usage(error.message(), option);
  }
}

NamedSample named_sample(const std::string& words) {
  const std::vector<std::string> parts = parts_of(words, ':');
  if (parts.size() > 3) {
    throw formats::bad_usage("a sample is TASK:SEED or TASK:SEED:LENGTH, not \"" + words + "\"",
                             "--sample");
  }
  NamedSample named;
  named.task = &task_named(parts[0]);
  if (parts.size() > 1) {
    named.seed = static_cast<std::uint64_t>(number_of(parts[1], words, "--sample"));
  }
  const Ids length =
      parts.size() > 2 ? length_of_words(parts[2], "--sample") : shown_length(*named.task);
  check_given_length(*named.task, length, "--sample");
  named.sample = named.task->draw(named.seed, length, 0);
  return named;
}

}  // namespace phasescope::tasks
