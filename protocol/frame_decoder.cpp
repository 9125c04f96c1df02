#include <algorithm>
#include <cstring>

#include "protocol/crc32c.h"
#include "protocol/frame.h"
#include "protocol/frame_layout.h"

namespace phasescope::protocol {

namespace {

constexpr std::size_t kept_banner = 4096;
// The header grows by what has come, not by what was announced.
constexpr std::size_t header_step = 64u << 10;

bool known_type(std::uint16_t type) {
  return type >= static_cast<std::uint16_t>(FrameType::hello) &&
         type <= static_cast<std::uint16_t>(FrameType::closing);
}

bool may_have_tensors(FrameType type) {
  return type == FrameType::request || type == FrameType::result;
}

void check_length(const char* what, std::uint64_t length, std::uint64_t limit) {
  if (length > limit) {
    throw FrameError(std::string("a frame announced a ") + what + " of " + std::to_string(length) +
                     " bytes, more than the " + std::to_string(limit) + " allowed");
  }
}

nlohmann::json parse_header(const std::string& text, std::size_t depth_limit) {
  auto check_depth = [depth_limit](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > static_cast<int>(depth_limit)) {
      throw FrameError("a frame's JSON is nested deeper than " + std::to_string(depth_limit));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, check_depth);
  } catch (const nlohmann::json::exception& error) {
    throw FrameError(std::string("a frame's header is not JSON: ") + error.what());
  }
}

// Hands out the tensors of one store in order, checking that they fill it exactly.
class StoreReader {
 public:
  StoreReader(const char* name, Memory memory) : name_(name), memory_(std::move(memory)) {}

  std::shared_ptr<const std::byte> next(std::size_t size) {
    const std::size_t start = aligned(end_);
    if (start > memory_.size || size > memory_.size - start) {
      throw FrameError(std::string("a frame's tensors are larger than its ") + name_);
    }
    end_ = start + size;
    return {memory_.data, memory_.data.get() + start};
  }
  void expect_end() const {
    if (end_ != memory_.size) {
      throw FrameError(std::string("a frame's ") + name_ + " is larger than its tensors");
    }
  }

 private:
  const char* name_;
  Memory memory_;
  std::size_t end_ = 0;
};

struct TensorEntry {
  TensorRef tensor;  // without data
  std::size_t size = 0;
  bool in_file = false;
};

TensorEntry read_entry(const nlohmann::json& json) {
  TensorEntry entry;
  entry.tensor.name = json.at("name").get<std::string>();
  entry.tensor.dtype = json.at("dtype").get<std::string>();
  for (const auto& dimension : json.at("shape")) {
    if (!dimension.is_number_integer()) throw FrameError("a tensor's shape is not of integers");
    entry.tensor.shape.push_back(dimension.get<std::int64_t>());
  }
  entry.in_file = json.value("file", false);
  const auto size = tensor_bytes(entry.tensor.dtype, entry.tensor.shape);
  if (!size) {
    throw FrameError("tensor '" + entry.tensor.name + "' has an impossible dtype or shape");
  }
  entry.size = *size;
  return entry;
}

std::vector<TensorEntry> read_entries(const nlohmann::json& header, std::size_t limit) {
  std::vector<TensorEntry> entries;
  if (!header.contains("tensors")) return entries;
  const auto& list = header["tensors"];
  if (!list.is_array() || list.size() > limit) throw FrameError("a frame's list of tensors is bad");
  try {
    for (const auto& item : list) entries.push_back(read_entry(item));
  } catch (const nlohmann::json::exception& error) {
    throw FrameError(std::string("a frame's list of tensors is bad: ") + error.what());
  }
  return entries;
}

// Bytes the entries of the memory file need, which its size must be.
std::size_t file_size(const std::vector<TensorEntry>& entries, std::size_t limit) {
  std::size_t end = 0;
  for (const auto& entry : entries) {
    if (!entry.in_file) continue;
    check_length("tensor", entry.size, limit);
    end = aligned(end) + entry.size;
    check_length("memory file", end, limit);
  }
  return end;
}

Memory map_file(const formats::UniqueFd& file, std::size_t size) {
  try {
    return map_sealed_memory(file, size);
  } catch (const std::runtime_error& error) {
    throw FrameError(error.what());
  }
}

std::vector<TensorRef> place_tensors(std::vector<TensorEntry> entries, Memory payload,
                                     Memory file) {
  StoreReader inline_reader("payload", std::move(payload)),
      file_reader("memory file", std::move(file));
  std::vector<TensorRef> tensors;
  for (auto& entry : entries) {
    entry.tensor.data = (entry.in_file ? file_reader : inline_reader).next(entry.size);
    tensors.push_back(std::move(entry.tensor));
  }
  inline_reader.expect_end();
  file_reader.expect_end();
  return tensors;
}

}  // namespace

FrameDecoder::FrameDecoder(const FrameLimits& limits) : limits_(limits) {}

std::span<std::byte> FrameDecoder::wanted() {
  switch (stage_) {
    case Stage::magic:
      return std::span(raw_preamble_).first(frame_magic.size()).subspan(filled_);
    case Stage::preamble:
      return std::span(raw_preamble_).subspan(filled_);
    case Stage::header: {
      const std::size_t step = std::max(header_step, filled_);
      header_.resize(std::min<std::size_t>(preamble_.header_bytes, filled_ + step));
      return std::as_writable_bytes(std::span(header_)).subspan(filled_);
    }
    case Stage::payload:
      return std::span(payload_.data.get(), payload_.size).subspan(filled_);
    case Stage::trailer:
      return std::span(trailer_).subspan(filled_);
    case Stage::complete:
      break;
  }
  return {};
}

void FrameDecoder::commit(std::size_t count) {
  if (stage_ == Stage::magic) return commit_magic(count);
  if (stage_ == Stage::header || stage_ == Stage::payload) {
    crc_ = crc32c(wanted().first(count), crc_);
  }
  filled_ += count;
  finish_stage();
}

// Before the first frame anything that is not the magic is a banner. No proper prefix of the magic
// occurs again inside it, so after a mismatch only the present byte can start it anew.
void FrameDecoder::commit_magic(std::size_t count) {
  std::array<std::byte, frame_magic.size()> fresh;
  std::copy_n(wanted().begin(), count, fresh.begin());
  for (std::size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(fresh[i]);
    if (byte == frame_magic[filled_]) {
      raw_preamble_[filled_++] = fresh[i];
      continue;
    }
    if (seen_frame_) throw FrameError("bytes that are no frame (bad magic)");
    skipped_ += filled_ + 1;
    if (skipped_ > limits_.banner) {
      throw FrameError("more than " + std::to_string(limits_.banner) +
                       " bytes of text and no frame");
    }
    if (banner_.size() < kept_banner) banner_ += static_cast<char>(byte);
    filled_ = 0;
    if (byte == frame_magic[0]) raw_preamble_[filled_++] = fresh[i];
  }
  if (filled_ == frame_magic.size()) stage_ = Stage::preamble;
}

void FrameDecoder::read_preamble() {
  const std::span<const std::byte> raw(raw_preamble_);
  if (load_little<std::uint32_t>(raw, layout::crc) != crc32c(raw.first(layout::crc))) {
    throw FrameError("a frame's first bytes have a wrong checksum");
  }
  preamble_.version = load_little<std::uint16_t>(raw, layout::version);
  const auto type = load_little<std::uint16_t>(raw, layout::type);
  preamble_.type = static_cast<FrameType>(type);
  if (preamble_.version != protocol_version && preamble_.type != FrameType::hello) {
    throw FrameError("a frame of protocol version " + std::to_string(preamble_.version) +
                     "; this program speaks version " + std::to_string(protocol_version));
  }
  if (!known_type(type)) throw FrameError("a frame of unknown type " + std::to_string(type));
  const auto flags = load_little<std::uint16_t>(raw, layout::flags);
  if ((flags & ~layout::memory_file_flag) != 0 ||
      load_little<std::uint16_t>(raw, layout::reserved) != 0 ||
      load_little<std::uint32_t>(raw, layout::reserved_too) != 0) {
    throw FrameError("a frame with unknown flags");
  }
  preamble_.has_memory_file = flags != 0;
  preamble_.id = load_little<std::uint64_t>(raw, layout::id);
  preamble_.header_bytes = load_little<std::uint32_t>(raw, layout::header_bytes);
  preamble_.payload_bytes = load_little<std::uint64_t>(raw, layout::payload_bytes);
  check_length("header", preamble_.header_bytes, limits_.header);
  check_length("payload", preamble_.payload_bytes, limits_.payload);
  if (!may_have_tensors(preamble_.type) &&
      (preamble_.payload_bytes > 0 || preamble_.has_memory_file)) {
    throw FrameError("tensors in a frame of a type that has none");
  }
}

void FrameDecoder::finish_stage() {
  if (stage_ == Stage::preamble && filled_ == preamble_bytes) {
    read_preamble();
    crc_ = 0;
    enter(Stage::header);
  }
  if (stage_ == Stage::header && filled_ == preamble_.header_bytes) {
    payload_ = preamble_.payload_bytes > 0 ? reserve_memory(preamble_.payload_bytes) : Memory{};
    enter(Stage::payload);
  }
  if (stage_ == Stage::payload && filled_ == preamble_.payload_bytes) enter(Stage::trailer);
  if (stage_ == Stage::trailer && filled_ == trailer_.size()) {
    check_crc();
    enter(Stage::complete);
  }
}

void FrameDecoder::enter(Stage stage) {
  stage_ = stage;
  filled_ = 0;
}

void FrameDecoder::check_crc() {
  if (load_little<std::uint32_t>(trailer_, 0) != crc_) {
    throw FrameError("a frame's content has a wrong checksum");
  }
}

bool FrameDecoder::inside_frame() const {
  return stage_ > Stage::magic || (seen_frame_ && filled_ > 0);
}

std::size_t FrameDecoder::frame_bytes() const {
  return preamble_bytes + preamble_.header_bytes + preamble_.payload_bytes + trailer_.size();
}

Frame FrameDecoder::take(const formats::UniqueFd& memory_file) {
  const std::string text = std::exchange(header_, {});
  const Memory payload = std::exchange(payload_, {});
  const Preamble preamble = preamble_;
  enter(Stage::magic);
  seen_frame_ = true;

  nlohmann::json header = parse_header(text, limits_.json_depth);
  if (!header.is_object() || !header.contains("body")) {
    throw FrameError("a frame's header has no body");
  }
  if (preamble.type != FrameType::result && !header["body"].is_object()) {
    throw FrameError("a frame's body is not an object");
  }
  auto entries = read_entries(header, limits_.tensors);
  const std::size_t in_file = file_size(entries, limits_.payload);
  if ((in_file > 0) != preamble.has_memory_file) {
    throw FrameError("a frame's list of tensors does not agree with its memory file");
  }
  Memory file = in_file > 0 ? map_file(memory_file, in_file) : Memory{};
  return {preamble.type, preamble.id, std::move(header["body"]),
          place_tensors(std::move(entries), payload, std::move(file))};
}

}  // namespace phasescope::protocol
