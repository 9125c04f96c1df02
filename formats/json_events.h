#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"

namespace phasescope::formats {

// Base of the readers that take JSON event by event: knows the byte offset, caps the depth, and
// turns every fault into an Error. Derived classes override what they need and call the base's
// start_/end_ functions.
class JsonEvents : public nlohmann::json_sax<Json> {
 public:
  JsonEvents(std::string where, int max_depth) : where_(std::move(where)), max_depth_(max_depth) {}

  // Runs over the whole text; throws Error "bad_input". `offset` is where the text stands in its
  // file: errors name bytes of the file.
  void parse(std::string_view text, std::size_t offset = 0);

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool key(std::string&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& exception) override;

 protected:
  // Ends the parse with an Error at the current byte.
  [[noreturn]] void refuse(const std::string& sentence, const std::string& hint = {}) const;
  // What stands behind the byte offset in where(), such as the key being read.
  virtual std::string place() const { return {}; }
  int depth() const { return depth_; }
  const std::string& where() const { return where_; }

 private:
  bool enter();
  bool leave();
  [[noreturn]] void refuse_at(std::size_t byte, const std::string& sentence,
                              const std::string& hint) const;

  std::string where_;
  int max_depth_;
  int depth_ = 0;
  std::size_t offset_ = 0;
  std::size_t position_ = 0;  // bytes of the text read so far
};

}  // namespace phasescope::formats
