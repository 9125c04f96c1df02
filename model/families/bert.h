#pragma once

#include "model/families/family.h"
#include "model/families/family_reader.h"

namespace phasescope::model {

// BERT: an encoder with learned positions and token types, norms after the branches.
Family bert_family();

// What its relatives share: sizes and structure, and names with or without the model's in front.
void read_bert(FamilyReader& reading);
TensorPlace bert_place(const std::string& name);

}  // namespace phasescope::model
