#include "model/loss.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "formats/error.h"

namespace phasescope::model {
namespace {

// The decoder of an encoder-decoder reads the text one token later: row i speaks of token i.
bool reads_one_later(const Decoder& decoder) { return decoder.config().encoder_layers > 0; }

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double smoothing) {
  return at::cross_entropy_loss(logits.flatten(0, -2), targets.flatten().to(logits.device()), {},
                                at::Reduction::Mean, -1, smoothing);
}

at::Tensor token_losses_of(const Decoder& decoder, const at::Tensor& hidden, const at::Tensor& ids,
                           const ForwardOptions& options) {
  const ModelConfig& config = decoder.config();
  if (!config.attention.causal) {
    throw formats::Error("not_applicable",
                         "a model that sees both ways has no loss of the next token", "loss");
  }
  const std::int64_t predicted = ids.size(1) - 1;
  const std::int64_t later = reads_one_later(decoder) ? 1 : 0;
  constexpr std::int64_t kBudget = std::int64_t{16} << 20;  // logits held at once
  const std::int64_t step = std::max<std::int64_t>(
      1, kBudget / (decoder.config().vocab_size * std::max<std::int64_t>(1, ids.size(0))));
  std::vector<at::Tensor> parts;
  const at::Tensor all = ids.to(hidden.device());
  for (std::int64_t begin = 0; begin < predicted; begin += step) {
    const std::int64_t end = std::min(predicted, begin + step);
    const at::Tensor logits = decoder.logits(hidden.slice(1, begin + later, end + later), options);
    const at::Tensor targets = all.slice(1, begin + 1, end + 1).unsqueeze(-1);
    parts.push_back(at::logsumexp(logits, -1) - logits.gather(-1, targets).squeeze(-1));
  }
  if (parts.empty()) return at::empty({ids.size(0), 0}, hidden.options());
  return at::cat(parts, 1);
}

at::Tensor token_losses(const Decoder& decoder, const at::Tensor& ids,
                        const ForwardOptions& options, Observer* observer) {
  const bool whole = reads_one_later(decoder) || ids.size(1) < 2;
  const at::Tensor read = whole ? ids : ids.slice(1, 0, -1);
  return token_losses_of(decoder, decoder.hidden(read, options, observer), ids, options);
}

}  // namespace phasescope::model
