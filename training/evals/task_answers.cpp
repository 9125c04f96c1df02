#include "training/evals/task_answers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "tasks/vocabulary.h"
#include "training/task_data.h"

namespace phasescope::training {
namespace {

at::Tensor rows_tensor(std::vector<std::int64_t>& values, std::int64_t rows, std::int64_t columns) {
  return at::from_blob(values.data(), {rows, columns}, at::kLong);
}

// `hidden`: rows from that of the first target on. Where the task has ids of its own, those that
// are no answers have no say, as in public code, whose heads have rows for answers alone.
Answers answers_in(const model::Decoder& decoder, const at::Tensor& hidden, const tasks::Task& task,
                   const tasks::Sample& sample, const model::ForwardOptions& options) {
  const auto first = std::ranges::find(sample.counts, 1) - sample.counts.begin();
  const auto count = static_cast<std::int64_t>(sample.target.size());
  at::Tensor logits = decoder.logits(hidden.slice(0, first, count), options).to(at::kDouble).cpu();
  if (tasks::has_own_ids(task)) logits = logits.slice(-1, 0, task.info().output_symbols);
  const at::Tensor targets = at::tensor(sample.target).slice(0, first);
  const at::Tensor losses =
      (at::logsumexp(logits, -1) - logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1))
          .contiguous();
  const at::Tensor likeliest = logits.argmax(-1).contiguous();
  Answers answers{.ids = tasks::Ids(static_cast<std::size_t>(first), -1),
                  .losses = std::vector<double>(static_cast<std::size_t>(first))};
  const std::int64_t known = count - first;
  const auto* ids = likeliest.data_ptr<std::int64_t>();
  answers.ids.insert(answers.ids.end(), ids, ids + known);
  const auto* nats = losses.data_ptr<double>();
  answers.losses.insert(answers.losses.end(), nats, nats + known);
  answers.score = tasks::score_of(sample, answers.ids);
  for (std::size_t t = 0; t < sample.target.size(); ++t) {
    if (sample.counts[t] != 0) answers.nats += answers.losses[t];
  }
  return answers;
}

}  // namespace

void add_to(model::ForwardOptions& options, Batch& batch) {
  if (!batch.key_mask.empty()) {
    options.key_mask = rows_tensor(batch.key_mask, batch.windows, batch.length);
  }
  if (!batch.documents.empty()) {
    options.document_ids = rows_tensor(batch.documents, batch.windows, batch.length);
  }
  if (batch.decoder_length > 0) {
    options.decoder_ids = rows_tensor(batch.decoder_ids, batch.windows, batch.decoder_length);
  }
  if (!batch.positions.empty()) {
    options.position_ids = rows_tensor(batch.positions, batch.windows, batch.length);
  }
  if (!batch.decoder_positions.empty()) {
    options.decoder_position_ids =
        rows_tensor(batch.decoder_positions, batch.windows, batch.decoder_length);
  }
  if (!batch.cells.empty()) options.grid_positions = rows_tensor(batch.cells, batch.length, 2);
  if (batch.piece > 0) {
    options.patches =
        at::from_blob(batch.pieces.data(), {batch.windows, batch.length, batch.piece}, at::kFloat);
  }
}

std::vector<Answers> answers_of(const model::Decoder& decoder, const tasks::Task& task,
                                std::span<const tasks::Sample> samples,
                                model::ForwardOptions options) {
  const at::NoGradGuard no_gradients;
  Batch batch = batch_of(task, samples, Counted::in_metric, decoder.encoding().info().places);
  add_to(options, batch);
  const at::Tensor read = rows_tensor(batch.inputs, batch.windows, batch.length);
  const at::Tensor hidden = decoder.pooled(decoder.hidden(read, options), options.key_mask);
  std::vector<Answers> all;
  for (std::size_t n = 0; n < samples.size(); ++n) {
    const auto place = static_cast<std::int64_t>(first_answer(task, samples[n]));
    all.push_back(answers_in(decoder, hidden[static_cast<std::int64_t>(n)].slice(0, place), task,
                             samples[n], options));
  }
  return all;
}

}  // namespace phasescope::training
