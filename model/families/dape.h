#pragma once

#include <optional>
#include <string>

#include "formats/hf_config.h"
#include "model/families/family_reader.h"

// Position modules of the GPT-NeoX copy in the public code of CAPE (chuanyang-Zheng/DAPE):
// `pos_emb` of the configuration names one, whose tensors stand in each layer's attention.

namespace phasescope::model {

// What `pos_emb` names, with its options; nullopt for a rotation, which GPT-NeoX has itself, and
// where the configuration has no pos_emb. Names that cannot be read are a problem that lists those
// that can. Switches on the layers' gain where the configuration has query-key layer scaling.
// `module` is set to the module's name in the attention ("kerple_c").
std::optional<EncodingConfig> read_dape(FamilyReader& reading, const FamilyInput& input,
                                        std::string& module);

// The place of a tensor of `module`; with an empty name for others.
TensorPlace dape_place(const NameParts& name, const std::string& module);

}  // namespace phasescope::model
