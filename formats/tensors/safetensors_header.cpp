#include "formats/tensors/safetensors_header.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "formats/error.h"
#include "formats/json_events.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kEntriesBetweenCancelChecks = 4096;

// Reads the header event by event, so that a header of 99 MB never becomes a tree in memory.
//   { "__metadata__": {string: string},
//     NAME: {"dtype": string, "shape": [unsigned], "data_offsets": [begin, end]} }
class HeaderReader : public JsonEvents {
 public:
  HeaderReader(const std::string& where, const OpenOptions& options)
      : JsonEvents(where, kMaxDepth), options_(options) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool key(std::string& name) override {
    if (skipping() && depth() > 2) return true;
    if (depth() == 1) {
      begin_entry(name);
    } else if (in_metadata_) {
      if (header_.metadata.contains(name)) {
        refuse("the metadata key " + in_quotes(name) + " is there twice");
      }
      field_ = name;
    } else {
      begin_field(name);
    }
    return true;
  }

  bool start_object(std::size_t size) override {
    JsonEvents::start_object(size);
    if (skipping()) return true;
    if (depth() > 2) refuse_value("an object");
    return true;
  }

  bool end_object() override {
    if (depth() == 2 && !in_metadata_) finish_entry();
    if (depth() == 2) in_metadata_ = false;
    return JsonEvents::end_object();
  }

  bool start_array(std::size_t size) override {
    JsonEvents::start_array(size);
    if (skipping()) return true;
    if (depth() == 1) refuse("the header is an array, and it must be a JSON object");
    const bool list_field = depth() == 3 && (field_ == "shape" || field_ == "data_offsets");
    if (in_metadata_ || !list_field) refuse_value("an array");
    in_list_ = true;
    return true;
  }

  bool end_array() override {
    if (depth() == 3) in_list_ = false;
    return JsonEvents::end_array();
  }

  bool string(std::string& value) override {
    if (skipping()) return true;
    if (in_metadata_ && depth() == 2) {
      header_.metadata[field_] = value;
    } else if (depth() == 2 && field_ == "dtype") {
      entry_.dtype_name = value;
    } else {
      refuse_value("a string");
    }
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (skipping()) return true;
    if (!in_list_) refuse_value("a number");
    if (field_ == "shape") {
      entry_.shape.push_back(checked_dimension(value));
    } else if (offsets_.size() == 2) {
      refuse("tensor " + in_quotes(entry_.name) + " has more than two data_offsets");
    } else {
      offsets_.push_back(value);
    }
    return true;
  }

  bool number_integer(std::int64_t value) override {
    return skipping() || refuse_value("the negative number " + std::to_string(value));
  }
  bool number_float(double, const std::string& text) override {
    return skipping() || refuse_value("the fraction or huge number " + shortened(text));
  }
  bool boolean(bool) override { return skipping() || refuse_value("true or false"); }
  bool null() override { return skipping() || refuse_value("null"); }

 private:
  // Inside the value of a field this version does not know.
  bool skipping() const { return skip_field_ && depth() >= 2; }

  void begin_entry(const std::string& name) {
    in_metadata_ = name == "__metadata__";
    skip_field_ = false;
    field_.clear();
    if (!names_.insert(name).second) {
      refuse("the tensor key " + in_quotes(name) + " is there twice");
    }
    if (in_metadata_) return;
    if (header_.tensors.size() >= kMaxTensors) refuse("the file lists more than 1,000,000 tensors");
    if (header_.tensors.size() % kEntriesBetweenCancelChecks == 0 && options_.cancelled &&
        options_.cancelled()) {
      throw cancelled("opening was cancelled");
    }
    entry_ = {};
    entry_.name = name;
    offsets_.clear();
    fields_seen_ = 0;
  }

  void begin_field(const std::string& name) {
    static constexpr std::string_view kFields[] = {"dtype", "shape", "data_offsets"};
    const auto it = std::find(std::begin(kFields), std::end(kFields), name);
    skip_field_ = it == std::end(kFields);
    if (skip_field_) return;
    const unsigned bit = 1u << (it - std::begin(kFields));
    if (fields_seen_ & bit) {
      refuse(in_quotes(name) + " of tensor " + in_quotes(entry_.name) + " is there twice");
    }
    fields_seen_ |= bit;
    field_ = name;
  }

  void finish_entry() {
    skip_field_ = false;
    if (fields_seen_ != 7) {
      refuse("tensor " + in_quotes(entry_.name) + " lacks its dtype, shape or data_offsets");
    }
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1]) {
      refuse("tensor " + in_quotes(entry_.name) + " has data_offsets that are not [begin, end]");
    }
    entry_.dtype = dtype_from_name(entry_.dtype_name);
    entry_.offset = offsets_[0];
    entry_.size = offsets_[1] - offsets_[0];
    check_size();
    header_.tensors.push_back(std::move(entry_));
  }

  void check_size() const {
    const std::string tensor = "tensor " + in_quotes(entry_.name);
    const auto count = checked_element_count(entry_.shape);
    std::uint64_t bytes = 0;
    if (!count || __builtin_mul_overflow(*count, item_size(entry_.dtype), &bytes)) {
      refuse(tensor + " has the shape " + shape_text(entry_.shape) + ", which is too large");
    }
    if (entry_.dtype != DType::unsupported && bytes != entry_.size) {
      refuse(tensor + " of type " + entry_.dtype_name + " and shape " + shape_text(entry_.shape) +
             " needs " + std::to_string(bytes) + " bytes, but its data_offsets give " +
             std::to_string(entry_.size));
    }
  }

  std::int64_t checked_dimension(std::uint64_t value) const {
    if (value > std::uint64_t(std::numeric_limits<std::int64_t>::max())) {
      refuse("tensor " + in_quotes(entry_.name) + " has a dimension of " + std::to_string(value));
    }
    return static_cast<std::int64_t>(value);
  }

  bool refuse_value(const std::string& what) const {
    if (depth() == 0) refuse("the header is " + what + ", and it must be a JSON object");
    if (in_metadata_) {
      refuse(depth() == 1 ? "__metadata__ must be an object of strings, but is " + what
                          : "__metadata__ must hold strings alone, but holds " + what);
    }
    const std::string field = field_.empty() ? "the entry" : in_quotes(field_);
    refuse(field + " of tensor " + in_quotes(entry_.name) + " is or holds " + what);
  }

  const OpenOptions& options_;
  SafetensorsHeader header_;
  std::unordered_set<std::string> names_;
  TensorEntry entry_;
  std::vector<std::uint64_t> offsets_;
  std::string field_;
  unsigned fields_seen_ = 0;
  bool in_metadata_ = false;
  bool in_list_ = false;
  bool skip_field_ = false;
};

// The bytes must be covered from the first to the last without hole or overlap.
void check_layout(const std::vector<TensorEntry>& sorted, std::uint64_t data_size,
                  std::uint64_t data_begin, const std::string& where) {
  std::uint64_t covered = 0;
  const TensorEntry* before = nullptr;
  for (const TensorEntry& entry : sorted) {
    const std::string at = where + ", byte " + std::to_string(data_begin + entry.offset);
    if (entry.offset < covered) {
      throw bad_input("tensors " + in_quotes(before->name) + " and " + in_quotes(entry.name) +
                          " overlap in the file",
                      at);
    }
    if (entry.offset > covered) {
      throw bad_input("there is a gap of " + std::to_string(entry.offset - covered) +
                          " bytes before tensor " + in_quotes(entry.name),
                      at);
    }
    covered = entry.offset + entry.size;
    if (covered > data_size) {
      throw bad_input("tensor " + in_quotes(entry.name) + " ends " +
                          std::to_string(covered - data_size) + " bytes past the end of the file",
                      at, "the file is cut short; copy or download it again");
    }
    before = &entry;
  }
  if (covered != data_size) {
    throw bad_input(
        "the file has " + std::to_string(data_size - covered) + " bytes after its last tensor",
        where + ", byte " + std::to_string(data_begin + covered));
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_begin,
                                           std::uint64_t file_size, const std::string& where,
                                           const OpenOptions& options) {
  HeaderReader reader(where, options);
  reader.parse(json, data_begin - json.size());
  SafetensorsHeader header = reader.take();
  // Of tensors that begin at one byte the empty ones come first, or they would seem to overlap.
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return a.offset != b.offset ? a.offset < b.offset : a.size < b.size;
            });
  check_layout(header.tensors, file_size - data_begin, data_begin, where);
  for (TensorEntry& entry : header.tensors) entry.offset += data_begin;
  return header;
}

}  // namespace phasescope::formats
