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
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"
#include "protocol/messages/questions.h"
#include "worker/handlers.h"

namespace phasescope::worker {

// What is read where a request has no `input`: the text of a first session, or the bundled
// validation texts.
enum class DefaultInput { first_session, validation_texts };
// Tokens that a file's attention_mask hides are left out of the texts, where they keep the
// positions they have there; or they stay, for who passes the mask on.
enum class Padding { leave_out, keep };

// The texts of `reading`, or of `corpus` where that is asked for. Texts get the tokenizer's own
// template and are cut to `length` (default: the model's trained context), which the note says; ids
// are read whole, but for a `length` that is asked for. Where no input is given, a model without a
// tokenizer reads seeded random ids, and one that was trained on a task samples of it; a tensor
// input_ids that came with the request is read before a file of inputs. Throws Error "bad_input"
// for an empty text, unreadable input and ids outside the vocabulary.
analysis::Texts read_input(const protocol::Reading& reading, const protocol::Corpus& corpus,
                           RequestContext& context, const model::Model& model,
                           DefaultInput fallback, Padding padding = Padding::leave_out);

using IdLists = std::vector<std::vector<std::int64_t>>;
// The lists of an input of ids. Throws Error "bad_input" for anything but lists of whole numbers.
IdLists id_lists(const protocol::Input& input);

// Throws Error "bad_input" where a file of inputs or a sample of a task has given the texts more
// than ids; `what` names the method that does not read it.
void require_ids_alone(const analysis::Texts& texts, const std::string& what);

// The texts of a question: what was given is read whole, of a corpus every step-th text. Throws
// Error "bad_usage" where none is chosen, and "bad_input" for more than ids.
analysis::Texts question_texts(const protocol::QuestionTexts& reading, RequestContext& context,
                               const model::Model& model);
std::vector<std::string> names_of(const analysis::Texts& texts);

// The first of several texts, with a note that the others are not read.
analysis::Texts only_first(analysis::Texts texts);
// Says that it is, where there are several and `part`, a result's, is of the first alone.
void note_first(analysis::Texts& texts, const std::string& part = "");

// Sidecar facts of a result. `command`: the command line that asks the same; `ran`:
// attention; left out where a method runs none. Made when the result is there: throws Error
// "bad_input" where a model's file has changed since it was opened.
struct Asked {
  std::string command;
  std::int64_t seed = 0;
};
template <class R>
Asked asked(const R& request) {
  Asked out{protocol::command_line(request)};
  if constexpr (requires { request.reading.seed; }) out.seed = request.reading.seed;
  if constexpr (requires { request.seed; }) out.seed = request.seed;
  return out;
}
protocol::Provenance provenance_of(const Asked& asked, RequestContext& context,
                                   const std::vector<std::shared_ptr<const model::Model>>& models,
                                   const analysis::Texts* texts);
protocol::Provenance provenance_of(const Asked& asked, RequestContext& context,
                                   const std::vector<std::shared_ptr<const model::Model>>& models,
                                   const analysis::Texts* texts, std::vector<protocol::Ran> ran);

// Throws Error "bad_usage" where no model is named, and "bad_input" for one that is not there,
// which nothing need be measured to know.
void require_models(const std::vector<std::string>& names);

}  // namespace phasescope::worker
