#include "worker/failure.h"

#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "formats/error.h"
#include "protocol/progress.h"

namespace phasescope::worker {

namespace {

namespace code = protocol::error_code;

Failure failure(std::string_view code, std::string message, std::string hint = {}) {
  return {{std::string(code), std::move(message), "", std::move(hint)}, false};
}

Failure describe_known(std::exception_ptr exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const protocol::RequestError& error) {
    return {error.info(), false};
  } catch (const formats::Error& error) {
    return {{error.code(), error.message(), error.where(), error.hint()}, false};
  } catch (const protocol::Cancelled&) {
    return failure(code::cancelled, "the request was cancelled");
  } catch (const FatalError& error) {
    return {{std::string(code::internal), error.what(), "", ""}, true};
  } catch (const std::bad_alloc&) {
    return failure(code::out_of_memory, "there was not enough memory",
                   "ask for fewer rows, columns or layers, or a shorter text");
  } catch (const nlohmann::json::exception& error) {
    return failure(code::bad_usage, std::string("a parameter has the wrong form: ") + error.what());
  } catch (const std::invalid_argument& error) {
    return failure(code::bad_input, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return {
        {std::string(code::bad_input), "a file or folder cannot be used: " + error.code().message(),
         error.path1().string(), ""},
        false};
  } catch (const std::exception& error) {
    return failure(code::internal, error.what());
  } catch (...) {
    return failure(code::internal, "something went wrong that has no description");
  }
}

}  // namespace

Failure describe_failure(std::exception_ptr exception, const std::vector<Translator>& translators) {
  for (const auto& translate : translators) {
    if (auto known = translate(exception)) return std::move(*known);
  }
  return describe_known(exception);
}

}  // namespace phasescope::worker
