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
  program.q = program.q_plain = attention.q();
  program.k = program.k_plain = attention.k();
  program.scale = from.scale * from.gain;  // without a term, no correction reads A / gain
  if (const auto* tapa = from.as<model::TapaProgram>()) {
    program.q = program.q_plain = attention.q().narrow(-1, 0, tapa->content_dim);
    program.k = program.k_plain = attention.k().narrow(-1, 0, tapa->content_dim);
    program.scale = tapa->scale_content;
  }
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
