#include "protocol/frame.h"

#include <cstring>

#include "protocol/crc32c.h"
#include "protocol/frame_layout.h"

namespace phasescope::protocol {

namespace {

constexpr std::array<std::byte, tensor_alignment> zeros{};

using Pieces = std::vector<std::span<const std::byte>>;

// One of the two places tensors are put in, filled in the order of the frame.
struct Store {
  Pieces pieces;
  std::size_t end = 0;

  void add(std::span<const std::byte> bytes) {
    const std::size_t start = aligned(end);
    if (start > end) pieces.push_back(std::span(zeros).first(start - end));
    if (!bytes.empty()) pieces.push_back(bytes);
    end = start + bytes.size();
  }
};

void check_tensor(const TensorRef& tensor) {
  const auto size = tensor_bytes(tensor.dtype, tensor.shape);
  if (!size || (*size > 0 && !tensor.data)) {
    throw FrameError("tensor '" + tensor.name + "' of dtype " + tensor.dtype +
                     " has no bytes for its shape");
  }
}

nlohmann::json tensor_entry(const TensorRef& tensor, bool in_file) {
  nlohmann::json entry = {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}};
  if (in_file) entry["file"] = true;
  return entry;
}

std::string header_text(const Frame& frame, nlohmann::json entries) {
  nlohmann::json header = {{"body", frame.header}};
  if (!entries.empty()) header["tensors"] = std::move(entries);
  // Bytes that are not UTF-8 can come from a model's vocabulary; they become U+FFFD.
  return header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void check_size(const char* what, std::size_t size, std::size_t limit) {
  if (size > limit) {
    throw FrameError(std::string("the ") + what + " of a frame would have " + std::to_string(size) +
                     " bytes, more than the " + std::to_string(limit) + " allowed");
  }
}

}  // namespace

void to_json(nlohmann::json& json, const Hello& hello) {
  json = {{"protocol", hello.protocol}, {"program", hello.program},
          {"version", hello.version},   {"transports", hello.transports},
          {"host", hello.host},         {"process_id", hello.process_id}};
}

void from_json(const nlohmann::json& json, Hello& hello) {
  hello.protocol = json.at("protocol").get<int>();
  hello.program = json.value("program", "");
  hello.version = json.value("version", "");
  hello.transports = json.value("transports", std::vector<std::string>{"inline"});
  hello.host = json.value("host", "");
  hello.process_id = json.value("process_id", 0);
}

std::array<std::byte, preamble_bytes> encode_preamble(const Preamble& preamble) {
  std::array<std::byte, preamble_bytes> bytes{};
  std::memcpy(bytes.data(), frame_magic.data(), frame_magic.size());
  store_little(bytes, layout::version, preamble.version);
  store_little(bytes, layout::type, static_cast<std::uint16_t>(preamble.type));
  store_little(bytes, layout::flags,
               preamble.has_memory_file ? layout::memory_file_flag : std::uint16_t{0});
  store_little(bytes, layout::id, preamble.id);
  store_little(bytes, layout::header_bytes, preamble.header_bytes);
  store_little(bytes, layout::payload_bytes, preamble.payload_bytes);
  store_little(bytes, layout::crc, crc32c(std::span(bytes).first(layout::crc)));
  return bytes;
}

EncodedFrame encode_frame(const Frame& frame, const FrameLimits& limits,
                          std::optional<std::size_t> memory_file_from) {
  if (frame.tensors.size() > limits.tensors) throw FrameError("a frame with too many tensors");
  Store payload, file;
  nlohmann::json entries = nlohmann::json::array();
  for (const auto& tensor : frame.tensors) {
    check_tensor(tensor);
    const bool in_file = memory_file_from && tensor.size_bytes() >= *memory_file_from;
    (in_file ? file : payload).add(tensor.bytes());
    entries.push_back(tensor_entry(tensor, in_file));
  }
  const std::string header = header_text(frame, std::move(entries));
  check_size("header", header.size(), limits.header);
  check_size("tensors", payload.end, limits.payload);
  check_size("memory file", file.end, limits.payload);

  EncodedFrame encoded;
  const auto preamble = encode_preamble({protocol_version, frame.type, file.end > 0, frame.id,
                                         static_cast<std::uint32_t>(header.size()), payload.end});
  encoded.head.assign(reinterpret_cast<const char*>(preamble.data()), preamble.size());
  encoded.head += header;
  encoded.payload = std::move(payload.pieces);
  if (file.end > 0) encoded.memory_file = sealed_memory_file(file.pieces);
  return encoded;
}

}  // namespace phasescope::protocol
