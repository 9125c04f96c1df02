#include "formats/tensors/torch_file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "formats/crc32.h"
#include "formats/error.h"
#include "formats/read_only_file.h"
#include "formats/tensors/pickle_machine.h"
#include "formats/tensors/strided.h"
#include "formats/tensors/torch_state.h"
#include "formats/tensors/zip_directory.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

constexpr std::uint64_t kMaxPickleBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kBlockBytes = 1 << 20;
constexpr std::string_view kZipStart = "PK\3\4";
// 0x1950a86a20f9469cfc6c, the first pickle of the older form, as LONG1 has it.
constexpr std::string_view kLegacyMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::int64_t kLegacyProtocol = 1001;
constexpr char kProto = '\x80';

// Where a storage's bytes are.
struct StoragePlace {
  ZipRecord record;  // of the older form: without a CRC
  bool has_crc = false;
};

// A file's tensors, their offsets counted from the start of the file.
struct Found {
  TorchState state;
  std::vector<StoragePlace> places;  // one for each storage
};

Error big_endian(const std::string& where) {
  return bad_input("the file was saved on a big-endian machine, which is not read", where,
                   "load it with torch on such a machine and save it as safetensors");
}

std::string first_bytes(const ReadOnlyFile& file, std::uint64_t most) {
  std::string bytes(std::min(file.size(), most), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// ---- the zip form: ROOT/data.pkl, ROOT/byteorder, ROOT/data/KEY ----

class ZipForm {
 public:
  ZipForm(const ReadOnlyFile& file, const OpenOptions& options) : file_(file), options_(options) {
    records_ = read_zip_directory(file, options);
    for (const ZipRecord& record : records_) by_name_.emplace(record.name, &record);
  }

  Found read() {
    root_ = find_root();
    refuse_torchscript();
    refuse_compressed();
    if (const ZipRecord* order = find("byteorder")) {
      if (order->size > 16 || read_record(file_, *order) != "little") throw big_endian(where());
    }
    const ZipRecord& pickle = *find("data.pkl");
    if (pickle.size > kMaxPickleBytes) {
      throw bad_input("the record data.pkl has " + std::to_string(pickle.size) +
                          " bytes, and at most " + std::to_string(kMaxPickleBytes) + " are read",
                      where());
    }
    const std::string bytes = read_record(file_, pickle);
    const std::string place = where() + ", record " + shortened(pickle.name);
    Found found{torch_state(read_pickle(bytes, 0, place, options_), where()), {}};
    for (const TorchStorage& storage : found.state.storages) {
      found.places.push_back({record_of(storage), true});
    }
    return found;
  }

 private:
  std::string where() const { return file_.path().string(); }

  const ZipRecord* find(const std::string& name) const {
    const auto it = by_name_.find(root_ + name);
    return it == by_name_.end() ? nullptr : it->second;
  }

  // "ROOT/" of the one record ROOT/data.pkl.
  std::string find_root() const {
    std::optional<std::string> root;
    for (const ZipRecord& record : records_) {
      const std::size_t slash = record.name.find('/');
      if (slash == std::string::npos || record.name.substr(slash + 1) != "data.pkl") continue;
      if (root) throw bad_input("the zip file holds more than one data.pkl", where());
      root = record.name.substr(0, slash + 1);
    }
    if (!root) {
      throw bad_input("the zip file holds no data.pkl and is no checkpoint of torch.save", where());
    }
    return *root;
  }

  void refuse_torchscript() const {
    const bool code = std::any_of(records_.begin(), records_.end(), [&](const ZipRecord& record) {
      return record.name.starts_with(root_ + "code/");
    });
    if (code || find("constants.pkl")) {
      throw bad_input("this is a TorchScript program and not a checkpoint", where(),
                      "nothing in the file was run; save model.state_dict()");
    }
  }

  void refuse_compressed() const {
    for (const ZipRecord& record : records_) {
      if (record.method == 0) continue;
      throw bad_input(
          "the record " + in_quotes(record.name) + " is compressed, and only stored ones are read",
          where() + ", byte " + std::to_string(record.offset),
          "torch.save stores its records; load the file and save it again");
    }
  }

  ZipRecord record_of(const TorchStorage& storage) const {
    const ZipRecord* record = find("data/" + storage.key);
    if (!record) {
      throw bad_input("the storage " + in_quotes(storage.key) + " has no record in the file",
                      where(), "the file is damaged; copy or download it again");
    }
    if (record->size < storage.size) {
      throw bad_input("the record " + in_quotes(record->name) + " has " +
                          std::to_string(record->size) + " bytes, but its tensors need " +
                          std::to_string(storage.size),
                      where() + ", byte " + std::to_string(record->offset),
                      "the file is damaged; copy or download it again");
    }
    return *record;
  }

  const ReadOnlyFile& file_;
  const OpenOptions& options_;
  std::vector<ZipRecord> records_;
  std::unordered_map<std::string, const ZipRecord*> by_name_;
  std::string root_;
};

// ---- the form before it: five pickles, then for each key a count and the elements ----

class LegacyForm {
 public:
  LegacyForm(const ReadOnlyFile& file, const OpenOptions& options)
      : file_(file), options_(options), bytes_(first_bytes(file, kMaxPickleBytes)) {}

  Found read() {
    const PickleValue magic = root_of(next_pickle());
    if (magic.kind != PickleKind::long_integer || magic.text != kLegacyMagic) {
      throw bad_input("the file is a pickle, but none of torch.save", where_,
                      "nothing in the file was run; save model.state_dict() with torch.save");
    }
    const PickleValue protocol = root_of(next_pickle());
    if (protocol.kind != PickleKind::integer || protocol.number != kLegacyProtocol) {
      throw bad_input("the file has another protocol of torch.save than 1001", where_);
    }
    check_byte_order(next_pickle());
    Found found{torch_state(next_pickle(), where_), {}};
    const Pickle keys = next_pickle();
    place_storages(keys, found);
    return found;
  }

 private:
  Pickle next_pickle() {
    Pickle pickle = read_pickle(bytes_, at_, where_, options_);
    at_ = pickle.end;
    return pickle;
  }

  static PickleValue root_of(const Pickle& pickle) { return pickle.value(pickle.root); }

  void check_byte_order(const Pickle& system) const {
    const PickleValue& dict = system.value(system.root);
    for (std::size_t i = 0; dict.kind == PickleKind::dict && i + 1 < dict.items.size(); i += 2) {
      const PickleValue& value = system.item(dict, i + 1);
      if (system.item(dict, i).text != "little_endian") continue;
      if (value.kind == PickleKind::boolean && value.number == 0) throw big_endian(where_);
    }
  }

  void place_storages(const Pickle& pickle, Found& found) const {
    std::unordered_map<std::string_view, std::size_t> by_key;
    for (std::size_t i = 0; i < found.state.storages.size(); ++i) {
      by_key.emplace(found.state.storages[i].key, i);
    }
    found.places.resize(found.state.storages.size());
    const PickleValue& keys = pickle.value(pickle.root);
    if (keys.kind != PickleKind::list) refuse("the list of storage keys is no list", at_);
    std::uint64_t at = at_;
    for (std::size_t i = 0; i < keys.items.size(); ++i) {
      const std::string_view key = pickle.item(keys, i).text;
      const auto it = by_key.find(key);
      if (it == by_key.end()) {
        refuse("the storage " + in_quotes(key) + " belongs to no tensor or is there twice", at);
      }
      found.places[it->second].record = storage_at(at, found.state.storages[it->second]);
      const ZipRecord& record = found.places[it->second].record;
      at = record.offset + record.size;
      by_key.erase(it);
    }
    if (!by_key.empty()) {
      refuse("the storage " + in_quotes(by_key.begin()->first) + " is not in the file", at);
    }
  }

  ZipRecord storage_at(std::uint64_t at, const TorchStorage& storage) const {
    std::array<std::byte, 8> field = {};
    if (file_.size() - at < field.size()) refuse_cut(storage, at);
    file_.read(at, field);
    std::uint64_t count = 0, bytes = 0;
    std::memcpy(&count, field.data(), field.size());
    if (__builtin_mul_overflow(count, std::uint64_t{storage.item}, &bytes) ||
        bytes < storage.size) {
      refuse("the storage " + in_quotes(storage.key) + " has " + std::to_string(count) +
                 " elements, but its tensors need " + std::to_string(storage.size / storage.item),
             at);
    }
    at += field.size();
    if (bytes > file_.size() - at) refuse_cut(storage, at);
    return {storage.key, at, bytes, 0};
  }

  [[noreturn]] void refuse(const std::string& sentence, std::uint64_t byte,
                           const std::string& hint = {}) const {
    throw bad_input(sentence, where_ + ", byte " + std::to_string(byte), hint);
  }
  [[noreturn]] void refuse_cut(const TorchStorage& storage, std::uint64_t byte) const {
    refuse("the storage " + in_quotes(storage.key) + " runs past the end of the file", byte,
           "the file is cut short; copy or download it again");
  }

  const ReadOnlyFile& file_;
  const OpenOptions& options_;
  const std::string bytes_;
  const std::string where_ = file_.path().string();
  std::size_t at_ = 0;
};

Found read_found(const ReadOnlyFile& file, const OpenOptions& options) {
  const std::string start = first_bytes(file, 512);
  if (start.starts_with(kZipStart)) return ZipForm(file, options).read();
  if (start.size() > 262 && start.substr(257, 5) == "ustar") {
    throw bad_input("the file has the tar form of torch before 0.1.10, which is not read",
                    file.path().string(), "load it with torch and save it again");
  }
  // A pickle of protocol 0 or 1 may begin with a GLOBAL or a MARK; the machine says what is wrong.
  if (start.starts_with(kProto) || start.starts_with('c') || start.starts_with('(')) {
    return LegacyForm(file, options).read();
  }
  throw bad_input("the file is neither a zip file nor a pickle, so torch.save did not write it",
                  file.path().string(), "copy or download it again");
}

// Groups of two and more names for the same elements, maybe transposed.
std::vector<std::vector<std::string>> find_tied(const TorchState& state) {
  using Key = std::tuple<std::size_t, std::uint64_t, std::string,
                         std::vector<std::pair<std::int64_t, std::int64_t>>>;
  std::map<Key, std::vector<std::string>> groups;
  for (const TorchTensor& tensor : state.tensors) {
    if (tensor.entry.size == 0) continue;
    groups[{tensor.storage, tensor.entry.offset, tensor.entry.dtype_name,
            traversal_of(tensor.entry.shape, tensor.strides)}]
        .push_back(tensor.entry.name);
  }
  std::vector<std::vector<std::string>> tied;
  for (auto& [key, names] : groups) {
    if (names.size() > 1) tied.push_back(std::move(names));
  }
  return tied;
}

}  // namespace

struct TorchFile::Contents {
  // How a tensor lies in its storage.
  struct Layout {
    std::size_t storage = 0;
    bool contiguous = true;
    std::vector<std::int64_t> strides;
  };

  ReadOnlyFile file;
  std::vector<TensorEntry> tensors;
  std::vector<Layout> layouts;  // one for each tensor
  std::vector<StoragePlace> places;
  mutable std::vector<std::atomic<bool>> verified;  // one for each place: its CRC fits
  std::unordered_map<std::string_view, std::size_t> by_name;
  std::map<std::string, std::string> metadata;
  std::vector<std::vector<std::string>> tied;
  std::vector<std::string> warnings;

  explicit Contents(const std::filesystem::path& path) : file(path) {}

  void take(Found found) {
    tied = find_tied(found.state);
    warnings = std::move(found.state.warnings);
    places = std::move(found.places);
    verified = std::vector<std::atomic<bool>>(places.size());
    tensors.reserve(found.state.tensors.size());
    for (TorchTensor& tensor : found.state.tensors) {
      tensor.entry.offset += places[tensor.storage].record.offset;
      const bool contiguous = is_contiguous(tensor.entry.shape, tensor.strides);
      layouts.push_back({tensor.storage, contiguous, std::move(tensor.strides)});
      tensors.push_back(std::move(tensor.entry));
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) by_name.emplace(tensors[i].name, i);
  }

  const Layout& layout_of(const TensorEntry& entry) const {
    return layouts[by_name.at(entry.name)];
  }

  StridedTensor strided(const TensorEntry& entry, const Layout& layout) const {
    return {entry.offset, item_size(entry.dtype), entry.shape, layout.strides};
  }

  // Reads bytes of the file that are within the storage; the first time its CRC is checked too.
  void read_checked(std::uint64_t offset, std::span<std::byte> out, std::size_t storage) const {
    const ZipRecord& record = places[storage].record;
    if (offset != record.offset || out.size() != record.size) {
      verify(storage);
      return file.read(offset, out);
    }
    file.read(offset, out);
    if (!places[storage].has_crc || verified[storage]) return;
    if (crc32(out) != record.crc) throw bad_crc(file, record);
    verified[storage] = true;
  }

  // Two threads may both do it; that costs time alone.
  void verify(std::size_t storage) const {
    if (!places[storage].has_crc || verified[storage]) return;
    const ZipRecord& record = places[storage].record;
    std::vector<std::byte> block(std::min(record.size, kBlockBytes));
    std::uint32_t crc = 0;
    for (std::uint64_t begin = 0; begin < record.size;) {
      const auto part = std::span(block).first(std::min(record.size - begin, kBlockBytes));
      file.read(record.offset + begin, part);
      crc = crc32(part, crc);
      begin += part.size();
    }
    if (crc != record.crc) throw bad_crc(file, record);
    verified[storage] = true;
  }
};

TorchFile::TorchFile(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
TorchFile::~TorchFile() = default;

std::unique_ptr<TorchFile> TorchFile::open(const std::filesystem::path& path,
                                           const OpenOptions& options) {
  auto contents = std::make_unique<Contents>(path);
  contents->take(read_found(contents->file, options));
  contents->file.check_unchanged();
  return std::unique_ptr<TorchFile>(new TorchFile(std::move(contents)));
}

const std::filesystem::path& TorchFile::path() const { return contents_->file.path(); }
const std::vector<TensorEntry>& TorchFile::tensors() const { return contents_->tensors; }
const std::map<std::string, std::string>& TorchFile::metadata() const {
  return contents_->metadata;
}
const std::vector<std::vector<std::string>>& TorchFile::tied() const { return contents_->tied; }
const std::vector<std::string>& TorchFile::warnings() const { return contents_->warnings; }

const TensorEntry* TorchFile::find(std::string_view name) const {
  const auto it = contents_->by_name.find(name);
  return it == contents_->by_name.end() ? nullptr : &contents_->tensors[it->second];
}

void TorchFile::read_part(const TensorEntry& entry, std::uint64_t begin,
                          std::span<std::byte> out) const {
  check_part(entry, begin, out.size());
  const Contents::Layout& layout = contents_->layout_of(entry);
  const ReadOnlyFile& file = contents_->file;
  file.check_unchanged();
  if (layout.contiguous) {
    contents_->read_checked(entry.offset + begin, out, layout.storage);
  } else {
    const std::size_t item = item_size(entry.dtype);
    if (begin % item != 0 || out.size() % item != 0) {
      throw internal_error("[torch file] a part of " + shortened(entry.name) +
                           " that cuts its elements");
    }
    contents_->verify(layout.storage);
    read_strided(file, contents_->strided(entry, layout), begin / item, out);
  }
  file.check_unchanged();
}

void TorchFile::visit(const TensorEntry& entry, const Visit& visit) const {
  const Contents::Layout& layout = contents_->layout_of(entry);
  if (layout.contiguous) return TensorFile::visit(entry, visit);
  check_part(entry, 0, entry.size);
  contents_->file.check_unchanged();
  contents_->verify(layout.storage);
  visit_strided(contents_->file, contents_->strided(entry, layout), visit);
  contents_->file.check_unchanged();
}

bool is_torch_file(const std::filesystem::path& path) {
  for (const char* extension : {".bin", ".pt", ".pth", ".ckpt"}) {
    if (path.extension() == extension) return true;
  }
  const std::string start = first_bytes(ReadOnlyFile(path), 8);
  // A safetensors file begins with a length whose upper bytes are zero.
  const bool pickle =
      start.size() == 8 && start[0] == kProto && start.substr(4) != std::string(4, '\0');
  return pickle || start.starts_with(kZipStart);
}

}  // namespace phasescope::formats
