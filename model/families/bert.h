#pragma once

#include "model/families/family.h"
#include "model/families/family_reader.h"

namespace phasescope::model {

// BERT: an encoder with learned positions and token types, norms after the branches.
Family bert_family();

// What its relatives share: sizes and structure, and names with or without the model's in front.
// `context`: the class's default.
void read_bert(FamilyReader& reading, std::int64_t context);
// `own_bias`: nothing is tied, and the head's bias is the file's cls.predictions.decoder.bias in
// place of cls.predictions.bias.
TensorPlace bert_place(bool own_bias, const std::string& name);
bool has_own_head_bias(FamilyReader& reading);

}  // namespace phasescope::model
