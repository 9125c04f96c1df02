#include "analysis/content_attention.h"

#include <ATen/ATen.h>

namespace phasescope::analysis {

bool content_is_score(const model::AttentionProgram& program) {
  return program.is<model::PlainProgram>() && !program.transformed && program.soft_cap == 0 &&
         !program.tokens.defined();
}

model::LayerAttention content_attention(const model::LayerAttention& attention) {
  const model::AttentionProgram& from = attention.program();
  model::AttentionProgram program;
  const auto* tapa = from.as<model::TapaProgram>();
  const at::Tensor &q = from.content_q(), &k = from.content_k();
  const std::int64_t begin = from.content_from;
  const std::int64_t channels = tapa != nullptr ? tapa->content_dim : q.size(-1) - begin;
  program.q = program.q_plain = q.narrow(-1, begin, channels);
  program.k = program.k_plain = k.narrow(-1, begin, channels);
  // Without a term, no correction reads A / gain.
  program.scale = tapa != nullptr ? tapa->scale_content : from.scale * from.gain;
  program.positions = from.positions;
  program.causal = from.causal;
  program.window = from.window;
  program.key_mask = from.key_mask;
  program.query_offset = from.query_offset;
  program.documents = from.documents;
  program.mask = from.mask;
  program.sinks = from.sinks;
  return {attention.layer(),   program,
          attention.v(),       attention.lse(),
          attention.entropy(), attention.is_fused() ? model::Backend::fused : model::Backend::plain,
          attention.ran()};
}

}  // namespace phasescope::analysis
