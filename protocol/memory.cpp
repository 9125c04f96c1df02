#include "protocol/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace phasescope::protocol {

namespace {

// Below this an allocation is cheaper than a mapping and its page faults.
constexpr std::size_t smallest_mapping = 256u << 10;

constexpr int required_seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;

Memory mapped(void* address, std::size_t size) {
  auto unmap = [size](std::byte* at) { ::munmap(at, size); };
  return {std::shared_ptr<std::byte>(static_cast<std::byte*>(address), unmap), size};
}

void write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw std::system_error(errno, std::generic_category(), "memory file");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace

Memory reserve_memory(std::size_t size) {
  if (size < smallest_mapping) {
    auto block = std::make_shared<std::byte[]>(size);
    std::byte* at = block.get();
    return {std::shared_ptr<std::byte>(std::move(block), at), size};
  }
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
  ::madvise(address, size, MADV_HUGEPAGE);
  return mapped(address, size);
}

formats::UniqueFd sealed_memory_file(std::span<const std::span<const std::byte>> pieces) {
  formats::UniqueFd file(::memfd_create("phasescope-tensors", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw std::system_error(errno, std::generic_category(), "memory file");
  for (auto piece : pieces) write_all(file.get(), piece);
  if (::fcntl(file.get(), F_ADD_SEALS, required_seals | F_SEAL_SEAL) != 0) {
    throw std::system_error(errno, std::generic_category(), "sealing a memory file");
  }
  return file;
}

Memory map_sealed_memory(const formats::UniqueFd& file, std::size_t size) {
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & required_seals) != required_seals) {
    throw std::runtime_error("the memory file of a frame is not sealed");
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || static_cast<std::size_t>(info.st_size) != size) {
    throw std::runtime_error("the memory file of a frame has " + std::to_string(info.st_size) +
                             " bytes where its tensors have " + std::to_string(size));
  }
  if (size == 0) return {};
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (address == MAP_FAILED) {
    throw std::runtime_error("the memory file of a frame cannot be mapped");
  }
  return mapped(address, size);
}

}  // namespace phasescope::protocol
