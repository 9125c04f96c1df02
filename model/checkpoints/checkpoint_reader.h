#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "formats/tensors/safetensors.h"
#include "model/checkpoints/model_files.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::model {

// A checkpoint with its configuration, names and shapes translated and checked, its weights still
// in the files: open_model reads them all, conversions one after the other.
class CheckpointReader {
 public:
  // What open_model opens. Throws Error "bad_input" for all that does not fit, but for tensors that
  // are missing, which the report lists; reads no weights but an adapter's. `cancelled` is asked
  // here and in every later call.
  explicit CheckpointReader(const std::string& path_or_name, std::function<bool()> cancelled = {});
  ~CheckpointReader();

  const ModelFiles& files() const;
  const formats::TensorArchive& archive() const;
  const ModelConfig& config() const;
  const Encoding& encoding() const;
  // The keys of a GGUF file, its tokenizer's among them; null for any other checkpoint.
  const Json& gguf_keys() const;
  // Grows while weights are read (values that are no numbers, the hash).
  LoadReport& report();

  // False where a tensor that is needed is missing, or has a type that cannot be read as weights
  // (8-bit floats, whole numbers). The report lists the ones as missing, the others as unsupported;
  // load() throws Error "bad_input" that names the first, and read() does for a type.
  bool readable() const;
  // Throws Error "bad_input" that names the first tensors that are missing, if any, and their
  // number.
  void require_complete() const;

  // Flags NaN, Inf and zeros of all tensors in the report, as load() does; reads the whole file.
  void look_at_values();

  // Canonical names of the tensors that are there, in tensor_specs' order.
  std::vector<std::string> names() const;
  // The dtype a tensor has in its file; float32 for one that is quantised there.
  at::ScalarType stored_dtype(const std::string& name) const;
  std::int64_t elements(const std::string& name) const;
  // One tensor by its canonical name, in its canonical shape. A tensor of the file that stands for
  // several is read for each of them.
  at::Tensor read(const std::string& name, at::ScalarType dtype);
  // The canonical tensors that `tensor` stands for where it takes the place of the file's tensor of
  // this name, whose shape it has. Empty where no tensor of that name in the file is read.
  NamedTensors parts(const std::string& name_in_file, const at::Tensor& tensor) const;

  // Everything, each tensor of the file once, by several threads, with the hash beside it; what
  // stays in a mapped file is looked at by those that hash it. No more than one tensor is in memory
  // twice. `progress` is told after every few megabytes.
  Weights load(at::ScalarType dtype, const std::function<void(const LoadProgress&)>& progress,
               const WeightsMemory& memory = {});
  // SHA-256 of the file of weights; of their hashes where there are several.
  std::string hash();

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

// The configuration's tokenizer, else a GGUF file's own, else the file beside it; null where there
// is none. A model whose tokenizer cannot be read still reads ids: `report` gets the fault, as a
// warning too.
std::shared_ptr<const formats::Tokenizer> tokenizer_beside(const CheckpointReader& reader,
                                                           LoadReport& report);

// What open_model would report of it in `dtype`: for models that are not readable().
LoadReport unread_report(CheckpointReader& reader, at::ScalarType dtype);

}  // namespace phasescope::model
