#include <algorithm>
#include <map>
#include <utility>

#include "formats/error.h"
#include "formats/near_names.h"
#include "tasks/factories.h"
#include "tasks/task.h"

namespace phasescope::tasks {
namespace {

std::vector<std::unique_ptr<Task>> made() {
  using Factory = std::unique_ptr<Task> (*)();
  constexpr Factory factories[] = {
      addition, passkey, needle, needle_noise,
      // Chomsky hierarchy, in the order of the table
      even_pairs, parity_check, cycle_navigation, modular_arithmetic_simple, modular_arithmetic,
      solve_equation, stack_manipulation, reverse_string, duplicate_string, missing_duplicate,
      odds_first, binary_addition, binary_multiplication, compute_sqrt, bucket_sort,
      // word problem
      s5, s5_identity,
      // transduction
      seq_copy, seq_reverse, seq_repeat, tree_copy, tree_copy_depth, tree_rotate, tree_rotate_depth,
      tree_c3, tree_c3_depth, tree_ops, tree_ops_depth,
      // images
      shapes, cifar10};
  std::vector<std::unique_ptr<Task>> tasks;
  for (const Factory factory : factories) tasks.push_back(factory());
  return tasks;
}

// The likeliest symbol of every place in the first half of the samples.
std::vector<std::int64_t> likeliest(const Task& task, const Ids& length, std::int64_t samples) {
  std::vector<std::map<std::int64_t, std::int64_t>> seen;
  for (std::int64_t n = 0; n < samples / 2; ++n) {
    const Sample sample = task.draw(0, length, static_cast<std::uint64_t>(n));
    seen.resize(std::max(seen.size(), sample.target.size()));
    for (std::size_t t = 0; t < sample.target.size(); ++t) {
      if (sample.counts[t] != 0) ++seen[t][sample.target[t]];
    }
  }
  std::vector<std::int64_t> answers;
  for (const auto& place : seen) {
    const auto most = std::ranges::max_element(place, {}, [](const auto& p) { return p.second; });
    answers.push_back(most == place.end() ? 0 : most->first);
  }
  return answers;
}

}  // namespace

const char* name_of(Form form) {
  constexpr const char* names[] = {"causal", "placeholders", "encoder_decoder", "text", "image"};
  return names[static_cast<int>(form)];
}

Score score_of(const Sample& sample, const Ids& answers) {
  Score score;
  for (std::size_t t = 0; t < sample.target.size(); ++t) {
    if (sample.counts[t] == 0) continue;
    const bool right = t < answers.size() && answers[t] == sample.target[t];
    score.correct += right ? 1 : 0;
    score.exact = score.exact && right;
    ++score.counted;
  }
  return score;
}

void Task::check_length(const Ids& length) const {
  const TaskInfo& i = info();
  const auto wrong = [&](const std::string& what) {
    const std::string numbers = i.dimensions == 1 ? "one number" : "two numbers";
    return formats::bad_usage("a length of " + i.key + " is " + numbers + " of " + i.length_unit +
                                  " from " + std::to_string(i.shortest) + " to " +
                                  std::to_string(i.longest) + ", not " + what,
                              "length");
  };
  if (static_cast<std::int64_t>(length.size()) != i.dimensions) {
    throw wrong(length.size() == 1 ? "one" : std::to_string(length.size()) + " numbers");
  }
  for (const std::int64_t part : length) {
    if (part < i.shortest || part > i.longest) throw wrong(std::to_string(part));
  }
}

Sample Task::draw(std::uint64_t seed, const Ids& length, std::uint64_t index) const {
  check_length(length);
  Random random(seed, length, index);
  Sample sample = drawn(length, random);
  sample.length = length;
  return sample;
}

std::int64_t Task::vocabulary() const {
  const TaskInfo& i = info();
  if (i.form == Form::image) return i.output_symbols + 1;
  const std::int64_t read = i.input_symbols + (i.form == Form::placeholders ? 1 : 0);
  return std::max(read, i.output_symbols);
}

Ids Task::read_by_model(const Sample& sample) const {
  if (info().form == Form::image) {
    return Ids(static_cast<std::size_t>(info().image.pieces()), info().output_symbols);
  }
  Ids ids = sample.input;
  if (info().form == Form::placeholders) {
    ids.resize(ids.size() + sample.target.size(), placeholder());
  }
  return ids;
}

bool sees_both_ways(const Task& task) {
  return task.info().form == Form::placeholders || task.info().form == Form::image;
}

std::vector<float> pieces_of(const ImageShape& shape, const Ids& pixels) {
  if (static_cast<std::int64_t>(pixels.size()) != shape.rows * shape.columns * shape.channels) {
    throw formats::internal_error("an image has not the pixels of its shape");
  }
  const auto steps = static_cast<float>(shape.levels - 1);
  std::vector<float> pieces;
  for (std::int64_t n = 0; n < shape.pieces(); ++n) {
    const std::int64_t top = n / shape.grid_columns() * shape.stride;
    const std::int64_t left = n % shape.grid_columns() * shape.stride;
    for (std::int64_t row = top; row < top + shape.side; ++row) {
      const std::int64_t first = (row * shape.columns + left) * shape.channels;
      for (std::int64_t at = first; at < first + shape.side * shape.channels; ++at) {
        const auto level = static_cast<float>(pixels[static_cast<std::size_t>(at)]);
        pieces.push_back(2 * level / steps - 1);
      }
    }
  }
  return pieces;
}

const std::vector<std::unique_ptr<Task>>& all_tasks() {
  static const std::vector<std::unique_ptr<Task>> tasks = made();
  return tasks;
}

const Task* find_task(const std::string& name) {
  for (const auto& task : all_tasks()) {
    const TaskInfo& info = task->info();
    if (info.key == name || std::ranges::find(info.aliases, name) != info.aliases.end()) {
      return task.get();
    }
  }
  return nullptr;
}

const Task& task_named(const std::string& name) {
  if (const Task* task = find_task(name)) return *task;
  std::vector<std::string> known;
  for (const auto& task : all_tasks()) known.push_back(task->info().key);
  throw formats::bad_usage("no such task: \"" + name + "\"", "task",
                           formats::hint_of_names({name}, known));
}

double estimated_blind(const Task& task, const Ids& length, std::int64_t samples) {
  const std::vector<std::int64_t> answers = likeliest(task, length, samples);
  Score all;
  for (std::int64_t n = samples / 2; n < samples; ++n) {
    const Score one = score_of(task.draw(0, length, static_cast<std::uint64_t>(n)), answers);
    all.correct += one.correct, all.counted += one.counted;
  }
  return all.share();
}

}  // namespace phasescope::tasks
