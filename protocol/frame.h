// Frames: the unit of everything that passes between the window and a worker. docs/protocol.md has
// the byte layout. Sections: limits; frames; writing; reading.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "formats/unique_fd.h"
#include "protocol/memory.h"
#include "protocol/tensor.h"

namespace phasescope::protocol {

// Layout of the first 44 bytes and of the "hello" frame never change; all else may, with this.
inline constexpr std::uint16_t protocol_version = 1;

// Not text, so that no banner can contain it.
inline constexpr std::array<unsigned char, 8> frame_magic = {0x89, 'P',  'S',  'C',
                                                             '\r', '\n', 0x1a, '\n'};

// ---- Limits ---------------------------------------------------------------------------------

struct FrameLimits {
  std::size_t header = 64u << 20;              // JSON header, bytes
  std::size_t payload = std::size_t{2} << 30;  // tensors, bytes, inline or in a memory file
  std::size_t banner = 64u << 10;              // text before the first frame
  std::size_t json_depth = 64;
  std::size_t tensors = 65'536;  // in one frame
};

struct TimeLimits {
  std::chrono::milliseconds preamble{10'000};  // for the first 44 bytes, from their first byte
  std::chrono::milliseconds stall{20'000};     // within a frame, without a byte
  // A frame may take `stall` and the time its bytes need at this rate.
  std::size_t slowest_bytes_per_second = 4096;
  std::chrono::milliseconds heartbeat{5'000};  // sent when nothing else was
  std::chrono::milliseconds silence{60'000};   // without any byte: the other side is gone
  std::chrono::milliseconds send{60'000};      // the other side takes no bytes
};

// ---- Frames ---------------------------------------------------------------------------------

enum class FrameType : std::uint16_t {
  hello = 1,      // both ways, once, first
  request = 2,    // to the worker: {"method", "params", "tag"}
  progress = 3,   // from the worker: {"fraction", "text"}
  result = 4,     // from the worker, ends a request: the result
  error = 5,      // from the worker, ends a request: an ErrorInfo
  cancel = 6,     // to the worker: {}
  heartbeat = 7,  // both ways: {}
  fatal = 8,      // from the worker, its last frame: an ErrorInfo
  closing = 9,    // both ways, the last frame: {"reason", "fault"}
};

struct Frame {
  FrameType type = FrameType::heartbeat;
  std::uint64_t id = 0;  // of the request it belongs to, 0 for none
  nlohmann::json header = nlohmann::json::object();
  std::vector<TensorRef> tensors;
};

// What each side says of itself first.
struct Hello {
  int protocol = protocol_version;
  std::string program;                               // "phasescope", "phasescope-worker"
  std::string version;                               // of the program
  std::vector<std::string> transports = {"inline"};  // and "memfd"
  std::string host;
  int process_id = 0;
};
void to_json(nlohmann::json& json, const Hello& hello);
void from_json(const nlohmann::json& json, Hello& hello);

// A frame that must not be read on; the message is the reason to close with.
class FrameError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// ---- Writing --------------------------------------------------------------------------------

struct EncodedFrame {
  std::string head;                                 // preamble and JSON header
  std::vector<std::span<const std::byte>> payload;  // with padding; points into the frame's tensors
  formats::UniqueFd memory_file;                    // large tensors, when there are any
};

// Tensors of at least `memory_file_from` bytes go to a memory file (no limit: all inline). The
// frame's tensors must outlive the result. Throws FrameError when a limit is exceeded or a tensor
// is inconsistent.
EncodedFrame encode_frame(const Frame& frame, const FrameLimits& limits,
                          std::optional<std::size_t> memory_file_from);

// ---- Reading --------------------------------------------------------------------------------

struct Preamble {
  std::uint16_t version = 0;
  FrameType type = FrameType::heartbeat;
  bool has_memory_file = false;
  std::uint64_t id = 0;
  std::uint32_t header_bytes = 0;
  std::uint64_t payload_bytes = 0;
};
inline constexpr std::size_t preamble_bytes = 44;
std::array<std::byte, preamble_bytes> encode_preamble(const Preamble& preamble);

// Puts frames together from bytes as they come. It asks for bytes (never for more than belong to
// the present frame), is told how many came, and holds at most what has come and is within the
// limits.
class FrameDecoder {
 public:
  explicit FrameDecoder(const FrameLimits& limits);

  // Where the next bytes go; never empty unless complete().
  std::span<std::byte> wanted();
  // The first `count` bytes of wanted() have been filled. Throws FrameError.
  void commit(std::size_t count);
  bool complete() const { return stage_ == Stage::complete; }
  // The complete frame; its large tensors are in `memory_file` when the preamble says so. The
  // decoder then waits for the next one. Throws FrameError.
  Frame take(const formats::UniqueFd& memory_file = formats::UniqueFd());

  // True from the first byte of a frame to its last.
  bool inside_frame() const;
  bool preamble_complete() const { return stage_ > Stage::preamble; }
  const Preamble& preamble() const { return preamble_; }
  // Bytes of the present frame, known once its preamble is complete.
  std::size_t frame_bytes() const;
  // Text that came before the first frame, at most its first 4 KiB.
  const std::string& banner() const { return banner_; }
  void set_limits(const FrameLimits& limits) { limits_ = limits; }

 private:
  enum class Stage { magic, preamble, header, payload, trailer, complete };

  void commit_magic(std::size_t count);
  void read_preamble();
  void enter(Stage stage);
  void finish_stage();
  void check_crc();

  FrameLimits limits_;
  Stage stage_ = Stage::magic;
  std::array<std::byte, preamble_bytes> raw_preamble_{};
  Preamble preamble_;
  std::string header_;
  Memory payload_;
  std::array<std::byte, 4> trailer_{};
  std::size_t filled_ = 0;  // bytes of the present stage
  std::uint32_t crc_ = 0;
  bool seen_frame_ = false;
  std::size_t skipped_ = 0;
  std::string banner_;
};

}  // namespace phasescope::protocol
