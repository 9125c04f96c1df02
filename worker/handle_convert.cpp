#include "worker/handle_convert.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/json.h"
#include "model/checkpoints/convert.h"
#include "model/checkpoints/import_tensors.h"
#include "model/checkpoints/tensor_io.h"
#include "protocol/messages/convert.h"
#include "protocol/messages/import.h"
#include "protocol/shell_word.h"
#include "worker/model_cache.h"
#include "worker/request_input.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;
using protocol::Reply;

// Exported files say where they come from (cli.md): FILE.json beside them.
void write_sidecar(const std::filesystem::path& folder, const protocol::ConvertResult& result) {
  const json sidecar = {{"command", result.provenance.command},
                        {"program", "phasescope"},
                        {"provenance", protocol::to_json_form(result.provenance)},
                        {"notes", result.notes}};
  formats::write_file_atomically(formats::real_file_system(), folder / "model.safetensors.json",
                                 sidecar.dump(2) + "\n");
}

Reply convert(const protocol::ConvertRequest& request, RequestContext& context) {
  const protocol::ModelReading reading = reading_of(request.model, request.set);
  model::ConvertOptions options;
  options.overrides = reading.settings;
  if (!request.dtype.empty()) options.dtype = model::dtype_of_name(request.dtype);
  options.seed = static_cast<std::uint64_t>(request.seed);
  options.progress = [&context](double done) { context.progress(done, "writing tensors"); };
  options.cancelled = [&context] { return context.cancelled(); };
  const std::filesystem::path out = request.out;
  const std::string to = request.to;
  context.progress(0, "opening " + reading.model);
  const model::Converted done =
      model::convert_model(formats::real_file_system(), reading.model, to, out, options);
  protocol::ConvertResult result;
  result.model = done.model, result.to = to, result.out = out.string();
  result.files = done.files, result.notes = done.notes;
  result.tensors = done.tensors, result.bytes = static_cast<std::int64_t>(done.bytes);
  result.parameters_before = done.parameters_before, result.parameters = done.parameters;
  Asked how = asked(request);
  how.command += " --out " + protocol::shell_word(request.out);
  result.provenance = provenance_of(how, context, {}, nullptr);
  result.provenance.models = {done.model};
  if (!done.sha256.empty()) result.provenance.model_hashes = {done.sha256};
  result.provenance.dtype = options.dtype ? model::name_of_dtype(*options.dtype) : "";
  write_sidecar(out, result);
  result.files.push_back("model.safetensors.json");
  return reply_of(result);
}

Reply import_files(const protocol::ImportRequest& request, RequestContext& context) {
  if (request.out.empty()) throw formats::bad_usage("name a folder to write to", "out");
  context.progress(0, "reading tensors");
  const std::vector<std::filesystem::path> files(request.files.begin(), request.files.end());
  const model::Imported done =
      model::import_tensors(formats::real_file_system(), files, request.out,
                            {.as = request.as,
                             .causal = request.causal,
                             .scale = request.scale,
                             .renumber = request.renumber});
  const model::ModelConfig& config = done.config;
  protocol::ImportResult result;
  result.out = request.out, result.notes = done.notes;
  result.as = config.encoding.options.at("tensors").get<std::string>();
  result.layers = config.layers, result.heads = config.heads, result.kv_heads = config.kv_heads;
  result.head_dim = result.as == "qk" ? config.head_dim : 0;
  result.tokens = config.context, result.causal = config.attention.causal;
  return reply_of(result);
}

Reply convert_list(const protocol::ConvertListRequest&, RequestContext&) {
  json forms = json::array();
  for (const model::ConversionForm& form : model::conversion_forms()) {
    forms.push_back({{"key", form.key}, {"help", form.help}});
  }
  return {{{"forms", std::move(forms)}}, {}};
}

}  // namespace

std::vector<Handler> convert_handlers() {
  return {
      method("writes a model in another form", convert),
      method("attention computed elsewhere as a model", import_files),
      method("the forms a model can be converted to", convert_list),
  };
}

}  // namespace phasescope::worker
