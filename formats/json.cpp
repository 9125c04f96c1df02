#include "formats/json.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/json_events.h"
#include "formats/text_input.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

// Builds the document; `open_` holds the containers being filled, outermost first.
class DocumentBuilder : public JsonEvents {
 public:
  DocumentBuilder(const std::string& where, JsonRules rules)
      : JsonEvents(where, rules.max_depth), rules_(rules) {}

  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }

  bool key(std::string& name) override {
    keys_.back() = std::move(name);
    const Json& object = *open_.back();
    if (rules_.duplicate_keys == DuplicateKeys::refuse && object.contains(keys_.back())) {
      refuse("the key \"" + shortened(keys_.back()) + "\" is there twice");
    }
    return true;
  }

  bool start_object(std::size_t size) override {
    JsonEvents::start_object(size);
    return open(Json::object());
  }
  bool start_array(std::size_t size) override {
    JsonEvents::start_array(size);
    return open(Json::array());
  }
  bool end_object() override { return close() && JsonEvents::end_object(); }
  bool end_array() override { return close() && JsonEvents::end_array(); }

 private:
  Json* place_value(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& container = *open_.back();
    if (container.is_array()) {
      container.push_back(std::move(value));
      return &container.back();
    }
    Json& slot = container[keys_.back()];
    slot = std::move(value);
    return &slot;
  }

  bool put(Json value) {
    place_value(std::move(value));
    return true;
  }

  bool open(Json container) {
    Json* placed = place_value(std::move(container));
    open_.push_back(placed);
    keys_.emplace_back();
    return true;
  }

  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  std::string place() const override {
    std::string path;
    for (const std::string& name : keys_) {
      if (name.empty()) continue;
      path += path.empty() ? "key " : ".";
      path += shortened(name, 40);
    }
    return path;
  }

  JsonRules rules_;
  Json root_;
  std::vector<Json*> open_;
  std::vector<std::string> keys_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& where, JsonRules rules) {
  DocumentBuilder builder(where, rules);
  builder.parse(text);
  return builder.take();
}

Json json_from_file(const std::filesystem::path& path, JsonRules rules, std::uintmax_t max_bytes) {
  return parse_json(read_text_file(path, max_bytes), path.string(), rules);
}

}  // namespace phasescope::formats
