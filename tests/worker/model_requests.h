// Requests about models and analyses, handled in this process on small random models.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "formats/error.h"
#include "protocol/error_info.h"
#include "tests/worker/fake_context.h"
#include "worker/handle_analysis.h"
#include "worker/handle_compare.h"
#include "worker/handle_convert.h"
#include "worker/handle_models.h"

namespace phasescope::worker {

inline std::vector<Handler> handlers() {
  auto all = models_handlers();
  for (auto more : {convert_handlers(), analysis_handlers(), compare_handlers()}) {
    for (Handler& handler : more) all.push_back(std::move(handler));
  }
  return all;
}

inline protocol::Reply ask(const std::string& method, const nlohmann::json& params,
                           FakeContext& context) {
  return ask(handlers(), method, params, context);
}

inline protocol::Reply ask(const std::string& method, const nlohmann::json& params) {
  FakeContext context;
  return ask(method, params, context);
}

inline std::string code_of(const std::string& method, const nlohmann::json& params) {
  return code_of(handlers(), method, params);
}

inline nlohmann::json rope_with(nlohmann::json params) {
  params["model"] = model_folder("rope");
  return params;
}

inline std::string message_of(const std::string& method, const nlohmann::json& params) {
  try {
    ask(method, params);
  } catch (const formats::Error& error) {
    return error.full_text();
  } catch (const protocol::RequestError& error) {
    return error.what();
  }
  return "nothing was refused";
}

inline bool notes(const protocol::Reply& reply, const std::string& part) {
  const nlohmann::json& provenance = reply.result["provenance"];
  const nlohmann::json& one = provenance.is_array() ? provenance[0] : provenance;
  return one["note"].get<std::string>().find(part) != std::string::npos;
}

inline std::string headless_folder() {
  model::ModelConfig config = byte_config("rope");
  config.head.present = false;
  return model_folder("headless", config);
}

inline std::string both_ways_folder(const std::string& encoding) {
  model::ModelConfig config = byte_config(encoding);
  config.attention.causal = false;
  return model_folder("both_ways_" + encoding, config);
}

}  // namespace phasescope::worker
