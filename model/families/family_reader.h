#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/hf_config.h"
#include "model/families/family.h"

// What reading Hugging Face's configurations and tensor names shares across families.
// Sections: configuration, positions, tensor names, fused tensors.

namespace phasescope::model {

// ---- Configuration -----------------------------------------------------------------------------

// One configuration on its way to ours. Fields are read through `reader`, into `config`; finish()
// checks the whole and throws all problems at once.
class FamilyReader {
 public:
  FamilyReader(const FamilyInput& input, const char* family);
  // Reads an object inside the file ("text_config").
  FamilyReader(const FamilyInput& input, const char* family, const Json& object,
               const std::string& prefix);
  FamilyReader(const FamilyReader&) = delete;

  const formats::ConfigReader& reader() const { return reader_; }
  ModelConfig& config() { return result_.config; }
  void quirk(const std::string& sentence) { result_.quirks.push_back(sentence); }
  void warning(const std::string& sentence) { result_.warnings.push_back(sentence); }
  void problem(const std::string& key, const std::string& sentence) {
    reader_.problem(key, sentence);
  }
  // A problem where the switch is on.
  void refuse(const std::string& key, const std::string& what);

  // One of the file whose name ends so; `without_file` where the configuration is all there is.
  bool has_tensor(const std::string& ending, bool without_file = true) const;
  // Whether `architectures` names a class with a head of the vocabulary, or nothing.
  bool has_head_class() const;
  bool has_key(const std::string& key) const;  // with null too
  // A switch of which null is no, as Python has it; a warning where that is not the fallback.
  bool switch_or(const std::string& key, bool fallback);
  // The MLP's activation in our words, from its name in these files.
  std::string activation(formats::FieldNames names, const std::string& fallback);
  // LayerNorm with a bias, in place of RMSNorm.
  void layer_norm(formats::FieldNames eps_names, double eps);
  // tie_word_embeddings, and whether there is a head at all: of an untied one its tensor must be in
  // the file, of a tied one the class named in `architectures` must have one (classifiers have
  // another one).
  void read_head(const std::string& head_tensor, bool tied_by_default);
  // Layers by `layer_types`; where the file has none, those that `by_default` holds.
  void read_local_layers(bool (*by_default)(std::int64_t layer, std::int64_t argument),
                         std::int64_t argument);

  // The entries of a list with a word for each layer; a problem where one is not known, or their
  // number is wrong. None where the file has no such list. finish() asks for layer_types where the
  // family has not.
  std::optional<std::vector<std::string>> layer_types(std::initializer_list<std::string_view> known,
                                                      const std::string& key = "layer_types");
  // Whether the file says anything of rope that replaces what its class has by default: an empty
  // rope_scaling does not.
  bool says_rope() const;
  // The rope of one layer type, for classes that nest rope_parameters by it and read nothing else:
  // the defaults hold where the file has none. Of one that has, a layer type that the model has
  // layers of must be there with its base; `share`: of a head that the plain rope turns where it
  // says none.
  formats::RawRope rope_of_type(const char* layer_type, formats::RopeDefaults defaults,
                                std::optional<std::int64_t> head_dim, double share = 1);
  // Both ropes of classes that read older files too (Gemma 3 and 3n, OLMo 3): rope_theta and
  // rope_scaling are of the layers that see all, `local_name` is the base of the others (empty: the
  // class's own). What rope_parameters has outside the layer types is not read, and finish() says
  // so.
  void read_ropes_by_type(double theta, double local_theta, const std::string& local_name);
  // A list of 0 and 1, or of false and true; a problem where it has another value. None where the
  // file has no such list.
  std::optional<std::vector<bool>> switches(const std::string& key);
  // The layers that turn nothing by that list of no_rope_layers, which has one for each layer, 1
  // for one that turns; without it every n-th.
  std::vector<std::int64_t> still_layers(const std::optional<std::vector<bool>>& turning);
  // Those layers turn nothing (NoPE).
  void take_rope_off(const std::vector<std::int64_t>& layers);

  // How many channels turn, where they make pairs; none, and a problem of their key, where not.
  std::optional<std::int64_t> channels_in_pairs(const std::string& key, std::int64_t channels);
  // A problem where the rope is of a part of the head.
  void require_whole_heads(const formats::RawRope& rope);
  void set_rope(const formats::RawRope& rope, const char* layout);
  // Reads and sets it, with its notes.
  void read_rope(formats::RopeDefaults defaults, const char* layout);
  void note_clashes(const formats::RawRope& rope);
  // Of a class with a scaled rope of its own where a file says nothing: a file that says null, as
  // if it had none, is told so.
  void warn_of_own_rope(const formats::RawRope& own);

  Translation finish(std::function<TensorPlace(const std::string&)> place);

 private:
  // What rope_parameters has under the layer type; null for nothing.
  const Json* parameters_of_type(const std::string& layer_type) const;
  formats::RawRope nested_rope(const std::string& layer_type, const Json* own,
                               formats::RopeDefaults defaults,
                               std::optional<std::int64_t> head_dim);
  bool has_layers_of(const std::string& layer_type) const;
  void note_scaling_clashes(const std::string& layer_type, const Json& own, const Json& scaling);
  // Problems and warnings of what rope_parameters has beside the ropes read by layer type.
  void check_other_ropes();
  // The words of layer_types, where the family has not asked for them.
  void check_layer_types();
  void warn_of_unused_windows();
  // A problem where layers slide by a window that the file says is none.
  void require_window();
  // Problems of the configuration as a whole, under the file's own names.
  void check_whole();
  // The file's name of a field of ours, with the prefix; ours where no file has one.
  std::string key_in_file(const std::string& ours) const;
  // Whether a field is missing or could not be read: what is held against it would be nonsense.
  bool is_unread(const std::string& key) const;
  // The head size, where the sizes that give it could be read and give a whole one.
  std::optional<std::int64_t> known_head_dim() const;

  const FamilyInput& input_;
  const Json& object_;
  formats::ConfigProblems problems_;
  formats::ConfigReader reader_;
  Translation result_;
  std::optional<std::vector<std::string>> layer_kinds_;  // layer_types
  bool asked_layer_types_ = false, has_ropes_by_type_ = false;
};

// ---- Positions ---------------------------------------------------------------------------------

// For classes that turn whole heads with rope_type "default" (all but Phi-3 and GPT-NeoX).
inline constexpr formats::RopeDefaults kWholeHeads{.whole_when_default = true};

// A rope in our options' words. `context` is the configuration's max_position_embeddings.
EncodingConfig rope_encoding(const formats::RawRope& rope, const char* layout,
                             std::int64_t context);

// ---- Tensor names ------------------------------------------------------------------------------

// The object that describes the language model: "text_config" in checkpoints of several kinds of
// input, or the whole.
const Json& text_part(const Json& config);
std::string text_prefix(const Json& config);  // "text_config." or nothing, for messages
// 0, 1, ... as many as the configuration has, and no more than can be read.
std::vector<std::int64_t> all_layers(const ModelConfig& config);

// Whether model_type is one of these.
bool is_of_type(const Json& config, std::initializer_list<std::string_view> types);
// Whether it is a checkpoint of several kinds of input whose language model is one of another
// family, described by text_config, and reads a text as that family does.
bool is_wrapper(const Json& config);

// A tensor's name without what checkpoints of several kinds of input put in front of the language
// model's; empty for the tensors of the others.
std::string trunk_name(const std::string& name);
TensorPlace of_another_input(const std::string& name);  // ignored
// Ignored: of the layers behind the model's own that guess at the tokens after the next one.
TensorPlace of_further_tokens(const std::string& name);
// Places of the language model's tensors by their names without that, the others ignored.
std::function<TensorPlace(const std::string&)> of_trunk(
    std::function<TensorPlace(const std::string&)> place);

// How a family's names turn into ours. A module is a name without its last part ("weight").
struct Renaming {
  std::vector<std::string> prefixes;  // any of which may stand in front, or none
  std::string layers;                 // what stands before a layer's number: "h."
  std::map<std::string, std::string>
      in_layer;                                // module of a layer -> ours, after "model.layers.N."
  std::map<std::string, std::string> outside;  // other modules -> ours
  std::vector<std::pair<std::string, std::string>> ignored;  // ending of a name, and why
};

// A name taken apart: "transformer.h.3.attn.c_attn.weight" is "model.layers.3.", "attn.c_attn",
// ".weight"; `layer` is empty outside layers.
struct NameParts {
  std::string layer, module, ending;
};
NameParts split_name(const Renaming& renaming, const std::string& name);
// The layer's number; -1 outside layers, and for one that no model has.
std::int64_t layer_of(const NameParts& name);

// The place by the tables; with an empty name where they have none.
TensorPlace renamed(const Renaming& renaming, const std::string& name);

// ---- Fused tensors -----------------------------------------------------------------------------

// Rows of consecutive modules in one tensor: {{"self_attn.q_proj", 96}, ...} of a weight (rows, in)
// or a bias (rows). With `transposed` weights are stored (in, rows).
TensorPlace fused_rows(const NameParts& name, std::int64_t in,
                       std::initializer_list<std::pair<const char*, std::int64_t>> modules,
                       bool transposed = false);

// q, k and v side by side in groups: each of kv_heads groups has its query heads, one key and one
// value head, head_dim rows each.
TensorPlace fused_heads(const NameParts& name, const ModelConfig& config);

// A weight stored (in, out), of our shape (out, in).
TensorPlace transposed(TensorPlace place, std::int64_t out, std::int64_t in);

}  // namespace phasescope::model
