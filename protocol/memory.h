// Blocks of memory that frames put tensors in: pages of our own, or a memory file of the other
// side.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/unique_fd.h"

namespace phasescope::protocol {

// Bytes that live as long as any copy of `data`.
struct Memory {
  std::shared_ptr<std::byte> data;
  std::size_t size = 0;
};

// Zeroed pages that are committed only when written, so that a length that was merely claimed costs
// nothing. Throws std::bad_alloc.
Memory reserve_memory(std::size_t size);

// A memory file holding the pieces one after another, sealed against any later change. Throws
// std::system_error.
formats::UniqueFd sealed_memory_file(std::span<const std::span<const std::byte>> pieces);

// Maps a received memory file for reading. Throws std::runtime_error saying what is wrong when it
// is not exactly `size` bytes or could still be written, grown or shrunk by its sender.
Memory map_sealed_memory(const formats::UniqueFd& file, std::size_t size);

}  // namespace phasescope::protocol
