#pragma once
// What a training begins with: drawn weights, or those of a model that is there with another
// encoding, context or scaling in place of its own.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/checkpoints/open_model.h"
#include "model/decoder.h"
#include "training/run_config.h"

namespace phasescope::training {

// The configuration of a run's model. Throws Error "bad_input" listing all problems, options that
// the encoding does not know among them.
model::ModelConfig model_config_of(const RunConfig& config);

// Throws Error "bad_input" for a pattern of start.train, start.freeze or start.lora that names
// nothing which a model of this configuration can have: before there are weights, which may lack
// some of it.
void check_patterns(const StartSection& start, const model::ModelConfig& config);

// A configuration that begins with a model, with the opened model's own sizes as its model section,
// and the model's encoding and positions where it names none; others as they are.
nlohmann::json filled_in_from_model(nlohmann::json given);

// The run configuration of a file, with what it leaves out as above. Throws Error "bad_input".
RunConfig whole_run_config(const std::filesystem::path& file);

// The model that the weights come from, in float32; null where they are drawn. Throws Error
// "bad_input" where it is not the one that the configuration has noted.
std::shared_ptr<const model::Model> opened_start(const RunConfig& config);

// What texts are read with: the tokenizer of the model that training begins with, of a drawn one
// that of data.tokenizer. Null for bytes. Throws Error "bad_input" where there is no such file,
// where it has more ids than model.vocab_size, and where it is not the one that the configuration
// has noted.
std::shared_ptr<const formats::Tokenizer> text_tokenizer(const RunConfig& config,
                                                         const model::Model* from);

// The file of data.tokenizer. Throws Error "bad_input" where there is none.
std::filesystem::path tokenizer_file(const DataSection& data);

// The decoder before the first step. Tensors of `from` are copied; those that an encoding has of
// its own and `from` has not begin as drawn. Throws Error "bad_input" for tensors of other sizes.
model::Decoder start_decoder(const RunConfig& config, const model::Model* from);

// The names of the tensors that are trained, by start.train and start.freeze, in the order of the
// file; with start.lora_rank those that are trained whole. Throws Error "bad_input" for a pattern
// that names no tensor.
std::vector<std::string> trained_names(const StartSection& start, const model::Decoder& decoder);

}  // namespace phasescope::training
