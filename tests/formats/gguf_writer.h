#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

// Writes GGUF files byte by byte, sound ones and others.

namespace phasescope::formats::gguf {

template <typename Number>
std::string bytes_of(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
inline std::string u32(std::uint32_t value) { return bytes_of(value); }
inline std::string u64(std::uint64_t value) { return bytes_of(value); }
inline std::string text(const std::string& value) { return u64(value.size()) + value; }

// Keys with their values.
inline std::string key(const std::string& name, std::uint32_t value) {
  return text(name) + u32(4) + u32(value);
}
inline std::string key(const std::string& name, float value) {
  return text(name) + u32(6) + bytes_of(value);
}
inline std::string key(const std::string& name, bool value) {
  return text(name) + u32(7) + std::string(1, value ? '\1' : '\0');
}
inline std::string key(const std::string& name, const char* value) {
  return text(name) + u32(8) + text(value);
}
inline std::string key(const std::string& name, const std::vector<std::string>& values) {
  std::string bytes = text(name) + u32(9) + u32(8) + u64(values.size());
  for (const std::string& value : values) bytes += text(value);
  return bytes;
}
inline std::string key(const std::string& name, const std::vector<float>& values) {
  std::string bytes = text(name) + u32(9) + u32(6) + u64(values.size());
  for (const float value : values) bytes += bytes_of(value);
  return bytes;
}
inline std::string key(const std::string& name, const std::vector<std::int32_t>& values) {
  std::string bytes = text(name) + u32(9) + u32(5) + u64(values.size());
  for (const std::int32_t value : values) bytes += bytes_of(value);
  return bytes;
}

// `dims` fastest first, as the file has them.
inline std::string tensor(const std::string& name, const std::vector<std::uint64_t>& dims,
                          std::uint32_t type, std::uint64_t offset) {
  std::string bytes = text(name) + u32(static_cast<std::uint32_t>(dims.size()));
  for (const std::uint64_t size : dims) bytes += u64(size);
  return bytes + u32(type) + u64(offset);
}

inline std::string header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
  return "GGUF" + u32(version) + u64(tensors) + u64(keys);
}

inline std::string padded(std::string bytes, std::size_t alignment = 32) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
  return bytes;
}

inline std::string file(const std::vector<std::string>& keys,
                        const std::vector<std::string>& tensors, const std::string& data) {
  std::string bytes = header(tensors.size(), keys.size());
  for (const std::string& one : keys) bytes += one;
  for (const std::string& one : tensors) bytes += one;
  return padded(bytes) + data;
}

inline std::string floats(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += bytes_of(value);
  return bytes;
}

}  // namespace phasescope::formats::gguf
