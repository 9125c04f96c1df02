#pragma once
// Answers of a worker kept in a file, by the question: what the first session asks, so that a
// window can show it before there is a worker.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/file_system.h"
#include "protocol/reply.h"

namespace phasescope::app {

class Recording {
 public:
  // Reads a .safetensors file that write() made. Throws formats::Error where it cannot be read.
  static Recording read(const std::filesystem::path& path);
  void write(formats::FileSystem& files, const std::filesystem::path& path) const;

  void keep(const std::string& method, const nlohmann::json& params, const protocol::Reply& reply);
  // nullptr where this was not asked. A picture's size does not matter: what was recorded is as
  // large as its model.
  const protocol::Reply* find(const std::string& method, const nlohmann::json& params) const;
  std::size_t size() const { return replies_.size(); }

 private:
  std::map<std::string, protocol::Reply> replies_;  // by the question's key
};

}  // namespace phasescope::app
