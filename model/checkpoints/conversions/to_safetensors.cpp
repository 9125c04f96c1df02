#include "model/checkpoints/conversions/to_safetensors.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "formats/error.h"

namespace phasescope::model {
namespace {

ConversionPlan plan(CheckpointReader& reader, const ConvertOptions& options) {
  if (!reader.files().adapter.empty()) {
    throw formats::bad_input("an adapter's tensors are no model", reader.files().adapter.string(),
                             "--to phasescope merges it into its base model");
  }
  if (!options.overrides.empty() || options.dtype) {
    throw formats::bad_usage("the form safetensors keeps tensors and config.json as they are",
                             "--to", "--to phasescope takes --set and --dtype");
  }
  if (!reader.report().weights_from.empty() || !reader.gguf_keys().is_null()) {
    throw formats::bad_input(
        "the file's tensors would not stay as they are: they are quantised, or "
        "in GGUF's order and under its names",
        reader.report().path, "--to phasescope writes what they mean");
  }
  ConversionPlan plan;
  const formats::TensorArchive& archive = reader.archive();
  for (const formats::TensorEntry& entry : archive.tensors()) {
    if (entry.dtype == formats::DType::unsupported) {
      throw formats::bad_input(
          "tensor " + entry.name + " has type " + entry.dtype_name + ", which cannot be written",
          reader.report().path);
    }
    plan.tensors.push_back({entry.name, entry.dtype, entry.shape,
                            [&archive, &entry](const formats::TensorSource::Write& write) {
                              constexpr std::uint64_t kPiece = std::uint64_t{16} << 20;
                              std::vector<std::byte> piece(std::min(kPiece, entry.size));
                              for (std::uint64_t at = 0; at < entry.size; at += piece.size()) {
                                piece.resize(std::min(kPiece, entry.size - at));
                                archive.read_part(entry, at, piece);
                                write(piece);
                              }
                            }});
  }
  for (const auto& names : archive.tied()) {
    plan.notes.emplace_back(names[0] + " and " + names[1] +
                            " are one tensor in the file and are written each");
  }
  if (archive.files().size() > 1) {
    plan.notes.emplace_back(std::to_string(archive.files().size()) + " shards become one file");
  }
  return plan;
}

}  // namespace

Conversion to_safetensors_conversion() {
  return {"safetensors", "any model (.bin, .pt, shards), its tensors unchanged in one file", &plan};
}

}  // namespace phasescope::model
