#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/crc32.h"

// Files of torch.save put together byte by byte, sound ones and others.

namespace phasescope::formats {

template <typename T>
std::string little_bytes(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  return bytes;
}

inline std::uint32_t crc_of(std::string_view bytes) {
  return crc32(std::as_bytes(std::span(bytes)));
}

// ---- pickles of protocol 2 ----

namespace pickled {

inline const std::string kStart = "\x80\x02";

inline std::string text(std::string_view value) {
  return "X" + little_bytes(static_cast<std::uint32_t>(value.size())) + std::string(value);
}
inline std::string number(std::int64_t value) { return "\x8a\x08" + little_bytes(value); }
inline std::string global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string tuple(const std::vector<std::string>& items) {
  std::string bytes = "(";
  for (const std::string& item : items) bytes += item;
  return bytes + "t";
}
inline std::string numbers(const std::vector<std::int64_t>& values) {
  std::vector<std::string> items;
  for (const std::int64_t value : values) items.push_back(number(value));
  return tuple(items);
}
inline std::string ordered_dict() { return global("collections", "OrderedDict") + ")R"; }

inline std::string storage(std::int64_t count, const std::string& type = "FloatStorage",
                           const std::string& key = "0", const std::string& view = "") {
  std::vector<std::string> id = {text("storage"), global("torch", type), text(key), text("cpu"),
                                 number(count)};
  if (!view.empty()) id.push_back(view);
  return tuple(id) + "Q";
}

inline std::string tensor(const std::string& storage, std::int64_t offset,
                          const std::vector<std::int64_t>& shape,
                          const std::vector<std::int64_t>& strides) {
  return global("torch._utils", "_rebuild_tensor_v2") +
         tuple(
             {storage, number(offset), numbers(shape), numbers(strides), "\x89", ordered_dict()}) +
         "R";
}

// A whole pickle of {name: value}.
inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string bytes = kStart + "}(";
  for (const auto& [name, value] : items) bytes += text(name) + value;
  return bytes + "u.";
}

}  // namespace pickled

// ---- zip files ----

struct ZipItem {
  std::string name, content;
  std::uint16_t method = 0, flags = 0;
  std::uint32_t crc_error = 0;    // added to the right CRC
  std::int64_t size_error = 0;    // added to both sizes of the directory
  std::int64_t packed_error = 0;  // added to the packed size of the directory
  std::int64_t offset_error = 0;  // added to the place of the local header
  bool zip64 = false;             // sizes and place in a zip64 field
  bool descriptor = false;        // sizes behind the data
  std::string local_name = {};    // where it is not the name
};

struct ZipEnd {
  bool zip64 = false;
  std::int64_t count_error = 0, size_error = 0, offset_error = 0;  // of the zip64 record
  std::string comment = {};
};

class ZipBuilder {
 public:
  void add(const ZipItem& item) {
    const std::uint64_t at = bytes_.size();
    const std::uint32_t crc = crc_of(item.content) + item.crc_error;
    const auto size = static_cast<std::uint32_t>(item.content.size());
    const auto flags = static_cast<std::uint16_t>(item.flags | (item.descriptor ? 8 : 0));
    const std::string& local = item.local_name.empty() ? item.name : item.local_name;
    bytes_ += "PK\3\4" + u16(20) + u16(flags) + u16(item.method) + u32(0);
    bytes_ += item.descriptor ? u32(0) + u32(0) + u32(0) : u32(crc) + u32(size) + u32(size);
    bytes_ += u16(local.size()) + u16(0) + local + item.content;
    if (item.descriptor) bytes_ += "PK\7\10" + u32(crc) + u32(size) + u32(size);
    directory_ += "PK\1\2" + u16(20) + u16(20) + u16(flags) + u16(item.method) + u32(0) + u32(crc);
    const std::uint64_t stated = item.content.size() + static_cast<std::uint64_t>(item.size_error);
    const std::uint64_t packed = stated + static_cast<std::uint64_t>(item.packed_error);
    const std::uint64_t place = at + static_cast<std::uint64_t>(item.offset_error);
    std::string extra;
    if (item.zip64) {
      const std::string wide = little_bytes(stated) + little_bytes(packed) + little_bytes(place);
      extra = u16(1) + u16(wide.size()) + wide;
      directory_ += u32(~0u) + u32(~0u);
    } else {
      directory_ += u32(packed) + u32(stated);
    }
    directory_ += u16(item.name.size()) + u16(extra.size()) + u16(0) + u16(0) + u16(0) + u32(0);
    directory_ += (item.zip64 ? u32(~0u) : u32(place)) + item.name + extra;
    ++count_;
  }

  std::string file(const ZipEnd& end = {}) const {
    std::string file = bytes_ + directory_;
    const std::uint64_t at = bytes_.size(), size = directory_.size(), end_at = file.size();
    if (end.zip64) {
      const std::uint64_t count = count_ + static_cast<std::uint64_t>(end.count_error);
      file += "PK\6\6" + little_bytes(std::uint64_t{44}) + u16(45) + u16(45) + u32(0) + u32(0);
      file += little_bytes(count) + little_bytes(count);
      file += little_bytes(size + static_cast<std::uint64_t>(end.size_error));
      file += little_bytes(at + static_cast<std::uint64_t>(end.offset_error));
      file += "PK\6\7" + u32(0) + little_bytes(end_at) + u32(1);
    }
    const bool wide = end.zip64;
    file += "PK\5\6" + u16(0) + u16(0) + u16(wide ? 0xFFFF : count_) + u16(wide ? 0xFFFF : count_);
    file += (wide ? u32(~0u) : u32(size)) + (wide ? u32(~0u) : u32(at));
    return file + u16(end.comment.size()) + end.comment;
  }

 private:
  static std::string u16(std::uint64_t value) {
    return little_bytes(static_cast<std::uint16_t>(value));
  }
  static std::string u32(std::uint64_t value) {
    return little_bytes(static_cast<std::uint32_t>(value));
  }

  std::string bytes_, directory_;
  std::uint64_t count_ = 0;
};

// The zip form: data.pkl, byteorder and storages "0", "1", ...
inline std::string zip_form(const std::string& pickle, const std::vector<std::string>& storages,
                            const std::string& byte_order = "little") {
  ZipBuilder zip;
  zip.add({.name = "archive/data.pkl", .content = pickle});
  zip.add({.name = "archive/byteorder", .content = byte_order});
  for (std::size_t i = 0; i < storages.size(); ++i) {
    zip.add({.name = "archive/data/" + std::to_string(i), .content = storages[i]});
  }
  return zip.file();
}

// The form before it; `item` is the size of the storages' elements.
inline std::string legacy_form(const std::string& pickle, const std::vector<std::string>& storages,
                               std::size_t item = 4, bool little_endian = true) {
  using namespace pickled;
  std::string file = kStart + "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  file += kStart + number(1001) + ".";
  file += dict({{"little_endian", little_endian ? "\x88" : "\x89"}});
  file += pickle + kStart + "](";
  for (std::size_t i = 0; i < storages.size(); ++i) file += text(std::to_string(i));
  file += "e.";
  for (const std::string& storage : storages) {
    file += little_bytes(std::uint64_t{storage.size() / item}) + storage;
  }
  return file;
}

}  // namespace phasescope::formats
