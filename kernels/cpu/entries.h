#pragma once
// One instantiation of a kernel a file; each picks the target it runs on.

#include "kernels/attention.h"

namespace phasescope::kernels {

void forward_plain(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes);
void forward_table(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes);
void forward_tapa(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes);
void forward_tapa_linear(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes);
void forward_tape(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes);
void forward_cape(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes);

}  // namespace phasescope::kernels
