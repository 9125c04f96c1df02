// What the tests of handlers share: a context without a window, and small random models in folders.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/file_system.h"
#include "model/checkpoints/open_model.h"
#include "protocol/error_info.h"
#include "worker/handlers.h"
#include "worker/model_cache.h"

namespace phasescope::worker {

class FakeContext final : public RequestContext {
 public:
  void progress(double fraction, std::string_view text) override {
    last_fraction = fraction;
    fractions.push_back(fraction);
    said.emplace_back(text);
    if (cancel_when_told) cancel = true;
  }
  bool cancelled() const override { return cancel; }
  std::span<const protocol::TensorRef> tensors() const override { return sent; }
  const WorkerSettings& settings() const override { return settings_; }
  ModelCache& models() const override { return models_; }
  const nlohmann::json& facts() const override { return facts_; }

  bool cancel = false;
  bool cancel_when_told = false;  // once anything has been said of the progress
  std::vector<std::string> said;
  std::vector<double> fractions;  // beside what was said
  double last_fraction = -1;
  std::vector<protocol::TensorRef> sent;

 private:
  WorkerSettings settings_;
  mutable ModelCache models_{WorkerSettings{}};
  nlohmann::json facts_ = {{"version", "9.9.9"}};
};

inline model::ModelConfig byte_config(const std::string& encoding) {
  model::ModelConfig config;
  config.vocab_size = 256;
  config.width = 16, config.layers = 2;
  config.heads = config.kv_heads = 2, config.head_dim = 8;
  config.ffn_width = 24, config.context = 64;
  config.encoding.key = encoding;
  config.tokenizer = {{"type", "bytes"}, {"vocab_size", 256}, {"bos", 0}};
  return config;
}

// Folders of random models by name, written once.
inline std::string model_folder(const std::string& name, const model::ModelConfig& config) {
  static std::map<std::string, std::string> folders;
  std::string& folder = folders[name];
  if (!folder.empty()) return folder;
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / ("phasescope_random_" + name);
  std::filesystem::create_directories(path);
  const auto model = model::random_model(config, 3);
  model::save_model(formats::real_file_system(), path, model->config(), model->encoding(),
                    model->decoder.weights());
  return folder = path.string();
}
inline std::string model_folder(const std::string& encoding) {
  return model_folder(encoding, byte_config(encoding));
}

// The answer of the one of `handlers` that has this name.
inline protocol::Reply ask(const std::vector<Handler>& handlers, const std::string& method,
                           const nlohmann::json& params, FakeContext& context) {
  for (const Handler& handler : handlers) {
    if (handler.name == method) return handler.run(params, context);
  }
  throw std::runtime_error("no method " + method);
}

// The code of the error that a request ends with; empty where it has an answer.
inline std::string code_of(const std::vector<Handler>& handlers, const std::string& method,
                           const nlohmann::json& params, FakeContext& context) {
  try {
    ask(handlers, method, params, context);
  } catch (const formats::Error& error) {
    EXPECT_FALSE(error.message().empty());
    return error.code();
  } catch (const protocol::RequestError& error) {
    EXPECT_FALSE(error.info().message.empty());
    return error.info().code;
  } catch (const protocol::Cancelled&) {
    return "cancelled";
  }
  return "";
}

inline std::string code_of(const std::vector<Handler>& handlers, const std::string& method,
                           const nlohmann::json& params) {
  FakeContext context;
  return code_of(handlers, method, params, context);
}

}  // namespace phasescope::worker
