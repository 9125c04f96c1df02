#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/tensors/safetensors.h"

namespace phasescope::formats {

// The plain checkpoint behind one that is kept in fewer bits: tensors under their plain names and
// shapes, decoded as they are read (F32, `decoded`, with the format as dtype_name: "GPTQ int4"),
// and what was plain already. `config` is the whole config.json, whose quantization_config says
// how; a checkpoint without one comes back as it is. `where` names the file. Throws Error
// "bad_input": a quant_method that is not known (all that are, are listed), settings or tensors
// that do not fit. `notes` takes remarks for the load report.
TensorArchive dequantised(TensorArchive stored, const Json& config, const std::string& where,
                          std::vector<std::string>& notes);

// Of a configuration by itself: why its weights would be refused, where their quant_method is not
// known or its settings say what cannot be read.
std::optional<std::string> refused_quantisation(const Json& config);

// How many tensors were decoded from what: {"Q4_K", 5}, {"Q6_K", 2}.
std::map<std::string, std::int64_t> decoded_tensors(const std::vector<TensorEntry>& tensors);
// "from Q4_K (5 tensors) and Q6_K (2 tensors)"; empty where nothing was decoded.
std::string decoded_label(const std::map<std::string, std::int64_t>& tensors);

}  // namespace phasescope::formats
