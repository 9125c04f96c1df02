#include "training/task_data.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "formats/counter_random.h"
#include "formats/error.h"
#include "formats/sha256.h"
#include "formats/utf8.h"
#include "tasks/vocabulary.h"

namespace phasescope::training {
namespace {

using tasks::Form;
using tasks::Ids;
using tasks::Sample;
using tasks::Task;

// Streams of train.seed; the first four are the corpus' and the trainer's.
constexpr std::uint64_t kLengthStream = 5, kSampleStream = 6, kValidationStream = 7;
constexpr std::uint64_t kOrderStream = 8, kImageStream = 11;
constexpr int kSamplesOfALength = 32;  // looked at for the context

// The ids of `answer` behind the last word of `prompt`.
Ids answer_ids(const formats::Tokenizer& tokenizer, const std::string& prompt,
               const std::string& answer) {
  const std::size_t blank = prompt.find_last_of(" \n");
  const std::string word = prompt.substr(blank == prompt.npos ? 0 : blank + 1);
  const auto ids_of = [&](const std::string& text) {
    return tokenizer.encode(text, formats::Template::leave_out).ids;
  };
  const Ids before = ids_of(word);
  const Ids both = ids_of(word + (answer.starts_with(' ') ? "" : " ") + answer);
  if (both.size() > before.size() &&
      std::ranges::equal(before, std::span(both).first(before.size()))) {
    return {both.begin() + static_cast<std::ptrdiff_t>(before.size()), both.end()};
  }
  throw formats::bad_input("the tokenizer joins the answer to the word before it",
                           formats::shortened(word + " " + answer));
}

bool needs_mask(Form form) { return form == Form::placeholders || form == Form::encoder_decoder; }

// Row and column of each piece.
std::vector<std::int64_t> cells_of(const tasks::ImageShape& image) {
  std::vector<std::int64_t> cells;
  for (std::int64_t n = 0; n < image.pieces(); ++n) {
    cells.push_back(n / image.grid_columns());
    cells.push_back(n % image.grid_columns());
  }
  return cells;
}

// The places that an encoding of this configuration knows; a line's where there is none.
model::Places places_of(const RunConfig& config) {
  const auto* entry = model::find_encoding(config.encoding.value("key", std::string()));
  return entry == nullptr ? model::Places::line : entry->info->places;
}

// Rows side by side; short ones end in `fill`.
std::vector<std::int64_t> rows_of(std::span<const Ids> rows, std::size_t length,
                                  std::int64_t fill) {
  std::vector<std::int64_t> all;
  all.reserve(rows.size() * length);
  for (const Ids& row : rows) {
    all.insert(all.end(), row.begin(), row.end());
    all.insert(all.end(), length - row.size(), fill);
  }
  return all;
}

std::size_t longest_of(std::span<const Ids> rows) {
  std::size_t longest = 0;
  for (const Ids& row : rows) longest = std::max(longest, row.size());
  return longest;
}

void add_mask(std::span<const Ids> rows, Batch& batch) {
  const auto length = static_cast<std::size_t>(batch.length);
  if (std::ranges::all_of(rows, [&](const Ids& row) { return row.size() == length; })) return;
  for (const Ids& row : rows) {
    batch.key_mask.insert(batch.key_mask.end(), row.size(), 1);
    batch.key_mask.insert(batch.key_mask.end(), length - row.size(), 0);
  }
}

void add_images(const tasks::ImageShape& image, std::span<const Sample> samples,
                model::Places places, Batch& batch) {
  batch.piece = image.side * image.side * image.channels;
  for (const Sample& sample : samples) {
    const std::vector<float> pieces = tasks::pieces_of(image, sample.input);
    batch.pieces.insert(batch.pieces.end(), pieces.begin(), pieces.end());
  }
  if (places == model::Places::grid) batch.cells = cells_of(image);
}

}  // namespace

Sample as_ids(const Task& task, Sample sample, const formats::Tokenizer* tokenizer) {
  if (task.info().form != Form::text) return sample;
  if (tokenizer == nullptr) throw formats::bad_input("the model has no tokenizer", task.info().key);
  Ids ids;
  if (const auto bos = tokenizer->bos_id()) ids.push_back(*bos);
  const Ids prompt = tokenizer->encode(sample.prompt, formats::Template::leave_out).ids;
  const Ids answer = answer_ids(*tokenizer, sample.prompt, sample.answer);
  ids.insert(ids.end(), prompt.begin(), prompt.end());
  const std::size_t read = ids.size();
  ids.insert(ids.end(), answer.begin(), answer.end());
  sample.input.assign(ids.begin(), ids.end() - 1);
  sample.target.assign(ids.begin() + 1, ids.end());
  sample.counts.assign(sample.target.size(), 0);
  std::fill(sample.counts.begin() + static_cast<std::ptrdiff_t>(read) - 1, sample.counts.end(), 1);
  return sample;
}

Ids moved_image(const tasks::ImageShape& shape, const Ids& pixels, std::int64_t down,
                std::int64_t right, bool mirrored) {
  Ids moved;
  moved.reserve(pixels.size());
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t column = 0; column < shape.columns; ++column) {
      const std::int64_t from_row = row - down;
      const std::int64_t across = (mirrored ? shape.columns - 1 - column : column) - right;
      const bool inside =
          from_row >= 0 && from_row < shape.rows && across >= 0 && across < shape.columns;
      const std::int64_t first = (from_row * shape.columns + across) * shape.channels;
      for (std::int64_t c = 0; c < shape.channels; ++c) {
        moved.push_back(inside ? pixels[static_cast<std::size_t>(first + c)] : 0);
      }
    }
  }
  return moved;
}

std::size_t first_answer(const Task& task, const Sample& sample) {
  return task.info().form == Form::placeholders ? sample.input.size() : 0;
}

Batch batch_of(const Task& task, std::span<const Sample> samples, Counted counted,
               model::Places places) {
  const Form form = task.info().form;
  const bool all = counted == Counted::in_training && form == Form::placeholders;
  std::vector<Ids> read, decoded, answers, places_read, places_decoded;
  for (const Sample& sample : samples) {
    read.push_back(task.read_by_model(sample));
    if (form == Form::encoder_decoder) decoded.push_back(sample.decoder_input);
    if (places == model::Places::tree && !sample.input_places.empty()) {
      places_read.push_back(sample.input_places);
      places_decoded.push_back(sample.decoder_places);
    }
    Ids& row = answers.emplace_back(first_answer(task, sample), -1);
    for (std::size_t t = 0; t < sample.target.size(); ++t) {
      row.push_back(all || sample.counts[t] != 0 ? sample.target[t] : -1);
    }
  }
  Batch batch{.windows = static_cast<std::int64_t>(samples.size()),
              .length = static_cast<std::int64_t>(longest_of(read)),
              .decoder_length = static_cast<std::int64_t>(longest_of(decoded))};
  const std::int64_t padding = task.info().padding;
  batch.inputs = rows_of(read, static_cast<std::size_t>(batch.length), padding);
  batch.decoder_ids = rows_of(decoded, static_cast<std::size_t>(batch.decoder_length), padding);
  if (form == Form::image) add_images(task.info().image, samples, places, batch);
  batch.targets = rows_of(answers, static_cast<std::size_t>(batch.answers()), -1);
  // Padding stands outside the tree.
  batch.positions = rows_of(places_read, static_cast<std::size_t>(batch.length), 0);
  batch.decoder_positions =
      rows_of(places_decoded, static_cast<std::size_t>(batch.decoder_length), 0);
  if (needs_mask(form)) add_mask(read, batch);
  return batch;
}

TaskData::TaskData(const RunConfig& config)
    : task_(tasks::task_named(config.task.name)),
      section_(config.task),
      steps_(config.train.steps),
      context_(config.model.context),
      tested_(config.eval.windows),
      seed_(static_cast<std::uint64_t>(config.train.seed)),
      sample_seed_(formats::CounterRandom(seed_, kSampleStream).bits(0)),
      validation_seed_(formats::CounterRandom(seed_, kValidationStream).bits(0)),
      places_(places_of(config)),
      bytes_(256, config.data.bos),
      sha256_(fingerprint()) {
  check_context();
}

Sample TaskData::sample(std::uint64_t seed, const Ids& length, std::uint64_t index) const {
  return as_ids(task_, task_.draw(seed, length, index), &bytes_);
}

std::int64_t TaskData::longest_at(std::int64_t step) const {
  const std::int64_t first = section_.longest_at_first;
  const double grown = section_.growth * static_cast<double>(steps_);
  if (first == 0 || static_cast<double>(step) >= grown) return section_.longest;
  const double way = static_cast<double>(step) / grown;
  return first + static_cast<std::int64_t>(way * static_cast<double>(section_.longest - first));
}

// All parts alike in distribution, each of its own draw.
Ids TaskData::drawn_length(std::uint64_t seed, std::int64_t step, std::int64_t row) const {
  const bool together = section_.draw == "step";
  const std::int64_t parts = task_.info().dimensions;
  const formats::CounterRandom random(seed, kLengthStream);
  // Two numbers a part, which a normal draw takes.
  const std::int64_t of_row = step * section_.batch + (together ? 0 : row);
  auto at = static_cast<std::uint64_t>(2 * parts * of_row);
  const std::int64_t longest = longest_at(step);
  Ids length;
  for (std::int64_t part = 0; part < parts; ++part, at += 2) {
    if (section_.deviation == 0) {
      const auto count = static_cast<std::uint64_t>(longest - section_.shortest + 1);
      length.push_back(section_.shortest + static_cast<std::int64_t>(random.below(count, at)));
      continue;
    }
    const double radius = std::sqrt(-2 * std::log(random.unit(at)));
    const double normal = radius * std::cos(2 * std::numbers::pi * random.unit(at + 1));
    const auto drawn = static_cast<std::int64_t>(section_.mean + section_.deviation * normal);
    length.push_back(std::clamp(drawn, section_.shortest, longest));
  }
  return length;
}

// A training image as it is moved and mirrored, by three numbers of its own.
void TaskData::move(Sample& sample, std::uint64_t seed, std::uint64_t index) const {
  if (section_.crop == 0 && !section_.flip) return;
  const formats::CounterRandom random(seed, kImageStream);
  const auto places = static_cast<std::uint64_t>(2 * section_.crop + 1);
  const auto offset = [&](std::uint64_t n) {
    return static_cast<std::int64_t>(random.below(places, 3 * index + n)) - section_.crop;
  };
  const bool mirrored = section_.flip && random.below(2, 3 * index + 2) == 1;
  sample.input = moved_image(task_.info().image, sample.input, offset(0), offset(1), mirrored);
}

Batch TaskData::batch(std::int64_t step, std::int64_t order) const {
  const bool first = order == 0;
  const std::uint64_t other =
      formats::CounterRandom(seed_, kOrderStream).bits(static_cast<std::uint64_t>(order));
  const std::uint64_t of_lengths = first ? seed_ : other;
  const std::uint64_t of_samples =
      first ? sample_seed_ : formats::CounterRandom(other, kSampleStream).bits(0);
  std::vector<Sample> samples;
  for (std::int64_t row = 0; row < section_.batch; ++row) {
    const auto index = static_cast<std::uint64_t>(step * section_.batch + row);
    samples.push_back(sample(of_samples, drawn_length(of_lengths, step, row), index));
    move(samples.back(), of_samples, index);
  }
  return batch_of(task_, samples, Counted::in_training, places_);
}

std::vector<Sample> TaskData::validation() const {
  const bool own = section_.validation_longest > 0;
  const std::int64_t shortest = own ? section_.validation_shortest : section_.shortest;
  const std::int64_t lengths =
      (own ? section_.validation_longest : section_.longest) - shortest + 1;
  std::vector<Sample> samples;
  for (std::int64_t n = 0; n < tested_; ++n) {
    Ids length;
    std::int64_t place = n;  // counts through the cells of a grid
    for (std::int64_t part = 0; part < task_.info().dimensions; ++part, place /= lengths) {
      length.push_back(shortest + place % lengths);
    }
    samples.push_back(sample(validation_seed_, length, static_cast<std::uint64_t>(n)));
  }
  return samples;
}

void TaskData::check_context() const {
  const Ids longest(static_cast<std::size_t>(task_.info().dimensions), section_.longest);
  std::size_t most = 0;
  for (std::uint64_t n = 0; n < kSamplesOfALength; ++n) {
    const Sample one = sample(sample_seed_, longest, n);
    most = std::max({most, task_.read_by_model(one).size(), one.decoder_input.size()});
  }
  if (static_cast<std::int64_t>(most) <= context_) return;
  throw formats::bad_input("a sample of the longest length is " + std::to_string(most) +
                               " tokens, more than the " + std::to_string(context_) +
                               " of the context",
                           "model.context", "name one that holds it, or a smaller task.longest");
}

std::string TaskData::fingerprint() const {
  std::string text = task_.info().key;
  for (const std::int64_t length : {section_.shortest, section_.longest}) {
    const Ids all(static_cast<std::size_t>(task_.info().dimensions), length);
    for (std::uint64_t n = 0; n < kSamplesOfALength; ++n) {
      const Sample one = sample(sample_seed_, all, n);
      for (const Ids* ids : {&one.input, &one.target, &one.counts, &one.decoder_input,
                             &one.input_places, &one.decoder_places}) {
        if (ids->empty() && ids == &one.input_places) break;  // no tree
        text += '/';
        for (const std::int64_t id : *ids) text += ' ' + std::to_string(id);
      }
    }
  }
  return formats::sha256_hex(std::string_view(text));
}

}  // namespace phasescope::training
