// The explicit list of checkpoint families: one line each.
#include <algorithm>
#include <utility>

#include "formats/error.h"
#include "formats/hf_config.h"
#include "formats/utf8.h"
#include "model/families/ape_public.h"
#include "model/families/bert.h"
#include "model/families/bloom.h"
#include "model/families/cohere2.h"
#include "model/families/deepseek_v2.h"
#include "model/families/deepseek_v3.h"
#include "model/families/exaone4.h"
#include "model/families/falcon.h"
#include "model/families/family.h"
#include "model/families/family_reader.h"
#include "model/families/gemma.h"
#include "model/families/gemma2.h"
#include "model/families/gemma3.h"
#include "model/families/gemma3n.h"
#include "model/families/gemma4.h"
#include "model/families/glm4.h"
#include "model/families/gpt2.h"
#include "model/families/gpt_neox.h"
#include "model/families/gpt_oss.h"
#include "model/families/gptj.h"
#include "model/families/granite.h"
#include "model/families/granite_swa.h"
#include "model/families/inkling.h"
#include "model/families/laguna.h"
#include "model/families/llama.h"
#include "model/families/llama4.h"
#include "model/families/mimo_v2_flash.h"
#include "model/families/ministral3.h"
#include "model/families/mistral.h"
#include "model/families/mixtral.h"
#include "model/families/mpt.h"
#include "model/families/nemotron.h"
#include "model/families/olmo2.h"
#include "model/families/olmo3.h"
#include "model/families/opt.h"
#include "model/families/phasescope.h"
#include "model/families/phi.h"
#include "model/families/phi3.h"
#include "model/families/qwen2.h"
#include "model/families/qwen2_vl.h"
#include "model/families/qwen3.h"
#include "model/families/qwen3_5.h"
#include "model/families/qwen3_moe.h"
#include "model/families/qwen3_next.h"
#include "model/families/qwen3_vl.h"
#include "model/families/roformer.h"
#include "model/families/smollm3.h"
#include "model/families/stablelm.h"
#include "model/families/starcoder2.h"
#include "model/families/structure.h"
#include "model/families/t5.h"
#include "model/families/tape_public.h"
#include "model/families/unread_keys.h"

namespace phasescope::model {

const formats::TensorEntry* FamilyInput::find(const std::string& name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const auto& entry) { return entry.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

const std::vector<Family>& families() {
  static const std::vector<Family> list = {
      ape_public_family(),
      phasescope_family(),
      tape_public_family(),
      llama_family(),
      mistral_family(),
      qwen2_family(),
      qwen3_family(),
      phi3_family(),
      gemma_family(),
      gemma2_family(),
      gemma3_family(),
      gpt2_family(),
      gptj_family(),
      gpt_neox_family(),
      bloom_family(),
      falcon_family(),
      mpt_family(),
      opt_family(),
      t5_family(),
      bert_family(),
      roformer_family(),
      smollm3_family(),
      olmo2_family(),
      olmo3_family(),
      exaone4_family(),
      cohere2_family(),
      granite_family(),
      granite_swa_family(),
      glm4_family(),
      starcoder2_family(),
      stablelm_family(),
      phi_family(),
      nemotron_family(),
      ministral3_family(),
      mixtral_family(),
      qwen3_moe_family(),
      qwen2_vl_family(),
      qwen3_vl_family(),
      gpt_oss_family(),
      llama4_family(),
      deepseek_v2_family(),
      deepseek_v3_family(),
      mimo_v2_flash_family(),
      laguna_family(),
      qwen3_next_family(),
      qwen3_5_family(),
      gemma3n_family(),
      gemma4_family(),
      inkling_family(),
  };
  return list;
}

namespace {

// Of a wrapper: its language model's description, with what the file says of the whole.
Json language_part(const FamilyInput& input) {
  Json part = text_part(input.config);
  for (const char* key : {"architectures", "quantization_config", "auto_map"}) {
    part.erase(key);
    if (input.config.contains(key)) part[key] = input.config[key];
  }
  // The library ties by what the wrapper says; where nothing is said the file shows it.
  constexpr const char* kTied = "tie_word_embeddings";
  const bool has_head = input.find("lm_head.weight") != nullptr ||
                        input.find("language_model.lm_head.weight") != nullptr;
  if (input.config.contains(kTied)) {
    part[kTied] = input.config[kTied];
  } else if (!part.contains(kTied) && !input.config_alone) {
    part[kTied] = !has_head;
  }
  return part;
}

void warn_of_wrapper(const Json& config, Translation& result) {
  for (std::string& sentence : unread_wrapper_ropes(config)) {
    result.warnings.push_back(std::move(sentence));
  }
}

}  // namespace

Translation translate(const FamilyInput& input, std::string& family) {
  const Json& config = input.config;
  if (!config.is_object()) throw formats::bad_input("config.json holds no object", input.where);
  if (is_wrapper(config)) {
    const Json part = language_part(input);
    Translation result = translate(
        {part, input.tensors, input.where, input.config_alone, text_prefix(config)}, family);
    result.quirks.insert(result.quirks.begin(), "the language model in a " +
                                                    config["model_type"].get<std::string>() +
                                                    " is read, as its text_config says");
    warn_of_wrapper(config, result);
    result.place = [inner = std::move(result.place)](const std::string& name) {
      const std::string own = trunk_name(name);
      const bool of_language = !own.empty() && (own != name || own.starts_with("lm_head."));
      return of_language ? inner(own) : of_another_input(name);
    };
    return result;
  }
  std::string known;
  for (const Family& candidate : families()) {
    if (candidate.claims(input)) {
      family = candidate.key;
      Translation result = candidate.translate(input);
      for (std::string& sentence : structure_quirks(result.config)) {
        result.quirks.push_back(std::move(sentence));
      }
      warn_of_wrapper(config, result);
      return result;
    }
    known += (known.empty() ? "" : ", ") + std::string(candidate.key);
  }
  const std::string what = config.contains("model_type")
                               ? input.prefix + "model_type is " +
                                     formats::shortened(config["model_type"].dump()) +
                                     ", which cannot be read"
                               : "there is no model_type, which says what kind of model this is";
  std::string hint = "families that can: " + known;
  formats::ConfigProblems problems;
  const auto notice = formats::remote_code_notice(formats::ConfigReader(config, problems));
  if (notice) hint += ". " + *notice;
  throw formats::bad_input(what, input.where, hint);
}

}  // namespace phasescope::model
