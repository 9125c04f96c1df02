// What a request reads: its texts, ids or corpus, by the rules of the command line.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "model/checkpoints/open_model.h"
#include "protocol/messages/provenance.h"
#include "worker/handlers.h"

namespace phasescope::worker {

// What is read where a request has no `input`: the text of a first session, or the bundled
// validation texts.
enum class DefaultInput { first_session, validation_texts };
// Tokens that a file's attention_mask hides are left out of the texts, where they keep the
// positions they have there; or they stay, for who passes the mask on.
enum class Padding { leave_out, keep };

// `input` is an object with one of
//   "text", "prompt": the text itself; "name" may name it
//   "base64": the same where its bytes are no UTF-8, which models of bytes read
//   "ids": a list of ids, or lists of them; "name" is the file they are from
//   "inputs": path of a safetensors file with `input_ids` (B, N) and, where the model takes them,
//             attention_mask, position_ids, token_type_ids, decoder_input_ids; a tensor input_ids
//             that came with the request is read before it
//   "corpus": true for the bundled validation texts, a list of texts or of {"name", "text"}, or the
//             path of a .jsonl file of such objects
// A top-level "corpus": true means the bundled validation texts too. Texts get the tokenizer's own
// template; everything is cut to `length` (default: the model's trained context), which the note
// says. A model without a tokenizer reads seeded random ids where no input is given. Throws Error
// "bad_input" for an empty text, unreadable input and ids outside the vocabulary.
analysis::Texts read_input(const nlohmann::json& params, RequestContext& context,
                           const model::Model& model, DefaultInput fallback,
                           Padding padding = Padding::leave_out);

// The text of an `input`, of whichever key; nothing where it gives something else.
std::optional<formats::NamedText> given_text(const nlohmann::json& input);

using IdLists = std::vector<std::vector<std::int64_t>>;
// The lists of an `input` of "ids". Throws Error "bad_input" for anything but lists of whole
// numbers.
IdLists id_lists(const nlohmann::json& input);

// Throws Error "bad_input" where a file of inputs has given the texts more than ids; `what` names
// the method that does not read it.
void require_ids_alone(const analysis::Texts& texts, const std::string& what);

// The first of several texts, with a note that the others are not read.
analysis::Texts only_first(analysis::Texts texts);

// {"backend": a name as model::backend_named() has them}; fused where nothing is said.
model::Backend backend_of(const nlohmann::json& params);

// Sidecar facts of a result: models, hashes, text, versions, seed. `kernel`: what ran.
protocol::Provenance provenance_of(const std::string& method, const nlohmann::json& params,
                                   RequestContext& context,
                                   const std::vector<std::shared_ptr<const model::Model>>& models,
                                   const analysis::Texts* texts, const std::string& kernel);

// `params` with its "model" replaced: for requests about several models.
nlohmann::json params_for(const nlohmann::json& params, const std::string& model);

// "models" (a list or one name) or "model". Throws Error "bad_usage" where there is none.
std::vector<std::string> model_names(const nlohmann::json& params);

// [begin, end] of a parameter that is a list of two integers or "a:b"; nothing where it is absent.
std::optional<std::pair<std::int64_t, std::int64_t>> range_param(const nlohmann::json& params,
                                                                 const char* name);

// A list of strings, or one string with commas; empty where absent.
std::vector<std::string> words_param(const nlohmann::json& params, const char* name);

// A list of integers, or one integer; nothing where absent.
std::optional<std::vector<std::int64_t>> integers_param(const nlohmann::json& params,
                                                        const char* name);

}  // namespace phasescope::worker
