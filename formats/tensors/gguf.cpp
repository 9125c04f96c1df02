#include "formats/tensors/gguf.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "formats/error.h"
#include "formats/read_only_file.h"
#include "formats/tensors/ggml_blocks.h"
#include "formats/tensors/packed_tensor.h"
#include "formats/text_input.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";
constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kMostEntries = 1'000'000;                // tensors, and keys
constexpr std::uint64_t kMostElements = std::uint64_t{8} << 20;  // of all arrays together
constexpr std::uint64_t kLongestName = 1 << 16;
constexpr std::uint32_t kMostDimensions = 8;  // ggml has 4
constexpr std::uint64_t kEntriesBetweenQuestions = 4096;
constexpr const char* kCutShort = "the file is cut short or damaged; copy or download it again";

// The header from front to back, through a window of the file.
class Cursor {
 public:
  explicit Cursor(const ReadOnlyFile& file) : file_(file) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t rest() const { return file_.size() - position_; }
  std::string where(std::uint64_t byte) const {
    return file_.path().string() + ", byte " + std::to_string(byte);
  }
  std::string where() const { return where(position_); }

  template <typename Number>
  Number number(const std::string& what) {
    std::array<std::byte, sizeof(Number)> bytes;
    take(bytes, what);
    Number value;
    std::memcpy(&value, bytes.data(),
                sizeof value);  // the machines that run this are little-endian
    return value;
  }

  std::string text(const std::string& what, std::uint64_t longest) {
    const std::uint64_t begin = position_;
    const auto length = number<std::uint64_t>("the length of " + what);
    if (length > longest || length > rest()) {
      throw bad_input(what + " has a length of " + std::to_string(length) +
                          " bytes, and the file " +
                          (length > rest() ? "ends before" : "may not have so long a text"),
                      where(begin), kCutShort);
    }
    std::string text(length, '\0');
    take(std::as_writable_bytes(std::span(text)), what);
    const std::size_t broken = first_invalid_utf8(text);
    if (broken < text.size()) {
      throw bad_input(what + " is not UTF-8", where(begin + sizeof length + broken), kCutShort);
    }
    return text;
  }

 private:
  void take(std::span<std::byte> out, const std::string& what) {
    if (out.size() > rest()) throw bad_input("the file ends within " + what, where(), kCutShort);
    if (position_ + out.size() > kMostHeaderBytes) {
      throw bad_input("the keys and tensor entries are above 256 MiB", where(),
                      "no model has that many");
    }
    while (!out.empty()) {
      if (position_ < begin_ || position_ >= begin_ + window_.size()) refill();
      const auto there = std::span(window_).subspan(position_ - begin_);
      const std::size_t count = std::min(there.size(), out.size());
      std::memcpy(out.data(), there.data(), count);
      out = out.subspan(count);
      position_ += count;
    }
  }

  void refill() {
    constexpr std::uint64_t kWindow = 1 << 16;
    begin_ = position_;
    window_.resize(std::min(kWindow, rest()));
    file_.read(begin_, window_);
  }

  const ReadOnlyFile& file_;
  std::uint64_t position_ = 0, begin_ = 0;
  std::vector<std::byte> window_;
};

// A number of 32 bits by the shortest decimal one that rounds to it.
double decimal(float value) {
  if (!std::isfinite(value)) return static_cast<double>(value);
  std::array<char, 48> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  double result = 0;
  std::from_chars(text.data(), written.ptr, result);
  return result;
}

enum ValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64,
  kValueTypes
};
constexpr std::array<std::uint64_t, kValueTypes> kLeastBytes = {1, 1, 2,  2, 4, 4, 4,
                                                                1, 8, 12, 8, 8, 8};

class GgufHeader {
 public:
  GgufHeader(const ReadOnlyFile& file, const OpenOptions& options)
      : in_(file), options_(options), file_size_(file.size()) {}

  void read() {
    read_counts();
    keys = Json::object();
    for (std::uint64_t n = 0; n < key_count_; ++n) read_key(n);
    for (std::uint64_t n = 0; n < tensor_count_; ++n) read_tensor(n);
    place_tensors();
  }

  Json keys;
  std::vector<TensorEntry> tensors;
  std::vector<const GgmlType*> types;  // of each tensor; null for one that is not known

 private:
  struct Info {
    TensorEntry entry;
    const GgmlType* type = nullptr;
    std::uint64_t bytes = 0;  // in the file; 0 where the type is not known
  };

  void read_counts() {
    const auto magic = in_.number<std::uint32_t>("the magic number");
    if (std::memcmp(&magic, kGgufMagic.data(), sizeof magic) != 0) {
      throw bad_input("the file does not begin with \"GGUF\"", in_.where(0),
                      "this is no GGUF file");
    }
    const auto version = in_.number<std::uint32_t>("the version");
    if (version != 0 && (version & 0xFFFF) == 0) {
      throw bad_input("the GGUF file is big-endian", in_.where(4), "convert it to little-endian");
    }
    if (version != 2 && version != 3) {
      throw bad_input("the GGUF file has version " + std::to_string(version) +
                          ", and versions 2 and 3 can be read",
                      in_.where(4));
    }
    tensor_count_ = count("tensors", 8 + 4 + 4 + 8);
    key_count_ = count("keys", 8 + 4 + 1);
  }

  // A number of things of which each takes at least `bytes`.
  std::uint64_t count(const char* what, std::uint64_t bytes) {
    const std::uint64_t at = in_.position();
    const auto number = in_.number<std::uint64_t>(std::string("the number of ") + what);
    if (number > kMostEntries || number > in_.rest() / bytes) {
      throw bad_input("the GGUF file gives a number of " + std::to_string(number) + " " + what +
                          ", more than " +
                          (number > kMostEntries ? "a million" : "the file has room for"),
                      in_.where(at), kCutShort);
    }
    return number;
  }

  void ask(std::uint64_t n) const {
    if (n % kEntriesBetweenQuestions == 0 && options_.cancelled && options_.cancelled()) {
      throw cancelled("opening was cancelled");
    }
  }

  void read_key(std::uint64_t n) {
    ask(n);
    const std::string at = in_.where();
    const std::string name = in_.text("the name of a key", kLongestName);
    const std::string what = "the key " + in_quotes(name);
    if (keys.contains(name)) throw bad_input(what + " is there twice", at);
    keys[name] = value(value_type(what), what, true);
  }

  std::uint32_t value_type(const std::string& what) {
    const std::string at = in_.where();
    const auto type = in_.number<std::uint32_t>("the type of " + what);
    if (type < kValueTypes) return type;
    throw bad_input(what + " has a value of type " + std::to_string(type) + ", which is not known",
                    at, kCutShort);
  }

  Json value(std::uint32_t type, const std::string& what, bool arrays) {
    switch (type) {
      case kU8:
        return in_.number<std::uint8_t>(what);
      case kI8:
        return in_.number<std::int8_t>(what);
      case kU16:
        return in_.number<std::uint16_t>(what);
      case kI16:
        return in_.number<std::int16_t>(what);
      case kU32:
        return in_.number<std::uint32_t>(what);
      case kI32:
        return in_.number<std::int32_t>(what);
      case kF32:
        return decimal(in_.number<float>(what));
      case kBool:
        return in_.number<std::uint8_t>(what) != 0;
      case kText:
        return in_.text(what, kMostHeaderBytes);
      case kU64:
        return in_.number<std::uint64_t>(what);
      case kI64:
        return in_.number<std::int64_t>(what);
      case kF64:
        return in_.number<double>(what);
      default:
        if (!arrays) throw bad_input(what + " is an array of arrays", in_.where());
        return array(what);
    }
  }

  Json array(const std::string& what) {
    const std::uint32_t type = value_type(what);
    const std::string at = in_.where();
    const auto size = in_.number<std::uint64_t>("the length of " + what);
    if (size > in_.rest() / kLeastBytes[type] || size > kMostElements - elements_) {
      throw bad_input(what + " is an array of " + std::to_string(size) + " elements, more than " +
                          (size > in_.rest() / kLeastBytes[type] ? "the file has room for"
                                                                 : "eight million in all"),
                      at, kCutShort);
    }
    elements_ += size;
    Json list = Json::array();
    list.get_ref<Json::array_t&>().reserve(size);
    for (std::uint64_t n = 0; n < size; ++n) {
      ask(n);
      list.push_back(value(type, what, false));
    }
    return list;
  }

  void read_tensor(std::uint64_t n) {
    ask(n);
    const std::string at = in_.where();
    Info info;
    TensorEntry& entry = info.entry;
    entry.name = in_.text("the name of a tensor", kLongestName);
    const std::string what = "tensor " + in_quotes(entry.name);
    if (!names_.emplace(entry.name, n).second) throw bad_input(what + " is there twice", at);
    const auto dimensions = in_.number<std::uint32_t>(what);
    if (dimensions > kMostDimensions) {
      throw bad_input(what + " has " + std::to_string(dimensions) + " dimensions", at, kCutShort);
    }
    for (std::uint32_t d = 0; d < dimensions; ++d) {
      const auto size = in_.number<std::uint64_t>(what);
      if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        throw bad_input(what + " has a dimension of " + std::to_string(size), at, kCutShort);
      }
      entry.shape.insert(entry.shape.begin(), static_cast<std::int64_t>(size));  // fastest first
    }
    const auto type = in_.number<std::uint32_t>(what);
    entry.offset = in_.number<std::uint64_t>(what);
    info.type = ggml_type(type);
    entry.dtype_name = ggml_type_name(type);
    set_sizes(info, what, at);
    infos_.push_back(std::move(info));
  }

  static void set_sizes(Info& info, const std::string& what, const std::string& at) {
    TensorEntry& entry = info.entry;
    const auto count = checked_element_count(entry.shape);
    std::uint64_t bytes = 0;
    // No block has more than 8 bytes a value.
    if (!count || __builtin_mul_overflow(*count, std::uint64_t{8}, &bytes)) {
      throw bad_input(what + " has the shape " + shape_text(entry.shape) + ", which is too large",
                      at, kCutShort);
    }
    if (info.type == nullptr) return;
    const GgmlType& type = *info.type;
    const std::int64_t row = entry.shape.empty() ? 1 : entry.shape.back();
    if (row % type.values != 0) {
      throw bad_input(what + " of type " + entry.dtype_name + " has rows of " +
                          std::to_string(row) + " values, which are no whole blocks of " +
                          std::to_string(type.values),
                      at);
    }
    info.bytes = *count / type.values * type.bytes;
    entry.decoded = type.decode != nullptr;
    entry.dtype = entry.decoded ? DType::f32 : type.plain;
    entry.size = *count * item_size(entry.dtype);
  }

  std::uint64_t alignment() const {
    const auto found = keys.find("general.alignment");
    if (found == keys.end()) return 32;
    const bool whole = found->is_number_unsigned();
    const std::uint64_t value = whole ? found->get<std::uint64_t>() : 0;
    if (value > 0 && value <= (1u << 20) && (value & (value - 1)) == 0) return value;
    throw bad_input("general.alignment is " +
                        shortened(found->dump(-1, ' ', false, Json::error_handler_t::replace)) +
                        ", and must be a power of two",
                    in_.where(), kCutShort);
  }

  // From the start of the data to the start of the file; no overlap, no gap but padding.
  void place_tensors() {
    const std::uint64_t step = alignment();
    const std::uint64_t begin = (in_.position() + step - 1) / step * step;
    const std::uint64_t size = file_size_ > begin ? file_size_ - begin : 0;
    std::sort(infos_.begin(), infos_.end(), [](const Info& a, const Info& b) {
      return a.entry.offset != b.entry.offset ? a.entry.offset < b.entry.offset : a.bytes < b.bytes;
    });
    std::uint64_t covered = 0;
    for (std::size_t n = 0; n < infos_.size(); ++n) {
      Info& info = infos_[n];
      // What a type that is not known takes is seen by where the next tensor begins.
      const std::uint64_t next = n + 1 < infos_.size() ? infos_[n + 1].entry.offset : size;
      check_place(n, covered, begin, step);
      if (info.type == nullptr) {
        info.bytes = next > info.entry.offset ? next - info.entry.offset : 0;
        info.entry.size = info.bytes;
      }
      if (info.entry.offset > size || info.bytes > size - info.entry.offset) {
        throw bad_input("tensor " + in_quotes(info.entry.name) + " ends past the end of the file",
                        in_.where(begin + std::min(info.entry.offset, size)), kCutShort);
      }
      covered = info.entry.offset + info.bytes;
      info.entry.offset += begin;
    }
    const std::uint64_t padded = (covered + step - 1) / step * step;
    if (!infos_.empty() && size > padded) {
      throw bad_input(
          "the file has " + std::to_string(size - padded) + " bytes after its last tensor",
          in_.where(begin + padded));
    }
    for (Info& info : infos_) {
      tensors.push_back(std::move(info.entry));
      types.push_back(info.type);
    }
  }

  void check_place(std::size_t n, std::uint64_t covered, std::uint64_t begin,
                   std::uint64_t step) const {
    const TensorEntry& entry = infos_[n].entry;
    const std::string name = "tensor " + in_quotes(entry.name);
    if (entry.offset % step != 0) {
      throw bad_input(name + " begins " + std::to_string(entry.offset) +
                          " bytes into the data, no multiple of the alignment of " +
                          std::to_string(step),
                      in_.where(), kCutShort);
    }
    if (entry.offset < covered) {
      throw bad_input("tensors " + in_quotes(infos_[n - 1].entry.name) + " and " +
                          in_quotes(entry.name) + " overlap in the file",
                      in_.where(begin + entry.offset));
    }
    if (entry.offset - covered >= step) {
      throw bad_input(
          "there is a gap of " + std::to_string(entry.offset - covered) + " bytes before " + name,
          in_.where(begin + covered), kCutShort);
    }
  }

  Cursor in_;
  const OpenOptions& options_;
  std::uint64_t file_size_, tensor_count_ = 0, key_count_ = 0, elements_ = 0;
  std::unordered_map<std::string, std::uint64_t> names_;
  std::vector<Info> infos_;
};

// One tensor in blocks.
class BlockTensor : public PackedTensor {
 public:
  BlockTensor(const ReadOnlyFile& file, std::uint64_t offset, const GgmlType& type)
      : file_(file), offset_(offset), type_(type) {}

  std::uint64_t step() const override { return type_.values; }

  void decode(std::uint64_t first, std::span<float> out) const override {
    const std::uint64_t blocks = out.size() / type_.values;
    std::vector<std::byte> bytes(blocks * type_.bytes);
    file_.read(offset_ + first / type_.values * type_.bytes, bytes);
    for (std::uint64_t n = 0; n < blocks; ++n) {
      type_.decode(bytes.data() + n * type_.bytes, out.data() + n * type_.values);
    }
  }

 private:
  const ReadOnlyFile& file_;
  std::uint64_t offset_;
  const GgmlType& type_;
};

}  // namespace

struct GgufFile::Contents {
  ReadOnlyFile file;
  Json keys;
  std::vector<TensorEntry> tensors;
  std::vector<const GgmlType*> types;
  std::map<std::string, std::string> texts;
  std::unordered_map<std::string_view, std::size_t> by_name;

  explicit Contents(const std::filesystem::path& path) : file(path) {}

  void read_header(const OpenOptions& options) {
    GgufHeader reader(file, options);
    reader.read();
    keys = std::move(reader.keys);
    tensors = std::move(reader.tensors);
    types = std::move(reader.types);
    for (std::size_t i = 0; i < tensors.size(); ++i) by_name.emplace(tensors[i].name, i);
    for (const auto& [name, value] : keys.items()) {
      if (value.is_string()) texts[name] = value.get<std::string>();
    }
  }

  BlockTensor blocks_of(const TensorEntry& entry) const {
    return {file, entry.offset, *types.at(by_name.at(entry.name))};
  }
};

GgufFile::GgufFile(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

GgufFile GgufFile::open(const std::filesystem::path& path, const OpenOptions& options) {
  auto contents = std::make_unique<Contents>(path);
  contents->read_header(options);
  return GgufFile(std::move(contents));
}

const std::filesystem::path& GgufFile::path() const { return contents_->file.path(); }
const std::vector<TensorEntry>& GgufFile::tensors() const { return contents_->tensors; }
const Json& GgufFile::keys() const { return contents_->keys; }

const TensorEntry* GgufFile::find(std::string_view name) const {
  const auto it = contents_->by_name.find(name);
  return it == contents_->by_name.end() ? nullptr : &contents_->tensors[it->second];
}

const std::map<std::string, std::string>& GgufFile::metadata() const { return contents_->texts; }

void GgufFile::read_part(const TensorEntry& entry, std::uint64_t begin,
                         std::span<std::byte> out) const {
  check_part(entry, begin, out.size());
  contents_->file.check_unchanged();
  if (entry.decoded) {
    const auto count = static_cast<std::uint64_t>(entry.element_count());
    read_packed(contents_->blocks_of(entry), count, begin, out);
  } else {
    contents_->file.read(entry.offset + begin, out);
  }
  contents_->file.check_unchanged();
}

void GgufFile::visit(const TensorEntry& entry, const Visit& visit) const {
  if (!entry.decoded) return TensorFile::visit(entry, visit);
  contents_->file.check_unchanged();
  const auto count = static_cast<std::uint64_t>(entry.element_count());
  visit_packed(contents_->blocks_of(entry), count, visit);
  contents_->file.check_unchanged();
}

bool is_gguf_file(const std::filesystem::path& path) {
  try {
    const ReadOnlyFile file(path);
    std::array<std::byte, 4> magic;
    if (file.size() < magic.size()) return false;
    file.read(0, magic);
    return std::memcmp(magic.data(), kGgufMagic.data(), magic.size()) == 0;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace phasescope::formats
