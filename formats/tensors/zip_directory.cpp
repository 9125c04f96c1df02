#include "formats/tensors/zip_directory.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "formats/crc32.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kEntrySignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22;
constexpr std::uint64_t kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr std::uint64_t kMaxComment = 0xFFFF;
constexpr std::uint16_t kEncrypted = 1 << 0, kSizesBehindData = 1 << 3, kMasked = 1 << 13;
constexpr std::uint16_t kZip64Extra = 1;
// "Look into the zip64 field instead."
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;
constexpr std::uint64_t kMaxDirectoryBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kMaxRecords = 1'000'000;
constexpr std::size_t kRecordsBetweenCancelChecks = 4096;

template <typename T>
T little(std::string_view bytes, std::uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Where the directory lies.
struct Directory {
  std::uint64_t offset = 0, size = 0, records = 0;
  std::uint64_t end = 0;  // where what follows it begins
};

// One entry of the directory.
struct Entry {
  ZipRecord record;            // offset still missing
  std::uint64_t header = 0;    // of its local header
  std::uint64_t unpacked = 0;  // bytes it would have once decompressed
};

class DirectoryReader {
 public:
  DirectoryReader(const ReadOnlyFile& file, const OpenOptions& options)
      : file_(file), options_(options) {}

  std::vector<ZipRecord> records() {
    directory_ = find_directory();
    const std::string bytes = part(directory_.offset, directory_.size);
    std::vector<Entry> entries;
    entries.reserve(directory_.records);
    std::unordered_set<std::string> names;
    std::uint64_t at = 0;
    for (std::uint64_t i = 0; i < directory_.records; ++i) {
      if (i % kRecordsBetweenCancelChecks == 0) check_cancelled();
      entries.push_back(read_entry(bytes, at));
      if (!names.insert(entries.back().record.name).second) {
        refuse("the record " + in_quotes(entries.back().record.name) +
                   " is in the zip directory twice",
               directory_.offset + at);
      }
    }
    if (at != bytes.size()) refuse("the zip directory is longer than its records", directory_.end);
    return located(std::move(entries));
  }

 private:
  [[noreturn]] void refuse(const std::string& sentence, std::uint64_t byte,
                           const std::string& hint = {}) const {
    throw bad_input(sentence, file_.path().string() + ", byte " + std::to_string(byte), hint);
  }

  void check_cancelled() const {
    if (options_.cancelled && options_.cancelled()) throw cancelled("opening was cancelled");
  }

  std::string part(std::uint64_t offset, std::uint64_t size) const {
    std::string bytes(size, '\0');
    file_.read(offset, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }

  // The end record stands at the end of the file, with only its own comment behind it.
  Directory find_directory() const {
    const std::uint64_t tail = std::min(file_.size(), kEndBytes + kMaxComment);
    const std::string bytes = part(file_.size() - tail, tail);
    for (std::uint64_t at = bytes.size(); at-- > 0;) {
      if (bytes.size() - at < kEndBytes || little<std::uint32_t>(bytes, at) != kEndSignature ||
          at + kEndBytes + little<std::uint16_t>(bytes, at + 20) != bytes.size()) {
        continue;
      }
      return checked(directory_at(bytes.substr(at, kEndBytes), file_.size() - tail + at));
    }
    refuse("the zip file has no directory at its end", file_.size(),
           "the file is cut short; copy or download it again");
  }

  Directory directory_at(const std::string& end, std::uint64_t at) const {
    if (little<std::uint16_t>(end, 4) != 0 || little<std::uint16_t>(end, 6) != 0 ||
        little<std::uint16_t>(end, 8) != little<std::uint16_t>(end, 10)) {
      refuse("the zip file is one of several parts", at);
    }
    const Directory small{little<std::uint32_t>(end, 16), little<std::uint32_t>(end, 12),
                          little<std::uint16_t>(end, 10), at};
    const std::optional<Directory> big = directory64_before(at);
    const bool in_64 = small.offset == kIn64 || small.size == kIn64 || small.records == 0xFFFF;
    if (!big) {
      if (in_64) refuse("the zip file lacks the zip64 record that it refers to", at);
      return small;
    }
    const auto agrees = [](std::uint64_t a, std::uint64_t marker, std::uint64_t b) {
      return a == marker || a == b;
    };
    if (!agrees(small.offset, kIn64, big->offset) || !agrees(small.size, kIn64, big->size) ||
        !agrees(small.records, 0xFFFF, big->records)) {
      refuse("the zip64 record and the end record of the zip file state different sizes", at);
    }
    return *big;
  }

  std::optional<Directory> directory64_before(std::uint64_t end) const {
    if (end < kLocator64Bytes) return std::nullopt;
    const std::uint64_t locator_at = end - kLocator64Bytes;
    const std::string locator = part(locator_at, kLocator64Bytes);
    if (little<std::uint32_t>(locator, 0) != kLocator64Signature) return std::nullopt;
    const auto at = little<std::uint64_t>(locator, 8);
    if (at > locator_at || locator_at - at < kEnd64Bytes) {
      refuse("the zip64 record of the zip file lies outside it", locator_at);
    }
    const std::string bytes = part(at, kEnd64Bytes);
    if (little<std::uint32_t>(bytes, 0) != kEnd64Signature ||
        little<std::uint64_t>(bytes, 4) != locator_at - at - 12) {
      refuse("the zip64 record of the zip file is damaged", at);
    }
    if (little<std::uint32_t>(bytes, 16) != 0 || little<std::uint32_t>(bytes, 20) != 0 ||
        little<std::uint64_t>(bytes, 24) != little<std::uint64_t>(bytes, 32)) {
      refuse("the zip file is one of several parts", at);
    }
    return Directory{little<std::uint64_t>(bytes, 48), little<std::uint64_t>(bytes, 40),
                     little<std::uint64_t>(bytes, 32), at};
  }

  // Nothing of a stated size is allocated before it is known to be in the file.
  Directory checked(const Directory& found) const {
    if (found.offset > found.end || found.size != found.end - found.offset) {
      refuse("the zip directory of " + std::to_string(found.size) + " bytes at byte " +
                 std::to_string(found.offset) + " does not end where its end record begins",
             found.end, "the file is cut short or damaged; copy or download it again");
    }
    if (found.size > kMaxDirectoryBytes || found.records > kMaxRecords) {
      refuse("the zip file lists more than 1,000,000 records", found.offset);
    }
    if (found.records > found.size / kEntryBytes) {
      refuse("the zip directory of " + std::to_string(found.size) + " bytes cannot hold " +
                 std::to_string(found.records) + " records",
             found.offset);
    }
    return found;
  }

  // The entry at bytes[at]; moves `at` behind it.
  Entry read_entry(std::string_view bytes, std::uint64_t& at) const {
    const std::uint64_t place = directory_.offset + at;
    if (bytes.size() - at < kEntryBytes || little<std::uint32_t>(bytes, at) != kEntrySignature) {
      refuse("the zip directory is damaged", place);
    }
    const std::string_view fixed = bytes.substr(at, kEntryBytes);
    const auto name = little<std::uint16_t>(fixed, 28), extra = little<std::uint16_t>(fixed, 30);
    const std::uint64_t length = kEntryBytes + name + extra + little<std::uint16_t>(fixed, 32);
    if (length > bytes.size() - at) refuse("the zip directory is damaged", place);
    Entry entry;
    entry.record.name = bytes.substr(at + kEntryBytes, name);
    entry.record.crc = little<std::uint32_t>(fixed, 16);
    if (little<std::uint16_t>(fixed, 8) & (kEncrypted | kMasked)) {
      refuse("the record " + in_quotes(entry.record.name) + " is encrypted", place);
    }
    entry.record.method = little<std::uint16_t>(fixed, 10);
    read_sizes(entry, fixed, bytes.substr(at + kEntryBytes + name, extra), place);
    at += length;
    return entry;
  }

  // Sizes and offset, from the zip64 field where the 32-bit ones say so.
  void read_sizes(Entry& entry, std::string_view fixed, std::string_view extra,
                  std::uint64_t place) const {
    entry.record.size = little<std::uint32_t>(fixed, 20);
    entry.unpacked = little<std::uint32_t>(fixed, 24);
    entry.header = little<std::uint32_t>(fixed, 42);
    std::string_view wide = zip64_field(extra);
    for (std::uint64_t* value : {&entry.unpacked, &entry.record.size, &entry.header}) {
      if (*value != kIn64) continue;
      if (wide.size() < 8) {
        refuse("the record " + in_quotes(entry.record.name) + " lacks its zip64 sizes", place);
      }
      *value = little<std::uint64_t>(wide, 0);
      wide.remove_prefix(8);
    }
    if (entry.record.method == 0 && entry.unpacked != entry.record.size) {
      refuse("the record " + in_quotes(entry.record.name) + " is stored, but states " +
                 std::to_string(entry.record.size) + " bytes packed and " +
                 std::to_string(entry.unpacked) + " unpacked",
             place);
    }
  }

  static std::string_view zip64_field(std::string_view extra) {
    while (extra.size() >= 4) {
      const auto id = little<std::uint16_t>(extra, 0), size = little<std::uint16_t>(extra, 2);
      extra.remove_prefix(4);
      if (size > extra.size()) return {};
      if (id == kZip64Extra) return extra.substr(0, size);
      extra.remove_prefix(size);
    }
    return {};
  }

  // Finds the bytes of every record behind its local header.
  std::vector<ZipRecord> located(std::vector<Entry> entries) const {
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.header < b.header; });
    std::vector<ZipRecord> records;
    records.reserve(entries.size());
    std::uint64_t free_from = 0;
    for (Entry& entry : entries) {
      if (records.size() % kRecordsBetweenCancelChecks == 0) check_cancelled();
      if (entry.header < free_from) {
        refuse("the records " + in_quotes(records.back().name) + " and " +
                   in_quotes(entry.record.name) + " overlap in the zip file",
               entry.header);
      }
      entry.record.offset = data_offset(entry);
      free_from = entry.record.offset + entry.record.size;
      records.push_back(std::move(entry.record));
    }
    return records;
  }

  std::uint64_t data_offset(const Entry& entry) const {
    const std::string name = in_quotes(entry.record.name);
    const std::uint64_t space =
        entry.header < directory_.offset ? directory_.offset - entry.header : 0;
    if (space < kLocalBytes + entry.record.name.size()) {
      refuse("the record " + name + " lies outside the zip file's data", entry.header);
    }
    const std::string head = part(entry.header, kLocalBytes + entry.record.name.size());
    if (little<std::uint32_t>(head, 0) != kLocalSignature ||
        little<std::uint16_t>(head, 8) != entry.record.method ||
        (little<std::uint16_t>(head, 6) & kEncrypted) ||
        little<std::uint16_t>(head, 26) != entry.record.name.size() ||
        std::string_view(head).substr(kLocalBytes) != entry.record.name) {
      refuse("the local header of the record " + name + " does not fit the zip directory",
             entry.header);
    }
    check_local_sizes(entry, head);
    const std::uint64_t before = head.size() + little<std::uint16_t>(head, 28);
    if (before > space || entry.record.size > space - before) {
      refuse("the record " + name + " of " + std::to_string(entry.record.size) +
                 " bytes runs past the zip file's data",
             entry.header, "the file is cut short or damaged; copy or download it again");
    }
    return entry.header + before;
  }

  void check_local_sizes(const Entry& entry, const std::string& head) const {
    // A data descriptor behind the data has them then.
    if (little<std::uint16_t>(head, 6) & kSizesBehindData) return;
    const auto agrees = [](std::uint32_t stated, std::uint64_t true_value) {
      return stated == kIn64 || stated == true_value;
    };
    if (little<std::uint32_t>(head, 14) != entry.record.crc ||
        !agrees(little<std::uint32_t>(head, 18), entry.record.size) ||
        !agrees(little<std::uint32_t>(head, 22), entry.unpacked)) {
      refuse("the local header of the record " + in_quotes(entry.record.name) +
                 " states other sizes or another CRC than the zip directory",
             entry.header);
    }
  }

  const ReadOnlyFile& file_;
  const OpenOptions& options_;
  Directory directory_;
};

}  // namespace

std::vector<ZipRecord> read_zip_directory(const ReadOnlyFile& file, const OpenOptions& options) {
  return DirectoryReader(file, options).records();
}

std::string read_record(const ReadOnlyFile& file, const ZipRecord& record) {
  std::string bytes(record.size, '\0');
  file.read(record.offset, std::as_writable_bytes(std::span(bytes)));
  if (crc32(std::as_bytes(std::span(bytes))) != record.crc) throw bad_crc(file, record);
  return bytes;
}

Error bad_crc(const ReadOnlyFile& file, const ZipRecord& record) {
  return bad_input("the record " + in_quotes(record.name) + " has another CRC than its contents",
                   file.path().string() + ", byte " + std::to_string(record.offset),
                   "the file is damaged, or was saved with set_crc32_options(False); copy or "
                   "download it again");
}

}  // namespace phasescope::formats
