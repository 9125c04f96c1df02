#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensors/tensor_file.h"

namespace phasescope::formats {

// A state_dict that torch.save wrote: the zip form (torch 1.6 and later) or the one before it
// (magic number, protocol, system, pickle, storage keys, storages). Nothing in the file is run; see
// pickle_machine.h. Tensors are views of storages: transposes and slices are made contiguous while
// they are read. A zip record's CRC is checked when a tensor of it is first read.
class TorchFile : public TensorFile {
 public:
  static std::unique_ptr<TorchFile> open(const std::filesystem::path& path,
                                         const OpenOptions& options = {});
  ~TorchFile() override;

  const std::filesystem::path& path() const override;
  // In the order of the state_dict.
  const std::vector<TensorEntry>& tensors() const override;
  const TensorEntry* find(std::string_view name) const override;
  const std::map<std::string, std::string>& metadata() const override;  // empty
  const std::vector<std::vector<std::string>>& tied() const override;
  const std::vector<std::string>& warnings() const override;

  void read_part(const TensorEntry& entry, std::uint64_t begin,
                 std::span<std::byte> out) const override;
  void visit(const TensorEntry& entry, const Visit& visit) const override;

 private:
  struct Contents;
  explicit TorchFile(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

// Whether a file is to be opened as one: it begins like a zip file or a pickle, or its name ends in
// .bin, .pt, .pth or .ckpt.
bool is_torch_file(const std::filesystem::path& path);

}  // namespace phasescope::formats
